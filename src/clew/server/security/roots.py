"""Where work directories may be: anywhere, or only below the allowed roots. Links are followed before anything is
compared, so neither a link nor `..` leads out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from clew.core.thread import Thread
from clew.errors import NotFound, UsageError
from clew.server.problems import Refusal

MOST_LISTED = 1_000


class Roots:
    """Raises UsageError for a root that is no directory: nothing could ever be worked in."""

    def __init__(self, roots: Iterable[str | Path] = ()) -> None:
        self.paths = tuple(dict.fromkeys(_root(root) for root in roots))

    def resolved(self, path: str) -> str:
        """The real path of a directory that may be worked in. Raises UsageError, or Refusal outside of the roots."""
        real = _real(path)
        self.check(real)
        if not os.path.isdir(real):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
            raise UsageError(f"{path} is not a directory.", hint="Name an existing one.")
        return real

    def allow(self, path: str) -> bool:
        """Where it leads now: a directory may have become a link since it was chosen."""
        if not self.paths:
            return True
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return False
        return any(_is_below(real, root) for root in self.paths)

    def may_run(self, thread: Thread) -> bool:
        """May an agent be started for this thread?"""
        return self.allow(thread.cwd)

    def check(self, path: str) -> None:
        """Before whether it exists: what is outside of the roots is nobody's business."""
        if not self.allow(path):
            raise Refusal(
                403,
                "The directory is outside of the places that this daemon may work in.",
                hint=f"Allowed: {', '.join(self.paths)}.",
            )

    def begin_in(self, candidates: Iterable[str]) -> str:
        """The first directory of these that may be worked in; else the first root, else the home directory.

        The home directory and / count last: a service or a new terminal starts there, and nobody's work is there.
        """
        home = str(Path.home())
        nobodys = {os.path.realpath(home), os.sep}
        for path in candidates:
            if os.path.realpath(path) not in nobodys and self.allow(path) and Path(path).is_dir():
                return path
        return self.paths[0] if self.paths else home

    def listed(self, path: str | None) -> tuple[str, str | None, list[str]]:
        """A directory, the one above it if that is allowed, and the names of those in it; hidden ones are left out."""
        if not path:
            path = self.paths[0] if self.paths else str(Path.home())
        real = _real(path)
        self.check(real)
        try:
            with os.scandir(real) as entries:
                names = [entry.name for entry in entries if self._is_shown(entry)]
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"{path} is not a directory.") from None
        except OSError as error:
            raise UsageError(f"{path} cannot be listed: {error.strerror}.") from error
        above = str(Path(real).parent)
        allowed = above != real and (not self.paths or any(_is_below(above, root) for root in self.paths))
        return real, above if allowed else None, sorted(names, key=str.lower)[:MOST_LISTED]

    def _is_shown(self, entry: os.DirEntry[str]) -> bool:
        if entry.name.startswith("."):
            return False
        try:
            if not entry.is_dir():
                return False
        except OSError:
            return False
        if not entry.is_symlink() or not self.paths:
            return True
        return self.allow(entry.path)


def _root(given: str | Path) -> str:
    try:
        real = os.path.realpath(Path(given).expanduser())
        is_dir = Path(real).is_dir()
    except (RuntimeError, ValueError, OSError):  # ~nobody, a NUL character, a place that may not be looked at
        is_dir = False
    if not is_dir:
        raise UsageError(
            f"The root {given} is not a directory.",
            hint="--root, or the setting serve.roots, names existing directories to work below.",
        )
    return real


def _real(path: str) -> str:
    if "\0" in path:
        raise UsageError("A path cannot hold a NUL character.")
    try:
        wanted = Path(path).expanduser()
    except RuntimeError:  # ~nobody
        raise UsageError(f"{path} names nobody's home.") from None
    if not wanted.is_absolute():
        raise UsageError(f"{path} is not an absolute path.", hint="Begin it with / or ~.")
    try:
        return os.path.realpath(wanted)
    except OSError as error:
        raise UsageError(f"{path} cannot be looked at: {error.strerror}.") from error
    except ValueError:
        raise UsageError("The path is not text that a file system knows.") from None


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
