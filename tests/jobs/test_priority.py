"""The order in which workers claim jobs: by priority, and in order within a key. A simple model says what is right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.core.jobs.job import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT, JobStatus
from clew.errors import UsageError
from clew.store.rows.jobs import StoredWorker
from clew.store.store import Store, open_store
from clew.testing.stage import Stage
from clew.testing.store_contract.jobs import a_job
from clew.testing.store_contract.samples import OWNER, a_thread
from jobs.processes import a_job as new_job

NOW = 100.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "clew.db") as store:
        store.workers.save(StoredWorker("w", OWNER, 4, 1.0, 1.0, None))
        yield store


class ModelJob:
    def __init__(self, id: str, key: str, priority: int, not_before: float | None) -> None:
        self.id, self.key, self.priority, self.not_before = id, key, priority, not_before
        self.status = JobStatus.QUEUED
        self.has_begun = False
        self.is_claimed = False


class Model:
    """What the queue should do, computed from all jobs each time, which are in the order of their submission."""

    def __init__(self) -> None:
        self.jobs: list[ModelJob] = []

    def active(self) -> list[ModelJob]:
        return [job for job in self.jobs if job.status in (JobStatus.QUEUED, JobStatus.RUNNING)]

    def next_jobs(self) -> list[ModelJob]:
        """The first of each key: one that has begun, else the oldest."""
        first: dict[str, ModelJob] = {}
        for job in sorted(self.active(), key=lambda job: not job.has_begun):
            first.setdefault(job.key, job)
        return [job for job in self.jobs if job in first.values()]

    def urgency(self, key: str) -> int:
        return min(job.priority for job in self.active() if job.key == key)

    def claimable(self) -> list[str]:
        ready = [job for job in self.next_jobs() if not job.is_claimed and (job.not_before or 0.0) <= NOW]
        return [job.id for job in sorted(ready, key=lambda job: self.urgency(job.key))]


STEPS = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from([MOST_URGENT, 20, DEFAULT_PRIORITY, LEAST_URGENT]),
        st.sampled_from([None, None, 5.0, 500.0]),
    ),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["begin", "end", "cancel", "retry"]), st.integers(0, 30)),
)


class Queue:
    """Carries out the same steps on a store and on the model."""

    def __init__(self, store: Store) -> None:
        self.store, self.model = store, Model()

    def submit(self, key: str, priority: int, not_before: float | None) -> None:
        id = f"job-{len(self.model.jobs)}"
        self.model.jobs.append(ModelJob(id, key or id, priority, not_before))
        self.store.jobs.create(a_job(id, key=key or id, priority=priority, not_before=not_before))

    def claim(self, limit: int) -> None:
        expected = self.model.claimable()[:limit]
        assert self.store.jobs.claim("w", NOW, limit) == expected
        for job in self.model.jobs:
            job.is_claimed = job.is_claimed or job.id in expected

    def change(self, step: str, place: int) -> None:
        model = self.model
        may_change = {
            "begin": [job for job in model.active() if job.is_claimed and not job.has_begun],
            "end": [job for job in model.active() if job.has_begun],
            "cancel": [job for job in model.active() if not job.is_claimed],
            "retry": [job for job in model.jobs if job.status in (JobStatus.FAILED, JobStatus.CANCELLED)],
        }[step]
        if not may_change:
            return
        job = may_change[place % len(may_change)]
        job.status = {
            "begin": JobStatus.RUNNING,
            "end": JobStatus.FAILED,
            "cancel": JobStatus.CANCELLED,
            "retry": JobStatus.QUEUED,
        }[step]
        job.has_begun = step == "begin"
        job.is_claimed = step == "begin"
        if step == "retry":
            job.not_before = None
            self.store.jobs.update(job.id, status=job.status, started_at=None, not_before=None)
        else:
            self.store.jobs.update(job.id, status=job.status, started_at=1.0 if step == "begin" else None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=30))
def test_jobs_are_claimed_in_the_order_of_the_model(store: Store, steps: list[tuple[object, ...]]) -> None:
    store.threads.create(a_thread())
    try:
        queue = Queue(store)
        for name, *arguments in steps:
            if name == "submit":
                queue.submit(*arguments)  # type: ignore[arg-type]
            elif name == "claim":
                queue.claim(*arguments)  # type: ignore[arg-type]
            else:
                queue.change(name, *arguments)  # type: ignore[arg-type]
            assert store.jobs.claimable(NOW, 30) == queue.model.claimable()
    finally:
        store.threads.delete("thread-1")


@pytest.mark.parametrize("priority", [0, 101, -1, 2**70, 1.5, True, "high"])
async def test_a_priority_out_of_range_is_refused_and_nothing_is_stored(scripted: Stage, priority: object) -> None:
    async with scripted.open() as client:
        with pytest.raises(UsageError, match="priority"):
            await client.jobs.submit(new_job(scripted, "hello", priority=priority))
        assert await client.jobs.list() == []
        assert await client.threads() == []
