"""Runs and their attempts in the store, and what they came to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clew.core.record import replace
from clew.core.run import Attempt, Run, RunStatus, advance
from clew.errors import NotFound
from clew.store.database import Database
from clew.store.records import StatRow, attempt_from, each, first, flat, run_from, run_row, stat_from


class Runs(Database):
    def create_run(self, run: Run) -> None:
        self._do("insert_run", **run_row(run))

    def run(self, run_id: str) -> Run | None:
        return first(run_from, self._one("run_by_id", id=run_id))

    def require_run(self, run_id: str) -> Run:
        found = self.run(run_id)
        if found is None:
            raise NotFound(f"There is no run {run_id}.", hint="`clew threads show` lists a thread's runs.")
        return found

    def runs(
        self, *, thread_id: str | None = None, statuses: Iterable[RunStatus] | None = None, limit: int = 50
    ) -> list[Run]:
        """The newest first; those of a thread, those of some statuses, or both."""
        where = {} if thread_id is None else {"thread_id": thread_id}
        query = "runs_newest" if thread_id is None else "runs_of_thread"
        if statuses is None:
            return each(run_from, self._all(query, limit=limit, **where))
        query = query.replace("_newest", "") + "_with_status"
        rows = [
            row
            for status in sorted(set(statuses))
            for row in self._all(query, status=RunStatus(status).value, limit=limit, **where)
        ]
        rows.sort(key=lambda row: (row["created_at"], row["position"]), reverse=True)
        return each(run_from, rows[:limit])

    def update_run(self, run_id: str, **changes: Any) -> Run:
        """Change fields of the record. The status goes only where the stored one leads (IllegalStatus otherwise)."""
        if changes.keys() & {"id", "thread_id", "prompt_turn_id", "prompt"}:
            raise TypeError("a run's thread and prompt are fixed")
        with self.transaction():
            stored = self.require_run(run_id)
            if "status" in changes:
                changes["status"] = advance(stored.status, RunStatus(changes["status"]))
            changed = replace(stored, **changes)
            self._do("write_run", **run_row(changed))
        return changed

    def request_cancel(self, run_id: str, at: float) -> bool:
        """Ask whoever carries the run out to stop it. False: it is not running (any more)."""
        return self._do("request_cancel", id=run_id, at=at) > 0

    def cancel_requested(self, run_id: str) -> bool:
        """Cheap: one row by its key. A run that is gone counts as cancelled: nobody wants its answer."""
        row = self._one("cancel_requested", id=run_id)
        return row is None or bool(row["cancel_requested"])

    def create_attempt(self, attempt: Attempt) -> None:
        self._do("insert_attempt", **flat(attempt))

    def update_attempt(self, attempt_id: str, **changes: Any) -> Attempt:
        if changes.keys() & {"id", "run_id"}:
            raise TypeError("an attempt stays the attempt of its run")
        with self.transaction():
            stored = first(attempt_from, self._one("attempt_by_id", id=attempt_id))
            if stored is None:
                raise NotFound(f"There is no attempt {attempt_id}.")
            changed = replace(stored, **changes)
            self._do("write_attempt", **flat(changed))
        return changed

    def attempts(self, run_id: str) -> list[Attempt]:
        """In order."""
        return each(attempt_from, self._all("attempts", run_id=run_id))

    def stats(self, *, thread_id: str | None = None, since: float | None = None) -> list[StatRow]:
        """What the runs came to, by agent, model, resumed or why not, and outcome."""
        return each(stat_from, self._all("stats", thread_id=thread_id, since=since))
