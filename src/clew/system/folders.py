"""Folders for the owner alone (law 8). `mkdir(0o700, parents=True)` makes what is above for everybody."""

from __future__ import annotations

from pathlib import Path


def make_private(folder: Path) -> None:
    """The folder, and whatever is missing above it. One that is there is left as it is. Raises OSError."""
    if folder.is_dir():
        return
    make_private(folder.parent)
    try:
        folder.mkdir(0o700)
        folder.chmod(0o700)  # whatever the umask says
    except FileExistsError:  # another process was faster
        if not folder.is_dir():
            raise
