"""What an agent that calls Clew may do: at most what the user who started the server allows.

The calling agent may run in a sandbox, but the agent that Clew starts for it does not. So the caller can choose neither
the directory nor the permissions freely.
"""

from __future__ import annotations

import os
from pathlib import Path

from clew.core.record import Record
from clew.core.thread import Permissions, Thread
from clew.errors import UsageError

_RANK = {Permissions.READ_ONLY: 0, Permissions.ASK: 0, Permissions.EDITS: 1, Permissions.ALL: 2}


class Bounds(Record):
    cwd: str  # the default directory
    roots: tuple[str, ...]  # the allowed directories, with those below them
    permissions: Permissions  # of new threads; a thread with more permissions cannot be continued

    def directory(self, wanted: str | None) -> str:
        """The real path of the directory. Raises UsageError when it is not allowed."""
        try:
            path = os.path.realpath(Path(self.cwd, wanted) if wanted else self.cwd)
        except (OSError, ValueError) as error:
            raise UsageError(f"{wanted!r:.200} is not a directory.") from error
        if not self._is_inside(path):
            raise UsageError(
                f"{path} is outside the directories that this server works in: {', '.join(self.roots)}.",
                hint="The user who started the server can allow more with clew mcp --root DIR.",
            )
        return path

    def check(self, thread: Thread) -> None:
        self.directory(thread.cwd)
        if not self._is_permitted(thread):
            raise UsageError(
                f"The thread {thread.name} has more permissions ({thread.permissions}) than this server allows.",
                hint=f"The user who started the server can allow it with clew mcp --permissions {thread.permissions}.",
            )

    def allows(self, thread: Thread) -> bool:
        """Whether the caller may read the thread. An agent that may do more may have seen more than the directory."""
        return self.has(thread.cwd) and self._is_permitted(thread)

    def _is_permitted(self, thread: Thread) -> bool:
        return _RANK[thread.permissions] <= _RANK[self.permissions]

    def has(self, path: str) -> bool:
        return self._is_inside(os.path.realpath(path))

    def _is_inside(self, path: str) -> bool:
        return any(is_below(path, root) for root in self.roots)


def is_below(path: str, folder: str) -> bool:
    """Whether the path is the folder, or is below it."""
    return os.path.commonpath([path, folder]) == folder
