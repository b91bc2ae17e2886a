"""Jobs and workers in the store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from clew.core.job import Job, JobStatus, Limits, Wish, advance_job
from clew.core.record import fields_of, replace
from clew.core.run import Owner
from clew.core.thread import Permissions
from clew.errors import NotFound
from clew.store.database import Row
from clew.store.records import dumps, each, first, flat, from_columns
from clew.store.versions import Versions

FIXED = frozenset({"id", "thread_id", "prompt", "full_prompt", "kind", "allowed_tools", "cwd", "key", "created_at"})


class Worker(NamedTuple):
    """A process that carries jobs out, and when it was last heard of."""

    id: str
    owner: Owner
    concurrency: int
    started_at: float
    heartbeat_at: float
    stopped_at: float | None


class Jobs(Versions):
    def create_job(self, job: Job) -> None:
        with self.transaction():
            self._do("insert_job", **_job_row(job))
            self._changed(job.thread_id)

    def job(self, job_id: str) -> Job | None:
        return first(_job_from, self._one("job_by_id", id=job_id))

    def require_job(self, job_id: str) -> Job:
        found = self.job(job_id)
        if found is None:
            raise NotFound(f"There is no job {job_id}.", hint="`clew jobs list` shows them.")
        return found

    def jobs(
        self, *, statuses: Iterable[JobStatus] | None = None, key: str | None = None, limit: int = 50
    ) -> list[Job]:
        """The newest first."""
        if statuses is None:
            return each(_job_from, self._all("jobs_newest", key=key, limit=limit))
        rows = [
            row
            for status in sorted(set(statuses))
            for row in self._all("jobs_with_status", status=JobStatus(status).value, key=key, limit=limit)
        ]
        rows.sort(key=lambda row: int(row["number"]), reverse=True)
        return each(_job_from, rows[:limit])

    def update_job(self, job_id: str, **changes: Any) -> Job:
        """Change fields of the record. The status goes only where the stored one leads (IllegalJobMove otherwise)."""
        if changes.keys() & FIXED:
            raise TypeError("what a job is about is fixed")
        with self.transaction():
            stored = self.require_job(job_id)
            if "status" in changes:
                changes["status"] = advance_job(stored.status, JobStatus(changes["status"]))
            changed = replace(stored, **changes)
            self._do("write_job", **_job_row(changed))
            self._changed(stored.thread_id)
        return changed

    def job_before(self, job_id: str) -> Job | None:
        """The first job of the same key that must end before this one: one that has begun, else the oldest."""
        return first(_job_from, self._one("job_before", id=job_id))

    def claim_job(self, job_id: str, at: float) -> None:
        """It has begun, if it had not. No surface is told: that it runs follows at once."""
        self._do("claim_job", id=job_id, at=at)

    def add_marker(self, job_id: str, message_id: str, at: float) -> None:
        """How far the agent has come, by its own message ids."""
        self._do("add_marker", job_id=job_id, message_id=message_id, at=at)

    def markers(self, job_id: str) -> list[str]:
        return [str(row["message_id"]) for row in self._all("markers", job_id=job_id)]

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
        )

    def beat_worker(self, worker_id: str, at: float) -> bool:
        """False: somebody took it for dead and has its work."""
        return self._do("beat_worker", id=worker_id, at=at) > 0

    def workers(self) -> list[Worker]:
        return each(_worker_from, self._all("workers"))

    def forget_worker(self, worker_id: str) -> bool:
        return self._do("forget_worker", id=worker_id) > 0


def _job_row(job: Job) -> Row:
    return {
        **flat(job, without=("limits", "conflicts", "allowed_tools")),
        "allowed_tools": dumps(list(job.allowed_tools)),
        "limits": dumps(job.limits.as_dict()),
        "conflicts": dumps(list(job.conflicts)),
    }


def _job_from(row: Row) -> Job:
    limits = {name: value for name, value in json.loads(row["limits"]).items() if name in fields_of(Limits)}
    return from_columns(
        Job,
        row,
        permissions=Permissions(row["permissions"]),
        status=JobStatus(row["status"]),
        wish=None if row["wish"] is None else Wish(row["wish"]),
        limits=Limits(**limits),
        checkpoint=bool(row["checkpoint"]),
        keep_files=bool(row["keep_files"]),
        cancel_requested=bool(row["cancel_requested"]),
        conflicts=tuple(json.loads(row["conflicts"])),
        allowed_tools=tuple(json.loads(row["allowed_tools"])),
    )


def _worker_from(row: Row) -> Worker:
    owner = Owner(row["host"], row["pid"], row["pid_started"])
    return Worker(row["id"], owner, row["concurrency"], row["started_at"], row["heartbeat_at"], row["stopped_at"])
