"""Work directories may be anywhere, or only below the allowed roots. Symbolic links are resolved before paths are
compared, so neither a link nor `..` leads out of the roots."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from clew.core.thread import Thread
from clew.errors import NotFound, UsageError
from clew.server.models.problems import RequestRefused

MAX_LISTED = 1_000


class AllowedRoots:
    def __init__(self, roots: Iterable[str | Path] = ()) -> None:
        """Raises UsageError for a root that is not a directory: no thread could ever work below it."""
        self.paths = tuple(dict.fromkeys(_root(root) for root in roots))

    def resolved(self, path: str) -> str:
        """The real path of an allowed directory. Raises UsageError, or RequestRefused outside the roots."""
        real = _real(path)
        self.check(real)
        if not os.path.isdir(real):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
            raise UsageError(f"{path} is not a directory.", hint="Name an existing one.")
        return real

    def allow(self, path: str) -> bool:
        """Checks where the path leads now: the directory may have become a link since it was chosen."""
        if not self.paths:
            return True
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return False
        return any(_is_below(real, root) for root in self.paths)

    def may_run(self, thread: Thread) -> bool:
        """Whether an agent may be started for this thread."""
        return self.allow(thread.cwd)

    def check(self, path: str) -> None:
        """Call this before checking that a path exists, so that nothing is revealed about paths outside the roots."""
        if not self.allow(path):
            raise RequestRefused(
                403,
                "The directory is outside the roots that this daemon may work in.",
                hint=f"Allowed: {', '.join(self.paths)}.",
            )

    def default_cwd(self, candidates: Iterable[str]) -> str:
        """The first candidate that is allowed; else the first root, else the home directory.

        The home directory and / are not accepted as candidates: services and new terminals start there, but nobody
        works there.
        """
        home = str(Path.home())
        skipped = {os.path.realpath(home), os.sep}
        for path in candidates:
            if os.path.realpath(path) not in skipped and self.allow(path) and Path(path).is_dir():
                return path
        return self.paths[0] if self.paths else home

    def listed(self, path: str | None) -> tuple[str, str | None, list[str]]:
        """The real path, its parent if that is allowed, and the names of the folders in it, without hidden ones."""
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
        parent = str(Path(real).parent)
        allowed = parent != real and (not self.paths or any(_is_below(parent, root) for root in self.paths))
        return real, parent if allowed else None, sorted(names, key=str.lower)[:MAX_LISTED]

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
    except (RuntimeError, ValueError, OSError):  # an unknown ~user, a NUL character, a directory that may not be read
        is_dir = False
    if not is_dir:
        raise UsageError(
            f"The root {given} is not a directory.",
            hint="--root, or the setting serve.roots, names existing directories to work below.",
        )
    return real


def _real(path: str) -> str:
    if "\0" in path:
        raise UsageError("A path cannot contain a NUL character.")
    try:
        expanded = Path(path).expanduser()
    except RuntimeError:
        raise UsageError(f"{path} names the home directory of an unknown user.") from None
    if not expanded.is_absolute():
        raise UsageError(f"{path} is not an absolute path.", hint="Begin it with / or ~.")
    try:
        return os.path.realpath(expanded)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError:
        raise UsageError("The path contains characters that no file name can have.") from None


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
