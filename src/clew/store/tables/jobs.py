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
from clew.store.database import provisional_number
from clew.store.records import each, first
from clew.store.versions import Versions

if TYPE_CHECKING:
    from clew.core.job import Job, JobStatus, Marker
    from clew.store.job_rows import Worker

FIXED = frozenset({"id", "thread_id", "prompt", "full_prompt", "kind", "allowed_tools", "cwd", "key", "created_at"})

SPARE = 16  # looked at beyond what is wanted: another worker may claim some of them first


class Jobs(Versions):
    def create_job(self, job: Job) -> None:
        from clew.store.job_rows import job_row

        with self.transaction():
            self._do("insert_job", **job_row(job), number=provisional_number())
            self._at_commit("number_job", id=job.id)
            self._changed(job.thread_id)

    def job(self, job_id: str) -> Job | None:
        from clew.store.job_rows import job_from

        found = first(job_from, self._one("job_by_id", id=job_id))
        if found is not None:
            self._belongs("job", found.id, found.thread_id)
        return found

    def require_job(self, job_id: str) -> Job:
        found = self.job(job_id)
        if found is None:
            raise NotFound(f"There is no job {job_id}.", hint="`clew jobs list` shows them.")
        return found

    def jobs(
        self, *, statuses: Iterable[JobStatus] | None = None, key: str | None = None, limit: int = 50
    ) -> list[Job]:
        """The newest first."""
        from clew.core.job import JobStatus
        from clew.store.job_rows import job_from

        if statuses is None:
            return each(job_from, self._all("jobs_newest", key=key, limit=limit))
        rows = [
            row
            for status in sorted(set(statuses))
            for row in self._all("jobs_with_status", status=JobStatus(status).value, key=key, limit=limit)
        ]
        rows.sort(key=lambda row: int(row["number"]), reverse=True)
        return each(job_from, rows[:limit])

    def update_job(self, job_id: str, **changes: Any) -> Job:
        """Change fields of the record. The status goes only where the stored one leads (IllegalJobMove otherwise)."""
        from clew.core.job import JobStatus, advance_job
        from clew.store.job_rows import job_row

        if changes.keys() & FIXED:
            raise TypeError("what a job is about is fixed")
        with self.transaction():
            stored = self.require_job(job_id)
            if "status" in changes:
                changes["status"] = advance_job(stored.status, JobStatus(changes["status"]))
            changed = replace(stored, **changes)
            self._do("write_job", **job_row(changed))
            self._changed(stored.thread_id)
        return changed

    def job_before(self, job_id: str) -> Job | None:
        """The first job of the same key that must end before this one: one that has begun, else the oldest."""
        from clew.store.job_rows import job_from

        return first(job_from, self._one("job_before", id=job_id))

    def jobs_of_worker(self, worker_id: str, since: float) -> list[Job]:
        """What it has and had, but for what ended before that time; the oldest first."""
        from clew.store.job_rows import job_from

        return each(job_from, self._all("jobs_of_worker", worker=worker_id, since=since))

    def prompt_turns_of_key(self, job: Job) -> set[str]:
        """Where the other jobs of its key asked in its thread."""
        found = self._all("prompt_turns_of_key", id=job.id, key=job.key, thread_id=job.thread_id)
        return {str(row["prompt_turn_id"]) for row in found}

    def add_marker(self, job_id: str, run_id: str, seq: int, message_id: str | None, at: float) -> None:
        """How far the agent has come: `seq` is the run's event with what it said."""
        self._do("add_marker", job_id=job_id, run_id=run_id, seq=seq, message_id=message_id or "", at=at)

    def markers(self, job_id: str, limit: int = 1000) -> list[Marker]:
        """The newest ones, in order."""
        from clew.store.job_rows import marker_from

        return each(marker_from, reversed(self._all("newest_markers", job_id=job_id, limit=limit)))

    def save_worker(self, worker: Worker) -> None:
        owner = worker.owner
        self._do(
            "save_worker",
            id=worker.id,
            host=owner.host,
            pid=owner.pid,
            pid_started=owner.started,
            concurrency=worker.concurrency,
            started_at=worker.started_at,
            heartbeat_at=worker.heartbeat_at,
            stopped_at=worker.stopped_at,
            hooks_only=int(worker.hooks_only),
        )

    def beat_worker(self, worker_id: str, at: float) -> bool:
        """False: somebody took it for dead and has its work."""
        return self._do("beat_worker", id=worker_id, at=at) > 0

    def workers(self) -> list[Worker]:
        from clew.store.job_rows import worker_from

        return each(worker_from, self._all("workers"))

    def forget_silent_worker(self, worker: Worker) -> bool:
        """With what it has claimed. False: it was heard of since that row was read."""
        with self.transaction():
            is_gone = self._do("forget_silent_worker", id=worker.id, heartbeat_at=worker.heartbeat_at) > 0
            if is_gone:
                self._do("release_claims", worker=worker.id)
            return is_gone

    def forget_worker(self, worker_id: str) -> bool:
        """With what it has claimed: others may take that up."""
        with self.transaction():
            self._do("release_claims", worker=worker_id)
            return self._do("forget_worker", id=worker_id) > 0

    def claimable_jobs(self, now: float, limit: int, *, own: bool = True) -> list[str]:
        """Those that may begin now, the oldest first. `own=False`: only those that hooks made."""
        return [row["job_id"] for row in self._all("claimable_jobs", now=now, limit=limit, own=int(own))]

    def claim_jobs(self, worker_id: str, now: float, limit: int, *, own: bool = True) -> list[str]:
        """The oldest that may begin now and that nobody has: they are this worker's until it releases them or dies.

        None for a worker that the others have taken for dead.
        """
        claimed: list[str] = []
        for job_id in self.claimable_jobs(now, limit + SPARE, own=own):
            if len(claimed) == limit:
                break
            claimed += [row["job_id"] for row in self._all("claim_job", worker=worker_id, job_id=job_id)]
        return claimed

    def claims(self, worker_id: str) -> list[str]:
        """What it has claimed, the oldest first."""
        return [row["job_id"] for row in self._all("claims", worker=worker_id)]

    def release_claim(self, worker_id: str, job_id: str, ready_at: float | None) -> bool:
        """Anybody may claim it again from then on. False: it was not this worker's any more."""
        return self._do("release_claim", worker=worker_id, job_id=job_id, ready_at=ready_at) > 0

    def release_claims(self, worker_id: str) -> int:
        """All that it has; says how many those were."""
        return self._do("release_claims", worker=worker_id)

    def any_job_under_way(self, *, own: bool = True) -> bool:
        return self._one("any_job_under_way", own=int(own)) is not None

    def check_line(self, after: int, limit: int) -> int:
        """Looks at some of those behind others, and marks as next one that nobody goes before.

        Two that enter and leave a key's line in the same moment may not see each other, and then nobody is next. Says
        where the next look begins: 0 after the last one.
        """
        found = self._all("jobs_behind", after=after, limit=limit)
        for row in found:
            if not row["is_behind"]:
                self._do("put_next", job_id=row["job_id"])
        return int(found[-1]["number"]) if len(found) == limit else 0
