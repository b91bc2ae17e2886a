"""Which repository a directory belongs to, by its `.git` folder or file. Nothing of the repository is run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GIT_FILE_CHARS = 4096  # how much is read of a work tree's `.git` file, which names the repository


def project_of(work_dir: Path) -> str:
    """The top of the repository's main work tree; the directory itself if it is in no repository, or is gone."""
    with suppress(OSError, ValueError):
        for folder in (work_dir, *work_dir.parents):
            mark = folder / ".git"
            if mark.is_dir():
                return str(folder)
            if mark.is_file():
                return str(_main_tree(folder, mark))
    return str(work_dir)


def in_main_tree(work_dir: Path) -> str:
    """The directory's path; for a linked work tree, the path of the same folder in the main work tree."""
    with suppress(OSError, ValueError):
        for folder in (work_dir, *work_dir.parents):
            mark = folder / ".git"
            if mark.is_dir():
                break
            if mark.is_file():
                return str(_main_tree(folder, mark) / work_dir.relative_to(folder))
    return str(work_dir)


def repository(work_dir: Path) -> Iterator[Path]:
    """The work directory and the folders above it, up to the repository's root; only itself if it is in none."""
    root = root_of(work_dir)
    for folder in (work_dir, *work_dir.parents):
        yield folder
        if folder == root:
            return


def root_of(work_dir: Path) -> Path:
    """The root of the repository or work tree that contains the directory; without one, the directory itself."""
    return repository_root(work_dir) or work_dir


def repository_root(work_dir: Path) -> Path | None:
    """None: the directory is in no repository.

    A `.git` of a stranger above the directory does not count: on a shared machine, anybody may make one in /tmp.
    """
    owners = {os.geteuid()}
    with suppress(OSError):
        owners.add(work_dir.stat().st_uid)
    with suppress(OSError, ValueError):
        for folder in (work_dir, *work_dir.parents):
            with suppress(FileNotFoundError, NotADirectoryError):
                return folder if (folder / ".git").lstat().st_uid in owners else None
    return None


def _main_tree(folder: Path, mark: Path) -> Path:
    with mark.open(encoding="utf-8", errors="replace") as file:
        git_dir = folder / file.read(GIT_FILE_CHARS).strip().removeprefix("gitdir:").strip()
    if git_dir.parent.name != "worktrees":
        return folder  # a submodule, or a repository whose `.git` is kept elsewhere
    common = git_dir.parent.parent
    return common.parent if common.name == ".git" else common
