"""The table of jobs, and the queue in which workers find their next jobs.

The table `job_line` is the queue. Triggers on the jobs' rows maintain it (migration 0016): a job is in it until it
ends, and the first job of each key is marked as next, with the priority of the most urgent job of its key (migration
0020). So the jobs that may start are at the beginning of an index, however many jobs wait behind them. A claim is one
statement: it takes no lock that another claim would wait for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clew.core.jobs.job import Job, JobStatus, ProgressMarker, advance_job
from clew.core.record import replace
from clew.errors import NotFound
from clew.store.database.database import provisional_number
from clew.store.records import Row, each, first
from clew.store.rows.jobs import job_from, job_row, marker_from
from clew.store.tables.table import DumpedTable, Json, Table, Tables

FIXED = frozenset(
    {"id", "thread_id", "prompt", "full_prompt", "kind", "allowed_tools", "cwd", "key", "priority", "created_at"}
)

EXTRA_CANDIDATES = 16  # jobs read beyond the number wanted, because other workers may claim some of them first
DUE_AT_ONCE = 500  # jobs whose time has come that one claim makes ready


DUMPED = (
    DumpedTable(
        "jobs",
        has_id=True,
        belongs_to={"thread_id": "threads"},
        may_name={"run_id": "runs", "saved_run_id": "runs", "prompt_turn_id": "turns"},
        json={"limits": Json(dict), "allowed_tools": Json(list, str), "conflicts": Json(list, str)},
        store_columns=frozenset({"number", "full_prompt"}),  # a hook's full prompt is not exported: no surface shows it
    ),
    DumpedTable("job_markers", belongs_to={"job_id": "jobs"}, may_name={"run_id": "runs"}),
)


class JobTable(Table):
    def create(self, job: Job) -> None:
        with self._database.transaction():
            self._database.do("insert_job", **job_row(job), number=provisional_number())
            self._database.at_commit("number_job", id=job.id)
            self._versions.changed(job.thread_id)

    def find(self, job_id: str) -> Job | None:
        found = first(job_from, self._database.one("job_by_id", id=job_id))
        if found is not None:
            self._database.belongs("job", found.id, found.thread_id)
        return found

    def require(self, job_id: str) -> Job:
        found = self.find(job_id)
        if found is None:
            raise NotFound(f"There is no job {job_id}.", hint="`clew jobs list` shows them.")
        return found

    def newest(
        self, *, statuses: Iterable[JobStatus] | None = None, key: str | None = None, limit: int = 50
    ) -> list[Job]:
        """The newest jobs first."""
        if statuses is None:
            return each(job_from, self._database.all("jobs_newest", key=key, limit=limit))
        rows = [
            row
            for status in sorted(set(statuses))
            for row in self._database.all("jobs_with_status", status=JobStatus(status).value, key=key, limit=limit)
        ]
        rows.sort(key=lambda row: int(row["number"]), reverse=True)
        return each(job_from, rows[:limit])

    def update(self, job_id: str, **changes: Any) -> Job:
        """Changes fields of the record. Raises IllegalJobMove for a status that cannot follow the stored one."""
        if changes.keys() & FIXED:
            raise TypeError("a job's task is fixed")
        with self._database.transaction():
            stored = self.require(job_id)
            if "status" in changes:
                changes["status"] = advance_job(stored.status, JobStatus(changes["status"]))
            changed = replace(stored, **changes)
            self._database.do("write_job", **job_row(changed))
            self._versions.changed(stored.thread_id)
        return changed

    def predecessor(self, job_id: str) -> Job | None:
        """The first job of the same key that must end before this one: one that has started, else the oldest."""
        return first(job_from, self._database.one("job_before", id=job_id))

    def of_worker(self, worker_id: str, since: float) -> list[Job]:
        """The jobs that the worker has or had, without those that ended before `since`; the oldest first."""
        return each(job_from, self._database.all("jobs_of_worker", worker=worker_id, since=since))

    def prompt_turns_of_key(self, job: Job) -> set[str]:
        """The ids of the prompt turns of the other jobs of this job's key, in the same thread."""
        found = self._database.all("prompt_turns_of_key", id=job.id, key=job.key, thread_id=job.thread_id)
        return {str(row["prompt_turn_id"]) for row in found}

    def add_marker(self, job_id: str, run_id: str, seq: int, message_id: str | None, at: float) -> None:
        """Records the agent's progress: `seq` is the run's event with the message that the agent said."""
        self._database.do("add_marker", job_id=job_id, run_id=run_id, seq=seq, message_id=message_id or "", at=at)

    def markers(self, job_id: str, limit: int = 1000) -> list[ProgressMarker]:
        """The newest `limit` markers, the oldest of them first."""
        return each(marker_from, reversed(self._database.all("newest_markers", job_id=job_id, limit=limit)))

    def claimable(self, now: float, limit: int, *, own: bool = True) -> list[str]:
        """The ids of jobs that may start now, the most urgent first, then the oldest. `own=False`: only jobs of hooks.

        A job is as urgent as the most urgent job of its key, which waits for it.
        """
        return [row["job_id"] for row in self._claimable(now, limit, own)]

    def _claimable(self, now: float, limit: int, own: bool) -> list[Row]:
        return self._database.all("claimable_jobs", now=now, limit=limit, own=int(own))

    def claim(self, worker_id: str, now: float, limit: int, *, own: bool = True) -> list[str]:
        """Claims the first of the jobs that may start now, for this worker, until it releases them or dies.

        A worker that the others consider dead gets none.
        """
        found = self._claimable(now, limit + EXTRA_CANDIDATES, own)
        if any(row["is_due"] for row in found):  # among many jobs that are due, only the first ones have been read
            self._database.do("move_due_jobs", now=now, limit=DUE_AT_ONCE)
            found = self._claimable(now, limit + EXTRA_CANDIDATES, own)
        claimed: list[str] = []
        for row in found:
            if len(claimed) == limit:
                break
            claimed += [
                row["job_id"] for row in self._database.all("claim_job", worker=worker_id, job_id=row["job_id"])
            ]
        return claimed

    def claimed_by(self, worker_id: str) -> list[str]:
        """The ids of the jobs that the worker has claimed, the oldest first."""
        return [row["job_id"] for row in self._database.all("claims", worker=worker_id)]

    def release_claim(self, worker_id: str, job_id: str, ready_at: float | None) -> bool:
        """Lets any worker claim the job again from `ready_at` on. False: this worker no longer had the claim."""
        return self._database.do("release_claim", worker=worker_id, job_id=job_id, ready_at=ready_at) > 0

    def any_unfinished(self, *, own: bool = True) -> bool:
        """Whether the queue holds a job. `own=False`: a job of a hook."""
        return self._database.one("any_unfinished_job", own=int(own)) is not None

    def repair_queue(self, after: int, limit: int) -> int:
        """Checks some waiting jobs, and marks a job as next when its key has no next job, or one that is less urgent.

        Two transactions that add and end jobs of one key at the same time may not see each other, and then no job is
        next, or the next one does not have the priority of the job that was added. Returns the number of the last job
        that was checked, for the following call; 0 after the last job.
        """
        found = self._database.all("jobs_behind", after=after, limit=limit)
        for row in found:
            if row["urgency"] is None:
                self._database.do("put_next", job_id=row["job_id"])
            elif row["priority"] < row["urgency"]:
                self._database.do("lend_priority", job_id=row["job_id"], priority=row["priority"])
        return int(found[-1]["number"]) if len(found) == limit else 0

    def adapt_imported(self, tables: Tables) -> None:
        for job in tables.get("jobs", ()):
            job["number"] = provisional_number()  # the last step of the transaction replaces it
            self._database.at_commit("number_job", id=str(job.get("id")))

    def read_back(self, thread_id: str) -> None:
        for row in self._database.all("dump_jobs", id=thread_id):
            self.find(row["id"])
