"""Hooks have their own queue: a worker for hooks takes no other work, also after a worker has died."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

import pytest

from clew.api import jobs as surface
from clew.api.client import Client
from clew.core.jobs.job import SUBMITTED, Job, JobStatus
from clew.testing.stage import Stage
from clew.wiring.engine import STORE_FILE
from clew.wiring.worker import QUEUE_FILE
from jobs.processes import a_job, carried_out, end, ended, speaking, start, until, workers

pytestmark = pytest.mark.rest


async def of_a_hook(stage: Stage, client: Client, prompt: str, key: str | None = None) -> Job:
    """A job as a hook creates it."""
    made = await client.jobs.submit(a_job(stage, "!say never asked"))
    await client.jobs.cancel(made.id)
    job = made.replace(id=f"{made.id[:-4]}hook", prompt=prompt, kind="hook", key=key or f"{made.id}-key")
    await client.engine.store.call(lambda store: store.jobs.create(job))
    return job


def place_of(stage: Stage, work: str) -> tuple[str, str]:
    """The state of an item in DBOS, and the queue that has it."""
    with closing(sqlite3.connect(stage.clew_home / QUEUE_FILE)) as queue:
        query = "SELECT status, queue_name FROM workflow_status WHERE workflow_uuid = ?"
        found: tuple[str, str] = queue.execute(query, [work]).fetchone()
        return found


def claims_of(stage: Stage) -> dict[str, str | None]:
    """By job: the worker that has claimed it."""
    with closing(sqlite3.connect(stage.clew_home / STORE_FILE)) as store:
        return dict(store.execute("SELECT job_id, claimed_by FROM job_line").fetchall())


async def test_a_worker_for_hooks_leaves_other_jobs_to_other_workers(scripted: Stage) -> None:
    async with scripted.open() as client:
        own = await client.jobs.submit(a_job(scripted, "!say own"))
        for_hooks = await start(scripted, {}, "--hooks-only")
        try:
            hook = await ended(client, await of_a_hook(scripted, client, "!say of a hook"))
            assert (hook.status, hook.result) == (JobStatus.SUCCEEDED, "of a hook")
            left = await surface.view_job(client, own.id)
            assert (left.job.status, left.job.runs, left.job.worker) == (JobStatus.QUEUED, 0, None)
            assert left.no_worker == "No worker is alive to run the job: start `clew work`, or `clew serve --work`."
            assert len(await surface.workers(client)) == 1
            assert await surface.workers(client, SUBMITTED) == []
            async with workers(scripted):
                done = await ended(client, own)
                assert (done.result, (await surface.view_job(client, own.id)).no_worker) == ("own", None)
        finally:
            await end([for_hooks])
    assert done.worker != hook.worker


async def test_the_work_of_a_dead_worker_goes_back_into_its_queue(scripted: Stage) -> None:
    """Also if a worker for hooks has the name of the dead one."""
    async with scripted.open() as client, workers(scripted) as alive:
        job = await client.jobs.submit(a_job(scripted, "!slow 400 0.05"))
        await speaking(client, job)
        before = await client.jobs.find(job.id)
        assert claims_of(scripted) == {job.id: before.worker}
        alive[0].kill()
        await alive[0].wait()
        alive[0] = await start(scripted, {}, "--hooks-only")
        async with asyncio.timeout(60):
            while claims_of(scripted) != {job.id: None}:
                await asyncio.sleep(0.05)
        hook = await ended(client, await of_a_hook(scripted, client, "!say of a hook"))
        assert hook.worker == before.worker
        assert (await client.jobs.find(job.id)).runs == 1, "nobody has begun it again"
        assert claims_of(scripted) == {job.id: None}
        scripted.api.reply = None
        alive.append(await start(scripted, {}))
        begun = await until(client, job.id, lambda now: now.runs == 2)
        assert begun.worker not in (None, hook.worker)
        await client.jobs.cancel(job.id)
        await ended(client, job)


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_job_of_a_hook_waits_for_a_job_of_its_key_that_its_worker_does_not_take(
    scripted: Stage, is_cancelled: bool
) -> None:
    async with scripted.open() as client:
        own = await client.jobs.submit(a_job(scripted, "!say own", key="shared"))
        hook = await of_a_hook(scripted, client, "!say of a hook", key="shared")
        for_hooks = await start(scripted, {}, "--hooks-only")
        try:
            async with asyncio.timeout(60):
                while not await surface.workers(client):
                    await asyncio.sleep(0.05)
            after_it = await ended(client, await of_a_hook(scripted, client, "!say of a later hook"))
            assert claims_of(scripted) == {own.id: None, hook.id: None}, "it works, and leaves these two"
            if is_cancelled:
                await client.jobs.cancel(hook.id)
                assert claims_of(scripted) == {own.id: None}
                return
            done = await carried_out(client, own)
            after = await ended(client, hook)
        finally:
            await end([for_hooks])
        assert (done.result, done.worker != after_it.worker) == ("own", True)
        assert (after.result, after.worker) == ("of a hook", after_it.worker)
        assert (after.started_at or 0) >= (done.ended_at or 0)
