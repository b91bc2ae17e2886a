"""The private folder in which an agent finds the project's rules: copies, made again before each start of an agent.

Whatever an agent may have changed in it is undone first, so that an edited copy is never taken for the project's rules.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from clew.core.durations import DAY_S
from clew.system.files import write_whole
from clew.system.folders import make_private

UNUSED_S = 90 * DAY_S  # a folder that no turn has used for this long is removed
PRIVATE = 0o700


def write_rules(folder: Path, below: str, files: Mapping[str, str]) -> None:
    """Makes `folder` hold exactly these files, in its folder `below`. Raises OSError.

    Also if the folder of all copies is somebody else's, who could change the rules before the agent reads them.
    """
    _check_own(folder.parent)
    make_private(folder.parent)
    with _locked(folder.parent):
        is_new = not os.path.lexists(folder)
        _fill(folder, Path(below), files)
        if is_new:
            _remove_unused(folder.parent)


def _fill(folder: Path, below: Path, files: Mapping[str, str]) -> None:
    here = folder
    for name in below.parts:
        _make_own(here)
        _remove_all_but(here, {name})
        here /= name
    _make_own(here)
    _remove_all_but(here, set(files))
    for name, text in files.items():
        _write(here / name, text.encode("utf-8", "replace"))
    os.utime(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Two turns may begin at the same time in one directory."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _check_own(folder: Path) -> None:
    """A link is removed: where it leads is nothing of ours, and unused folders are deleted there."""
    with suppress(FileNotFoundError):
        found = folder.lstat()
        if stat.S_ISLNK(found.st_mode):
            folder.unlink()
        elif found.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "It belongs to somebody else", str(folder))
        elif stat.S_IMODE(found.st_mode) != PRIVATE:
            folder.chmod(PRIVATE)


def _make_own(folder: Path) -> None:
    """Makes it a folder of ours that nobody else can enter. What else has that name is removed."""
    with suppress(FileNotFoundError):
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            if stat.S_IMODE(found.st_mode) != PRIVATE:
                folder.chmod(PRIVATE)
            return
        _remove(folder)
    make_private(folder)


def _remove_all_but(folder: Path, names: set[str]) -> None:
    for entry in os.scandir(folder):
        if entry.name not in names:
            _remove(Path(entry.path))


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _write(path: Path, content: bytes) -> None:
    """Not written if it is as it should be: another turn's agent may be reading it."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        is_private = stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) == 0o600 and found.st_nlink == 1
        if is_private and found.st_size == len(content) and path.read_bytes() == content:
            return
        if not stat.S_ISREG(found.st_mode):
            _remove(path)
    write_whole(path, content)


def _remove_unused(folder: Path) -> None:
    """Work trees and repositories come and go."""
    oldest = time.time() - UNUSED_S
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                shutil.rmtree(entry.path, ignore_errors=True)
