"""Where Codex keeps prompts and skills. `codex exec` expands no prompts (measured); the TUI names them so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clew.agents.adapter import CommandFolder
from clew.core.expansion.command_file import FileSyntax


def command_folders(config_dir: str) -> Iterator[CommandFolder]:
    yield CommandFolder(Path(config_dir, "prompts"), syntax=FileSyntax.CODEX, prefix="prompts:")
    yield CommandFolder(Path(config_dir, "skills"), skills=True)
