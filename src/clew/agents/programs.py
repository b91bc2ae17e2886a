"""Looking for an agent's program on this machine. Every adapter's `find` goes the same way; the names are its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clew.agents.adapter import Binary
from clew.errors import AgentMissing


def find(
    agent: str,
    names: Sequence[str],
    packaged: str,
    package: str,
    hint: str,
    *,
    configured: str | None,
    environ: Mapping[str, str],
) -> Binary:
    """The configured path, then PATH by any of the names, then the one inside an installed wheel (`packaged` is where).

    Raises AgentMissing with the hint.
    """
    if configured:
        path = Path(configured).expanduser()
        if not is_program(path):
            raise AgentMissing(f"agents.{agent}.path is {configured}, and that is not an executable file.", hint=hint)
        return Binary(str(path.absolute()), "setting")
    for name in names:
        found = on_path(name, environ)
        if found is not None:
            return Binary(str(found), "PATH")
    for path in _installed(packaged):
        if is_program(path):
            return Binary(str(path), package)
    raise AgentMissing(f"The {agent.capitalize()} CLI is not on this machine: no {names[0]} on PATH.", hint=hint)


def on_path(name: str, environ: Mapping[str, str]) -> Path | None:
    """As `shutil.which`, which costs every turn an import."""
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        found = f"{folder or '.'}/{name}"  # a path object for each of a dozen folders would cost more than the look
        if is_program(found):
            return Path(found).absolute()
    return None


def is_program(path: Path | str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


def _installed(packaged: str) -> Iterator[Path]:
    """Wheels carry CLIs; the packages themselves are heavy and are not imported for them."""
    import sys

    for folder in map(Path, sys.path):
        # Only where packages are installed: the work directory may be on the path too, and belongs to anybody.
        if folder.is_absolute() and folder.name in ("site-packages", "dist-packages"):
            yield folder / packaged
