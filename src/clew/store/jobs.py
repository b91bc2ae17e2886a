"""Jobs and workers in the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from clew.core.record import replace
from clew.errors import NotFound
from clew.store.database import provisional_number
from clew.store.job_line import JobLine
from clew.store.records import each, first

if TYPE_CHECKING:
    from clew.core.job import Job, JobStatus, Marker
    from clew.store.job_rows import Worker

FIXED = frozenset({"id", "thread_id", "prompt", "full_prompt", "kind", "allowed_tools", "cwd", "key", "created_at"})


class Jobs(JobLine):
    def create_job(self, job: Job) -> None:
        from clew.store.job_rows import job_row

        with self.transaction():
            self._do("insert_job", **job_row(job), number=provisional_number())
            self._at_commit("number_job", id=job.id)
            self._changed(job.thread_id)

    def job(self, job_id: str) -> Job | None:
        from clew.store.job_rows import job_from

        return first(job_from, self._one("job_by_id", id=job_id))

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
