"""Counts of the whole store: by host, by status."""

from __future__ import annotations

from typing import Any

from clew.core.job import JobStatus
from clew.core.run import RunStatus
from clew.core.usage import Usage
from clew.store.records import Tally
from clew.store.store import Store
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.samples import a_run, a_thread


class TallyContract:
    def test_ended_runs_add_up_by_the_kind_of_their_thread(self, store: Store) -> None:
        store.create_thread(a_thread())
        store.create_thread(a_thread("thread-2", "other", kind="review"))
        answered: dict[str, Any] = {
            "status": RunStatus.ANSWERED,
            "outcome": "success",
            "ended_at": 9.0,
            "cost_usd": 0.25,
        }
        for number, thread_id in enumerate(("thread-1", "thread-1", "thread-2"), start=1):
            store.create_run(
                a_run(f"run-{number}", thread_id, session_resumed=True, usage=Usage(1, 2, 3, 4), **answered)
            )
        store.create_run(a_run("run-4", "thread-2", reason="no_pin", fallback=True, **answered))
        store.create_run(a_run("run-5", "thread-2", status=RunStatus.RUNNING, reason="no_pin"))
        store.create_run(a_run("run-6", "thread-2", status=RunStatus.QUEUED))
        assert store.tallies() == [
            Tally("chat", "claude", True, None, "success", 2, 0, Usage(2, 4, 6, 8), 0.5),
            Tally("review", "claude", False, "no_pin", "success", 1, 1, Usage(), 0.25),
            Tally("review", "claude", True, None, "success", 1, 0, Usage(1, 2, 3, 4), 0.25),
        ]
        assert store.count_live_runs() == 2

    def test_jobs_are_counted_by_status(self, store: Store) -> None:
        assert store.count_jobs() == {}
        store.create_thread(a_thread())
        for number, status in enumerate((JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.FAILED)):
            store.create_job(a_job(f"job-{number}", status=status))
        assert store.count_jobs() == {"queued": 2, "failed": 1}
