"""The tables of runs and attempts, and the figures of runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from clew.core.costs.usage import StatRow
from clew.core.record import replace
from clew.core.runs.run import Attempt, Owner, Run, RunBelonging, RunStatus, advance
from clew.errors import Conflict, NotFound
from clew.store.records import (
    attempt_from,
    belonging_from,
    each,
    first,
    flat,
    owner_columns,
    run_from,
    run_row,
    stat_from,
)
from clew.store.tables.table import Table


class RunTable(Table):
    def create(self, run: Run) -> None:
        with self._database.transaction():
            self._database.do("insert_run", **run_row(run))
            self._database.belongs("run", run.id, run.thread_id)
            self._versions.changed(run.thread_id)

    def find(self, run_id: str) -> Run | None:
        return first(run_from, self._database.one("run_by_id", id=run_id))

    def require(self, run_id: str) -> Run:
        found = self.find(run_id)
        if found is None:
            raise no_such_run(run_id)
        return found

    def newest(
        self, *, thread_id: str | None = None, statuses: Iterable[RunStatus] | None = None, limit: int = 50
    ) -> list[Run]:
        """The newest runs first: of a thread, with some statuses, or both."""
        where = {} if thread_id is None else {"thread_id": thread_id}
        query = "runs_newest" if thread_id is None else "runs_of_thread"
        if statuses is None:
            return each(run_from, self._database.all(query, limit=limit, **where))
        query = query.replace("_newest", "") + "_with_status"
        rows = [
            row
            for status in sorted(set(statuses))
            for row in self._database.all(query, status=RunStatus(status).value, limit=limit, **where)
        ]
        rows.sort(key=lambda row: (row["created_at"], row["position"]), reverse=True)
        return each(run_from, rows[:limit])

    def update(self, run_id: str, **changes: Any) -> Run:
        """Changes fields of the record. Raises IllegalStatus for a status that cannot follow the stored one."""
        if changes.keys() & {"id", "thread_id", "job_id", "prompt_turn_id", "prompt", "typed"}:
            raise TypeError("a run's thread, job and prompt are fixed")
        with self._database.transaction():
            stored = self.require(run_id)
            if "status" in changes:
                changes["status"] = advance(stored.status, RunStatus(changes["status"]))
            changed = replace(stored, **changes)
            self._database.do("write_run", **run_row(changed))
            self._versions.changed(stored.thread_id)
        return changed

    def edit_prompt(self, run_id: str, prompt: str, typed: str | None = None) -> Run:
        """Gives another prompt to a run that has not started. Raises Conflict if it has."""
        with self._database.transaction():
            run = self.require(run_id)
            if not self._database.do("edit_prompt", id=run_id, prompt=prompt, typed=typed):
                raise Conflict(f"The run has started: it is {run.status}.", hint="Edit its turn, or ask again.")
            self._versions.changed(run.thread_id)
            return self.require(run_id)

    def claim(self, run_id: str, owner: Owner) -> bool:
        """Makes a queued run without an owner this process's own. False: another process has claimed it."""
        return self._database.do("claim_run", id=run_id, **owner_columns(owner)) > 0

    def request_cancel(self, run_id: str, at: float) -> bool:
        """Asks the process that has the run to stop it. False: the run is over."""
        with self._database.transaction():
            asked = self._database.do("request_cancel", id=run_id, at=at) > 0
            if asked:
                self._versions.changed(self.require(run_id).thread_id)
            return asked

    def cancel_requested(self, run_id: str) -> bool:
        """Cheap: it reads one row by its key. A run that was deleted counts as cancelled: its answer is not needed."""
        row = self._database.one("cancel_requested", id=run_id)
        return row is None or bool(row["cancel_requested"])

    def create_attempt(self, attempt: Attempt, thread_id: str | None = None) -> None:
        """`thread_id` of the run saves a query if the caller knows it."""
        self._database.do("insert_attempt", **flat(attempt))
        if thread_id is not None:
            self._database.belongs("attempt", attempt.id, thread_id)

    def update_attempt(self, attempt_id: str, **changes: Any) -> Attempt:
        if changes.keys() & {"id", "run_id"}:
            raise TypeError("an attempt stays the attempt of its run")
        with self._database.transaction():
            stored = first(attempt_from, self._database.one("attempt_by_id", id=attempt_id))
            if stored is None:
                raise NotFound(f"There is no attempt {attempt_id}.")
            changed = replace(stored, **changes)
            self._database.do("write_attempt", **flat(changed))
        return changed

    def attempts(self, run_id: str) -> list[Attempt]:
        """The attempts of the run, in order."""
        return each(attempt_from, self._database.all("attempts", run_id=run_id))

    def last_measured(self, thread_id: str, agent: str) -> Run | None:
        """The last run of this agent in the thread that has `context_tokens`."""
        return first(run_from, self._database.one("last_measured_run", thread_id=thread_id, agent=agent))

    def last_measured_in(self, thread_id: str, session_id: str) -> Run | None:
        """The last run in this session of the thread that has `context_tokens`."""
        query = "last_measured_run_of_session"
        return first(run_from, self._database.one(query, thread_id=thread_id, session_id=session_id))

    def of_job(self, job_id: str) -> list[Run]:
        """The runs of the job, the oldest first. Runs that are older than the column `job_id` may be missing."""
        return each(run_from, self._database.all("runs_of_job", job_id=job_id))

    def stats(
        self, *, thread_id: str | None = None, since: float | None = None, by_directory: bool = False
    ) -> list[StatRow]:
        """The sums over the runs, by day, kind, agent, model, whether they resumed, the reason if not, and outcome.

        `by_directory`: also by the thread's directory.
        """
        given = {"thread_id": thread_id, "since": since, "by_directory": int(by_directory)}
        return each(stat_from, self._database.all("stats", **given))

    def belongings(self, runs: Iterable[Run]) -> dict[str, RunBelonging]:
        """By the id of the run: its thread, and the job, review or pair that it is part of. Deleted runs have none."""
        ids = json.dumps([run.id for run in runs])
        return {row["run_id"]: belonging_from(row) for row in self._database.all("belongings_of_runs", ids=ids)}

    def ended(self, *, thread_id: str | None = None, since: float | None = None, limit: int = 500) -> list[Run]:
        """The ended runs that had a decision, the newest first."""
        return each(run_from, self._database.all("runs_decided", thread_id=thread_id, since=since, limit=limit))


def no_such_run(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id}.", hint="`clew threads show` lists a thread's runs.")
