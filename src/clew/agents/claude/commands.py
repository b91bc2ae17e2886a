"""Where Claude Code keeps slash commands and skills (measured: the user's own come first)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from clew.agents.adapter import CommandFolder
from clew.system.work_trees import repository


def command_folders(config_dir: str, work_dir: str) -> Iterator[CommandFolder]:
    """The user's, then those of each folder up to the root of the repository, the nearest first."""
    users = Path(os.path.realpath(config_dir))
    yield from _in(users, of_project=False)
    for folder in repository(Path(work_dir)):
        if (settings := folder / ".claude") != users:
            yield from _in(settings, of_project=True)


def _in(settings: Path, *, of_project: bool) -> Iterator[CommandFolder]:
    yield CommandFolder(settings / "commands", of_project)
    yield CommandFolder(settings / "skills", of_project, skills=True)
