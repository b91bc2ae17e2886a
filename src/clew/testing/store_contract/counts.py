"""Counts over the whole store: by host, by status."""

from __future__ import annotations

from typing import Any

from clew.core.costs.usage import Usage
from clew.core.jobs.job import JobStatus
from clew.core.runs.run import RunStatus
from clew.store.records import RunTotals
from clew.store.store import Store
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.samples import a_run, a_thread


class CountContract:
    def test_ended_runs_are_summed_by_the_kind_of_their_thread(self, store: Store) -> None:
        store.threads.create(a_thread())
        store.threads.create(a_thread("thread-2", "other", kind="review"))
        answered: dict[str, Any] = {
            "status": RunStatus.ANSWERED,
            "outcome": "success",
            "ended_at": 9.0,
            "cost_usd": 0.25,
        }
        for number, thread_id in enumerate(("thread-1", "thread-1", "thread-2"), start=1):
            store.runs.create(
                a_run(f"run-{number}", thread_id, session_resumed=True, usage=Usage(1, 2, 3, 4), **answered)
            )
        store.runs.create(a_run("run-4", "thread-2", reason="no_pin", fallback=True, **answered))
        store.runs.create(a_run("run-5", "thread-2", status=RunStatus.RUNNING, reason="no_pin"))
        store.runs.create(a_run("run-6", "thread-2", status=RunStatus.QUEUED))
        store.runs.create(a_run("run-7", "thread-1", session_resumed=True, outside=True, **answered))
        assert store.counts.by_outcome() == [
            RunTotals("chat", "claude", True, None, "success", 2, 0, Usage(2, 4, 6, 8), 0.5),
            RunTotals("review", "claude", False, "no_pin", "success", 1, 1, Usage(), 0.25),
            RunTotals("review", "claude", True, None, "success", 1, 0, Usage(1, 2, 3, 4), 0.25),
        ]
        assert store.counts.live_runs() == 2
        store.runs.create(a_run("run-8", session_resumed=True, reason="history_changed", rewound_to=2, **answered))
        [rewound] = [each for each in store.counts.by_outcome() if each.rewound]
        assert (rewound.session_resumed, rewound.runs, rewound.rewound) == (True, 1, 1)

    def test_jobs_are_counted_by_status(self, store: Store) -> None:
        assert store.counts.jobs() == {}
        store.threads.create(a_thread())
        for number, status in enumerate((JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.FAILED)):
            store.jobs.create(a_job(f"job-{number}", status=status))
        assert store.counts.jobs() == {"queued": 2, "failed": 1}
