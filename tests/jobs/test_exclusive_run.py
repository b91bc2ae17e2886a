"""If two tasks run the same job, only one of them asks the agent."""

from __future__ import annotations

import asyncio

import pytest

from clew.core.jobs.job import JobStatus
from clew.core.runs.run import Owner, Run
from clew.hosts.jobs import rows as job_rows
from clew.store.store import Store
from clew.testing.stage import Stage
from jobs.processes import a_job, speaking


async def test_a_job_that_three_tasks_run_at_once_asks_the_agent_once(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "hello"))
        async with asyncio.timeout(90):
            await asyncio.gather(*(client.carry_out(job.id) for _ in range(3)))
        done = await client.jobs.find(job.id)
        assert (done.status, done.runs, done.result) == (JobStatus.SUCCEEDED, 1, "ack: hello")
        assert len(await client.runs(thread=await client.find(job.thread_id))) == 1
    assert len(scripted.launches) == 1


async def test_a_second_run_of_the_same_state_of_a_job_is_not_opened(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "hello"))

        def begin(store: Store, name: str) -> Run:
            run = Run(name, job.thread_id, f"turn-{name}", "hello", "claude", None, "queued")  # type: ignore[arg-type]
            with store.transaction():
                store.runs.create(run)
                job_rows.begin(store, job, run, "worker", 1.0)
            return run

        await client.engine.store.call(lambda store: begin(store, "one"))
        with pytest.raises(job_rows.NotOurs):
            await client.engine.store.call(lambda store: begin(store, "two"))
        now = await client.engine.store.call(lambda store: (store.jobs.require(job.id), store.runs.find("two")))
        assert (now[0].run_id, now[0].runs, now[1]) == ("one", 1, None)
        await client.engine.store.call(lambda store: store.runs.update("one", status="running"))
        await client.engine.store.call(lambda store: store.runs.update("one", status="failed"))


async def test_a_job_that_has_to_wait_since_it_was_read_is_not_run(scripted: Stage) -> None:
    """Two tasks run the job: one concludes a run that met a usage limit, after the other has read the job."""
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "hello"))

        def begin(store: Store) -> None:
            store.jobs.update(job.id, wake_at=9e9)
            run = Run("one", job.thread_id, "turn-one", "hello", "claude", None, "queued")  # type: ignore[arg-type]
            with store.transaction():
                store.runs.create(run)
                job_rows.begin(store, job, run, "worker", 1.0)

        with pytest.raises(job_rows.NotOurs):
            await client.engine.store.call(begin)
        assert await client.engine.store.call(lambda store: store.runs.find("one")) is None


@pytest.mark.rest
async def test_a_job_whose_thread_was_taken_over_is_queued_again(scripted: Stage) -> None:
    """Another process considered its owner dead, and died before it wrote that. The job is neither failed nor lost."""
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!slow 30 0.05"))
        carrying = asyncio.create_task(client.carry_out(job.id))
        await speaking(client, job)

        def take_over(store: Store) -> None:
            [held] = store.leases.under("thread/")
            now, owner = store.leases.time(client.engine.context.clock), Owner("elsewhere", 1, 1.0)
            terms = {"owner": owner, "run_id": held.run_id, "now": now, "ttl_s": 2.0}
            assert store.leases.take(held.key, old_token=held.token, token="theirs", **terms) is not None

        await client.engine.store.call(take_over)
        async with asyncio.timeout(60):
            await carrying
        done = await client.jobs.find(job.id)
        assert (done.status, done.runs, done.error) == (JobStatus.SUCCEEDED, 2, None)
        runs = await client.runs(thread=await client.find(job.thread_id))
        assert [run.status for run in runs] == ["answered", "interrupted"]
