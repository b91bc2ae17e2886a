"""A job can be cancelled in every status, with all processes that it started."""

from __future__ import annotations

import asyncio

import pytest

from clew.api.client import Client
from clew.core.jobs.job import STOPPED, Job, JobStatus
from clew.core.runs.limits import JITTER_S
from clew.errors import Conflict
from clew.testing.model.scripts import Fail, Reply, Request
from clew.testing.stage import Stage
from jobs.processes import REFUSED, a_job, a_repository, carried_out, ended, until, workers

OVERLOADED = "!fail 529 overloaded_error Overloaded"
ONE_AFTER_THE_OTHER = '!tool Bash {"command": "(setsid sleep 300 &) ; touch begun; sleep 300"}'


async def is_cancelled(client: Client, job: Job, *, stays: JobStatus = JobStatus.CANCELLED) -> Job:
    """The job is cancelled now or soon, and cannot be cancelled twice."""
    await client.jobs.cancel(job.id)
    over = await until(client, job.id, lambda now: now.status in STOPPED)
    assert over.status is stays
    assert over.ended_at is not None and "cancelled" in (over.error or "")
    with pytest.raises(Conflict):
        await client.jobs.cancel(job.id)
    return over


@pytest.mark.parametrize("later", [False, True])
async def test_a_queued_or_delayed_job_is_cancelled(scripted: Stage, later: bool) -> None:
    async with scripted.open() as client:
        not_before = client.engine.context.clock() + 3600 if later else None
        job = await client.jobs.submit(a_job(scripted, "!say x", not_before=not_before))
        assert (await is_cancelled(client, job)).runs == 0
        assert (await carried_out(client, job)).status is JobStatus.CANCELLED, "whoever has it in a queue sees it"
        assert not scripted.launches


async def test_a_job_that_a_worker_holds_until_its_start_is_cancelled(scripted: Stage) -> None:
    async with scripted.open() as client:
        carrying = None
        try:
            job = await client.jobs.submit(a_job(scripted, "x", not_before=client.engine.context.clock() + 3600))
            carrying = asyncio.create_task(client.carry_out(job.id))
            await is_cancelled(client, job)
            async with asyncio.timeout(60):
                await carrying
        finally:
            if carrying is not None:
                carrying.cancel()
        assert not scripted.launches


async def test_a_running_job_is_cancelled_with_every_process_that_it_started(stage: Stage) -> None:
    async with stage.open() as client:
        async with workers(stage) as alive:
            job = await client.jobs.submit(a_job(stage, ONE_AFTER_THE_OTHER))
            async with asyncio.timeout(90):
                while not (stage.work / "begun").exists():
                    await asyncio.sleep(0.1)
            await is_cancelled(client, job)
            async with asyncio.timeout(60):
                while set(stage.processes()) - {process.pid for process in alive}:
                    await asyncio.sleep(0.1)
        assert (await client.jobs.find(job.id)).runs == 1


async def test_a_job_that_pauses_after_an_error_is_cancelled(scripted: Stage) -> None:
    async with scripted.open() as client, workers(scripted):
        job = await client.jobs.submit(a_job(scripted, OVERLOADED))
        waiting = await ended(client, job, status=JobStatus.WAITING)
        assert waiting.status is JobStatus.WAITING
        await is_cancelled(client, job)


async def test_a_job_that_waits_for_a_usage_limit_is_cancelled(scripted: Stage) -> None:
    async with scripted.open() as client:
        resets_at = int(client.engine.context.clock()) + 7200

        def reply(request: Request) -> Reply | None:
            limit = Fail(429, "rate_limit_error", f"Claude AI usage limit reached|{resets_at}")
            return limit if request.is_main else None

        scripted.api.reply = reply
        async with workers(scripted):
            job = await client.jobs.submit(a_job(scripted, "x"))
            waiting = await ended(client, job, status=JobStatus.WAITING)
            assert waiting.wake_at is not None and 0 <= waiting.wake_at - resets_at <= JITTER_S
            await is_cancelled(client, job)


async def test_a_blocked_job_is_cancelled(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await carried_out(client, await client.jobs.submit(a_job(scripted, REFUSED)))
        assert job.status is JobStatus.BLOCKED
        await is_cancelled(client, job)


async def test_a_job_in_conflict_is_cancelled(scripted: Stage) -> None:
    a_repository(scripted)
    async with scripted.open() as client:
        job = await carried_out(client, await client.jobs.submit(a_job(scripted, REFUSED, checkpoint=True)))
        (scripted.work / "kept.txt").write_text("somebody else was here\n")
        await client.jobs.retry(job.id)
        assert (await carried_out(client, job)).status is JobStatus.CONFLICT
        await is_cancelled(client, job)
        assert (scripted.work / "kept.txt").read_text() == "somebody else was here\n"


@pytest.mark.parametrize(
    ("prompt", "status"), [("!say x", JobStatus.SUCCEEDED), ("!fail 418 teapot I am one", JobStatus.FAILED)]
)
async def test_a_job_that_has_ended_cannot_be_cancelled(scripted: Stage, prompt: str, status: JobStatus) -> None:
    async with scripted.open() as client:
        job = await carried_out(client, await client.jobs.submit(a_job(scripted, prompt)))
        assert job.status is status
        with pytest.raises(Conflict):
            await client.jobs.cancel(job.id)
        assert await client.jobs.find(job.id) == job
