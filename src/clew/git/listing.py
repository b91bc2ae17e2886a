"""The files of a directory, for a person who picks one: what git knows or would add, else what a short walk finds."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Mapping

from clew.errors import ClewError
from clew.git.command import Git

LIMIT_S = 3.0  # a person waits for the list
MOST = 50_000  # files
WALKED = 20_000  # entries of a directory that is in no repository, where nothing says which files matter
PASSED_OVER = frozenset({"node_modules", "__pycache__", "venv"})


async def files_below(folder: str, environ: Mapping[str, str]) -> list[str]:
    """The paths of the files below the directory, relative to it. Files that git ignores are left out.

    `git ls-files` reads the index and the folders. It runs no filter and no hook, and no file-system monitor either.
    """
    git = Git(environ, needed_for="The list of files needs", instead="")
    options = ("-z", "--cached", "--others", "--exclude-standard")
    try:
        done = await git.attempt("ls-files", *options, cwd=folder, extra={}, limit_s=LIMIT_S)
    except ClewError:  # no git, or it takes too long
        return await asyncio.to_thread(_walked, folder)
    if done.status != 0:
        return await asyncio.to_thread(_walked, folder)
    names = dict.fromkeys(os.fsdecode(name) for name in done.out.split(b"\0"))
    return [name for name in names if name and not name.endswith("/")][:MOST]


def _walked(folder: str) -> list[str]:
    """The files near the top come first. Hidden folders and links to folders are not entered."""
    found: list[str] = []
    left, seen = deque([""]), 0
    while left and seen < WALKED:
        below = left.popleft()
        try:
            entries = os.scandir(os.path.join(folder, below))  # noqa: PTH118 - many entries, and only texts are needed
        except OSError:
            continue
        with entries:
            for entry in entries:
                seen += 1
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith(".") and entry.name not in PASSED_OVER:
                        left.append(path)
                elif entry.is_file(follow_symlinks=False):
                    found.append(path)
                if seen >= WALKED:
                    break
    return sorted(found)
