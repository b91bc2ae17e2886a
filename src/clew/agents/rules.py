"""Where a project may keep its rules for agents. Names alone are looked at: no file is read, no link is followed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

FOLDERS_MOST = 50  # of a folder of rules


def of_names(folder: Path, *names: str) -> Iterator[Path]:
    """Those that are files with something in them. A link counts, wherever it leads."""
    for path in (folder / name for name in names):
        found = _stat(path)
        if found is not None and (stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_size > 0)):
            yield path


def is_folder(path: Path) -> bool:
    """A link to one is not."""
    found = _stat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def holds_markdown(folder: Path) -> bool:
    """Itself, or a folder in it."""
    return any(name.endswith(".md") for _, _, names in islice(os.walk(folder), FOLDERS_MOST) for name in names)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (OSError, ValueError):
        return None  # not there, or not for us
