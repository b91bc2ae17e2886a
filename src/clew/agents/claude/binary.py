"""Finding the Claude CLI, and reading what it says of itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from clew.agents.adapter import Binary
from clew.core.decision import Abilities
from clew.errors import AgentMissing

NAMES = ("claude", "openclaude")  # the second is a fork with the same command line

_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
_VERSION = re.compile(r"(\d+\.\d+\.\d+\S*)\s*(?:\((.+)\))?")

INSTALL_HINT = (
    "Install it (npm install -g @anthropic-ai/claude-code, or pip install claude-agent-sdk), or set agents.claude.path."
)


def find(configured: str | None, environ: Mapping[str, str]) -> Binary:
    """The configured path, then PATH under either name, then the one inside an installed claude-agent-sdk."""
    if configured:
        path = Path(configured).expanduser()
        if not _is_program(path):
            raise AgentMissing(
                f"agents.claude.path is {configured}, and that is not an executable file.", hint=INSTALL_HINT
            )
        return Binary(str(path.absolute()), "setting")
    for name in NAMES:
        for folder in environ.get("PATH", os.defpath).split(os.pathsep):
            found = Path(folder or ".", name).absolute()
            if _is_program(found):
                return Binary(str(found), "PATH")
    for path in _bundled():
        if _is_program(path):
            return Binary(str(path), "claude-agent-sdk")
    raise AgentMissing("The Claude CLI is not on this machine: no claude on PATH.", hint=INSTALL_HINT)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _bundled() -> Iterator[Path]:
    """The SDK's wheel carries the CLI; the package itself is heavy and is not imported for it."""
    import sys

    for folder in map(Path, sys.path):
        # Only where packages are installed: the work directory may be on the path too, and belongs to anybody.
        if folder.is_absolute() and folder.name in ("site-packages", "dist-packages"):
            yield folder / "claude_agent_sdk" / "_bundled" / "claude"


def abilities(help_text: str, version_text: str) -> Abilities:
    flags = frozenset(_OPTION.findall(help_text))
    match = _VERSION.search(version_text)
    return Abilities(
        resume="--resume" in flags,
        choose_id="--session-id" in flags,
        is_agent={"--print", "--output-format", "--input-format"} <= flags,
        flags=flags,
        version=match.group(1) if match else "",
        product=(match.group(2) or "") if match else version_text.strip().partition("\n")[0][:80],
    )
