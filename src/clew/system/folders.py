"""Folders that only their owner can read (law 8). `mkdir(0o700, parents=True)` does not protect the parents."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """Makes the folder and its missing parents. An existing folder is not changed. Raises OSError."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(0o700)
        folder.chmod(0o700)  # regardless of the umask
    except FileExistsError:  # another process was faster
        if not folder.is_dir():
            raise
