"""Threads that may be put away: which were not used for long, who uses one, and what goes with it."""

from __future__ import annotations

from clew.core.thread import Thread
from clew.store.records import each, thread_from
from clew.store.threads import Threads

ASKED = "questions"
USES = {
    "running": "a run is going on",
    "queued": "a prompt is queued",
    "jobs": "a job is under way",
    ASKED: "a question is open",
}


class Archives(Threads):
    def use_of(self, thread_id: str, *, asked: bool = False) -> str | None:
        """Why the thread cannot be put away; None: it can. `asked`: an open question is no reason."""
        row = self._one("thread_uses", id=thread_id) or {}
        return next((words for name, words in USES.items() if row.get(name) and not (asked and name == ASKED)), None)

    def unused_threads(self, before: float, kind: str | None = None) -> list[Thread]:
        """Those that were last used before then, the oldest first."""
        return each(thread_from, self._all("unused_threads", before=before, kind=kind))

    def companions(self, thread_id: str) -> list[Thread]:
        """Threads that mean nothing without this one, nor it without them: the other one of a pair."""
        return [self.require_thread_by_id(row["id"]) for row in self._all("companions", id=thread_id)]

    def together(self, name_or_id: str) -> list[Thread]:
        """The thread and what goes with it; of a pair's own name, or its id, both of its threads. Raises NotFound."""
        pair = [] if self.thread(name_or_id) is not None else self._pair_threads(name_or_id)
        if pair:
            return pair
        thread = self.require_thread(name_or_id)
        return [thread, *self.companions(thread.id)]
