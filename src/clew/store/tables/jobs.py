"""Jobs and workers in the store, and the line in which workers find their next jobs.

The table `job_line` is kept by triggers on the jobs' rows (migration 0016): a job is in it while it is under way, and
the first one of each key is marked as next. So the jobs that may begin are the beginning of an index, however many
there are behind them. A claim is one statement: it takes no lock that another claim would wait for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from clew.core.record import replace
from clew.errors import NotFound
from clew.store.database.database import provisional_number
from clew.store.records import each, first
from clew.store.tables.table import Table

if TYPE_CHECKING:
    from clew.core.jobs.job import Job, JobStatus, ProgressMarker

FIXED = frozenset({"id", "thread_id", "prompt", "full_prompt", "kind", "allowed_tools", "cwd", "key", "created_at"})

SPARE = 16  # looked at beyond what is wanted: another worker may claim some of them first


class JobTable(Table):
    def create(self, job: Job) -> None:
        from clew.store.rows.jobs import job_row

        with self._database.transaction():
            self._database.do("insert_job", **job_row(job), number=provisional_number())
            self._database.at_commit("number_job", id=job.id)
            self._versions.changed(job.thread_id)

    def find(self, job_id: str) -> Job | None:
        from clew.store.rows.jobs import job_from

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
        """The newest first."""
        from clew.core.jobs.job import JobStatus
        from clew.store.rows.jobs import job_from

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
        """Change fields of the record. The status goes only where the stored one leads (IllegalJobMove otherwise)."""
        from clew.core.jobs.job import JobStatus, advance_job
        from clew.store.rows.jobs import job_row

        if changes.keys() & FIXED:
            raise TypeError("what a job is about is fixed")
        with self._database.transaction():
            stored = self.require(job_id)
            if "status" in changes:
                changes["status"] = advance_job(stored.status, JobStatus(changes["status"]))
            changed = replace(stored, **changes)
            self._database.do("write_job", **job_row(changed))
            self._versions.changed(stored.thread_id)
        return changed

    def before(self, job_id: str) -> Job | None:
        """The first job of the same key that must end before this one: one that has begun, else the oldest."""
        from clew.store.rows.jobs import job_from

        return first(job_from, self._database.one("job_before", id=job_id))

    def of_worker(self, worker_id: str, since: float) -> list[Job]:
        """What it has and had, but for what ended before that time; the oldest first."""
        from clew.store.rows.jobs import job_from

        return each(job_from, self._database.all("jobs_of_worker", worker=worker_id, since=since))

    def prompt_turns_of_key(self, job: Job) -> set[str]:
        """Where the other jobs of its key asked in its thread."""
        found = self._database.all("prompt_turns_of_key", id=job.id, key=job.key, thread_id=job.thread_id)
        return {str(row["prompt_turn_id"]) for row in found}

    def add_marker(self, job_id: str, run_id: str, seq: int, message_id: str | None, at: float) -> None:
        """How far the agent has come: `seq` is the run's event with what it said."""
        self._database.do("add_marker", job_id=job_id, run_id=run_id, seq=seq, message_id=message_id or "", at=at)

    def markers(self, job_id: str, limit: int = 1000) -> list[ProgressMarker]:
        """The newest ones, in order."""
        from clew.store.rows.jobs import marker_from

        return each(marker_from, reversed(self._database.all("newest_markers", job_id=job_id, limit=limit)))

    def claimable(self, now: float, limit: int, *, own: bool = True) -> list[str]:
        """Those that may begin now, the oldest first. `own=False`: only those that hooks made."""
        return [row["job_id"] for row in self._database.all("claimable_jobs", now=now, limit=limit, own=int(own))]

    def claim(self, worker_id: str, now: float, limit: int, *, own: bool = True) -> list[str]:
        """The oldest that may begin now and that nobody has: they are this worker's until it releases them or dies.

        None for a worker that the others have taken for dead.
        """
        claimed: list[str] = []
        for job_id in self.claimable(now, limit + SPARE, own=own):
            if len(claimed) == limit:
                break
            claimed += [row["job_id"] for row in self._database.all("claim_job", worker=worker_id, job_id=job_id)]
        return claimed

    def claimed_by(self, worker_id: str) -> list[str]:
        """What it has claimed, the oldest first."""
        return [row["job_id"] for row in self._database.all("claims", worker=worker_id)]

    def release_claim(self, worker_id: str, job_id: str, ready_at: float | None) -> bool:
        """Anybody may claim it again from then on. False: it was not this worker's any more."""
        return self._database.do("release_claim", worker=worker_id, job_id=job_id, ready_at=ready_at) > 0

    def release_claims(self, worker_id: str) -> int:
        """All that it has; says how many those were."""
        return self._database.do("release_claims", worker=worker_id)

    def any_under_way(self, *, own: bool = True) -> bool:
        return self._database.one("any_job_under_way", own=int(own)) is not None

    def check_line(self, after: int, limit: int) -> int:
        """Looks at some of those behind others, and marks as next one that nobody goes before.

        Two that enter and leave a key's line in the same moment may not see each other, and then nobody is next. Says
        where the next look begins: 0 after the last one.
        """
        found = self._database.all("jobs_behind", after=after, limit=limit)
        for row in found:
            if not row["is_behind"]:
                self._database.do("put_next", job_id=row["job_id"])
        return int(found[-1]["number"]) if len(found) == limit else 0
