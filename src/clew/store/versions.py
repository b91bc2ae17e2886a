"""Which thread changed last: one counter for the whole store, and its value at each thread's last change.

A surface that has seen version n asks for what came after it. The counter moves in the transaction of the change
itself, and a write transaction is alone, so a version that is seen has nothing smaller still to come.
"""

from __future__ import annotations

from clew.store.database import Database


class Versions(Database):
    changes_made = 0  # by this process: tells when a look at the version is worth while

    def version(self) -> int:
        row = self._one("version")
        return int(row["n"]) if row else 0

    def _changed(self, thread_id: str) -> None:
        """Called in the transaction of every change that a surface shows."""
        self.changes_made += 1
        self._do("count_change")
        self._do("mark_thread", id=thread_id)
