"""Where a project may keep its rules for agents. Only names are looked at: no file is read, no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

MAX_FOLDERS = 50  # how many folders are searched below a folder of rules


def rule_files(folder: Path, *names: str) -> Iterator[Path]:
    """The files of these names in the folder, if they are not empty. A link counts, wherever it points."""
    for path in (folder / name for name in names):
        found = _stat(path)
        if found is not None and (stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size > 0)):
            yield path


def is_folder(path: Path) -> bool:
    """Whether it is a folder, and not a link to one."""
    found = _stat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def holds_markdown(folder: Path) -> bool:
    """Whether there is a Markdown file in the folder or below it."""
    return any(name.endswith(".md") for _, _, names in islice(os.walk(folder), MAX_FOLDERS) for name in names)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (OSError, ValueError):
        return None  # it does not exist, or may not be read
