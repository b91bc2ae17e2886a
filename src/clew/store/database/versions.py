"""Which thread changed last: one counter for the whole store, and its value at each thread's last change.

A surface that has seen version n asks for what came after it. The counter moves in the transaction of the change
itself, as its last step: whoever moves it is alone with it until the change is durable, so a version that is seen has
nothing smaller still to come.
"""

from __future__ import annotations

from clew.store.database.database import Database


class Versions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.changes_made = 0  # by this process: tells when a look at the version is worth while

    def current(self) -> int:
        return self._database.number("version")

    def changed(self, thread_id: str) -> None:
        """Called in the transaction of every change that a surface shows. A transaction counts as one change."""
        self.changes_made += 1
        self._database.hold("thread", thread_id)  # before the counter: who has that waits for nobody
        self._database.at_commit("mark_thread", id=thread_id)

    def deleted(self, thread_id: str) -> None:
        self.changes_made += 1
        self._database.at_commit("mark_deleted", id=thread_id)
