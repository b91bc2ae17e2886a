"""Files of a repository in a folder, read without following a link: neither the file nor a folder above it may be one.

Nothing waits for a pipe, and nothing but a regular file is opened. So whoever made the repository does not choose what
is read outside of it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

from clew.core.rules.rules import Unreadable

LINK = "a link"
MAX_FOLDERS = 200  # that are searched for Markdown files
MAX_ENTRIES = 1000  # of each
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FolderFiles:
    """Implements `FileTree`."""

    def __init__(self, root: str) -> None:
        self._root = root

    async def read(self, path: str, limit: int) -> bytes | Unreadable | None:
        """At most `limit` bytes and one more."""
        return await asyncio.to_thread(self._read, path, limit)

    async def markdown(self, folder: str, limit: int) -> Sequence[tuple[str, Unreadable | None]]:
        return await asyncio.to_thread(self._markdown, folder, limit)

    def _read(self, path: str, limit: int) -> bytes | Unreadable | None:
        *folders, name = path.split("/")
        try:
            with ExitStack() as opened:
                folder = self._opened(opened, folders)
                if isinstance(folder, Unreadable):
                    return folder
                found = os.lstat(name, dir_fd=folder)
                if stat.S_ISLNK(found.st_mode):
                    return Unreadable(LINK, os.readlink(name, dir_fd=folder))
                if stat.S_ISDIR(found.st_mode):
                    return None
                if not stat.S_ISREG(found.st_mode):
                    return Unreadable("not a regular file")
                file = os.open(name, _FILE, dir_fd=folder)
                with os.fdopen(file, "rb") as reading:
                    if not stat.S_ISREG(os.fstat(file).st_mode):  # it was replaced meanwhile
                        return Unreadable("not a regular file")
                    return reading.read(limit + 1)
        except (OSError, ValueError) as error:
            return _unreadable(error)

    def _opened(self, opened: ExitStack, folders: Sequence[str]) -> int | Unreadable:
        """The last of the folders below the root, each opened in the one before."""
        folder = os.open(self._root, _FOLDER)
        opened.callback(os.close, folder)
        for place, name in enumerate(folders, start=1):
            if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
                return Unreadable(LINK, path="/".join(folders[:place]))
            folder = os.open(name, _FOLDER, dir_fd=folder)
            opened.callback(os.close, folder)
        return folder

    def _markdown(self, folder: str, limit: int) -> list[tuple[str, Unreadable | None]]:
        found: list[tuple[str, Unreadable | None]] = []
        try:
            found.extend(islice(self._entries(folder), limit))
        except (OSError, ValueError) as error:
            why = _unreadable(error)
            return [(folder, why)] if why is not None else []
        return sorted(found, key=lambda each: each[0])

    def _entries(self, folder: str) -> Iterator[tuple[str, Unreadable | None]]:
        """Breadth first. Links to folders come with the reason why they are not entered."""
        waiting = [folder]
        for searched, below in enumerate(waiting):
            if searched >= MAX_FOLDERS:
                yield below, Unreadable(f"more than {MAX_FOLDERS} folders of rules")
                return
            with ExitStack() as opened:
                here = self._opened(opened, below.split("/"))
                if isinstance(here, Unreadable):
                    yield below, here
                    continue
                with os.scandir(here) as entries:
                    listed = sorted(islice(entries, MAX_ENTRIES), key=lambda entry: entry.name)
                for entry in listed:
                    path = f"{below}/{entry.name}"
                    if entry.is_symlink() and not entry.name.endswith(".md"):
                        yield path, Unreadable(LINK)
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif entry.name.endswith(".md"):
                        yield path, None


def _unreadable(error: OSError | ValueError) -> Unreadable | None:
    if isinstance(error, ValueError) or error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return None
    if error.errno == errno.ELOOP:
        return Unreadable(LINK)
    return Unreadable(f"it cannot be read ({error.strerror})")
