"""The table of workers: the processes that run jobs, each with its last heartbeat."""

from __future__ import annotations

from clew.store.records import each, flat, process_columns
from clew.store.rows.jobs import StoredWorker, worker_from
from clew.store.tables.table import Table


class WorkerTable(Table):
    def save(self, worker: StoredWorker) -> None:
        self._database.do("save_worker", **flat(worker, without=("owner",)), **process_columns(worker.owner))

    def beat(self, worker_id: str, at: float) -> bool:
        """Records a heartbeat. False: another worker considered this one dead and released its jobs."""
        return self._database.do("beat_worker", id=worker_id, at=at) > 0

    def all(self) -> list[StoredWorker]:
        return each(worker_from, self._database.all("workers"))

    def forget_silent(self, worker: StoredWorker) -> bool:
        """Removes a dead worker and its claims. False: it has sent a heartbeat since that row was read."""
        with self._database.transaction():
            is_gone = self._database.do("forget_silent_worker", id=worker.id, heartbeat_at=worker.heartbeat_at) > 0
            if is_gone:
                self._database.do("release_claims", worker=worker.id)
            return is_gone

    def forget(self, worker_id: str) -> bool:
        """Removes the worker and its claims, so that other workers can claim these jobs."""
        with self._database.transaction():
            self._database.do("release_claims", worker=worker_id)
            return self._database.do("forget_worker", id=worker_id) > 0
