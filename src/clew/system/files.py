"""Atomic writes of files that only their owner can read (law 8)."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Writes the file atomically: it gets its name only when its whole content is on the disk. Raises OSError.

    `replace=False`: FileExistsError if a file has that name, even one that was made during this call (where the file
    system has hard links).
    """
    draft = _write_draft(path, content)
    try:
        if replace:
            draft.replace(path)
        else:
            _give_new_name(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _give_new_name(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)  # unlike a rename, this never replaces another file
    except FileExistsError:
        raise
    except OSError as error:  # a file system without hard links: check and rename, which is not atomic
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
        draft.replace(path)


def _write_draft(path: Path, content: bytes) -> Path:
    """Writes the content to the disk, in a new file beside `path`."""
    draft = path.with_name(f".{path.name[:200]}.{os.urandom(8).hex()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def _sync_folder(folder: Path) -> None:
    """Makes sure that the new name is on the disk too, in case of a power cut.

    The file has its name by now, so errors are ignored: not every folder may be read, and not every file system (a
    share of another machine, for example) can sync a folder.
    """
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
