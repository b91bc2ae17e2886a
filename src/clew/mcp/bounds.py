"""How far an agent that calls Clew may reach: no further than whoever started the server said.

An agent may be in a sandbox. What it asks of Clew is done by another agent, which is not, so neither the directory nor
the permissions are its own to choose.
"""

from __future__ import annotations

import os
from pathlib import Path

from clew.core.record import Record
from clew.core.thread import Permissions, Thread
from clew.errors import UsageError

_RANK = {Permissions.READ_ONLY: 0, Permissions.ASK: 0, Permissions.EDITS: 1, Permissions.ALL: 2}


class Bounds(Record):
    cwd: str  # where things happen when nothing is said
    roots: tuple[str, ...]  # and where they may
    permissions: Permissions  # of a thread that is made here, and the most that one may have to be gone on in

    def directory(self, wanted: str | None) -> str:
        """Links resolved. UsageError when it is outside."""
        try:
            path = os.path.realpath(Path(self.cwd, wanted) if wanted else self.cwd)
        except (OSError, ValueError) as error:
            raise UsageError(f"{wanted!r:.200} is no directory.") from error
        if not self._is_inside(path):
            raise UsageError(
                f"{path} is outside the directories that this server works in: {', '.join(self.roots)}.",
                hint="Whoever started it can allow more with clew mcp --root DIR.",
            )
        return path

    def check(self, thread: Thread) -> None:
        self.directory(thread.cwd)
        if _RANK[thread.permissions] > _RANK[self.permissions]:
            raise UsageError(
                f"In {thread.name} the agent may do more ({thread.permissions}) than this server allows.",
                hint=f"Whoever started it can allow it with clew mcp --permissions {thread.permissions}.",
            )

    def has(self, path: str) -> bool:
        return self._is_inside(os.path.realpath(path))

    def _is_inside(self, path: str) -> bool:
        return any(is_below(path, root) for root in self.roots)


def is_below(path: str, folder: str) -> bool:
    """Or is it."""
    return os.path.commonpath([path, folder]) == folder
