"""Finding an agent's program on this machine, and the options in its help. Every adapter uses both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from clew.agents.adapter import Binary
from clew.errors import AgentMissing
from clew.system.programs import is_program, on_path

_OPTION = r"(?<![\w-])--[a-z][a-z0-9-]+"  # `re` compiles this only when a binary is probed


def find(
    agent: str,
    names: Sequence[str],
    path_in_packages: str,
    package: str,
    hint: str,
    *,
    configured: str | None,
    environ: Mapping[str, str],
) -> Binary:
    """Tries the configured path, then the names on PATH, then the file `path_in_packages` of an installed wheel.

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
    for path in _installed(path_in_packages):
        if is_program(path):
            return Binary(str(path), package)
    raise AgentMissing(f"The {agent.capitalize()} CLI is not on this machine: no {names[0]} on PATH.", hint=hint)


def _installed(path_in_packages: str) -> Iterator[Path]:
    """Some wheels contain the CLI. They are not imported to find it, because importing them is slow."""
    import sys

    for folder in map(Path, sys.path):
        # Only where packages are installed: the work directory may be on the path too, and is not trusted.
        if folder.is_absolute() and folder.name in ("site-packages", "dist-packages"):
            yield folder / path_in_packages


def options_in(help_text: str) -> frozenset[str]:
    return frozenset(re.findall(_OPTION, help_text))
