"""Workers in the store: what carries jobs out, and when each was last heard of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.store.records import each
from clew.store.tables.table import Table

if TYPE_CHECKING:
    from clew.store.rows.jobs import StoredWorker


class WorkerTable(Table):
    def save(self, worker: StoredWorker) -> None:
        owner = worker.owner
        self._database.do(
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

    def beat(self, worker_id: str, at: float) -> bool:
        """False: somebody took it for dead and has its work."""
        return self._database.do("beat_worker", id=worker_id, at=at) > 0

    def all(self) -> list[StoredWorker]:
        from clew.store.rows.jobs import worker_from

        return each(worker_from, self._database.all("workers"))

    def forget_silent(self, worker: StoredWorker) -> bool:
        """With what it has claimed. False: it was heard of since that row was read."""
        with self._database.transaction():
            is_gone = self._database.do("forget_silent_worker", id=worker.id, heartbeat_at=worker.heartbeat_at) > 0
            if is_gone:
                self._database.do("release_claims", worker=worker.id)
            return is_gone

    def forget(self, worker_id: str) -> bool:
        """With what it has claimed: others may take that up."""
        with self._database.transaction():
            self._database.do("release_claims", worker=worker_id)
            return self._database.do("forget_worker", id=worker_id) > 0
