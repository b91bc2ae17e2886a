"""The version of the store: a counter that every change increases, and its value at each thread's last change.

A surface that has seen version n asks for the changes after it. The counter is increased in the transaction of the
change itself, as its last step, and stays locked until the change is durable. So when a version is visible, all smaller
ones are visible too.
"""

from __future__ import annotations

from clew.store.database.database import Database


class Versions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.changes_made = 0  # changes by this process: when it grows, there is a new version to read

    def current(self) -> int:
        return self._database.number("version")

    def changed(self, thread_id: str) -> None:
        """Call it in the transaction of every change that a surface shows. A transaction counts as one change."""
        self.changes_made += 1
        # The thread is locked now, because the last step, which locks the counter, must not wait for another lock.
        self._database.hold("thread", thread_id)
        self._database.at_commit("mark_thread", id=thread_id)

    def deleted(self, thread_id: str) -> None:
        self.changes_made += 1
        self._database.at_commit("mark_deleted", id=thread_id)
