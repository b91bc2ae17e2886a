"""Files that are written whole or not at all, for their owner's eyes only (law 8)."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes, *, replace: bool = True) -> None:
    """The file has its name only when all of it is on the disk. Raises OSError.

    `replace=False`: FileExistsError when something has that name, even if it came in the meantime.
    """
    draft = write_draft(path, content)
    try:
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)  # unlike a rename, never over another file
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(path.parent)


def write_draft(path: Path, content: bytes) -> Path:
    """The content on the disk, in a new file beside `path`. The caller gives it its name, or removes it."""
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
    """So that the new name outlives a power cut, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
