"""Jobs from submit to their end, in one process on the scripted and the real Claude CLI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from clew.client import Client
from clew.core.job import CONTINUE, Job, JobStatus, Limits, Wish
from clew.core.thread import Permissions
from clew.engine.work import Worker, WorkerSettings, queue_config
from clew.errors import Conflict
from clew.hosts.jobs import Jobs, NewJob
from clew.testing.stage import MODEL, Stage


@asynccontextmanager
async def working(stage: Stage, client: Client, jobs: Jobs) -> AsyncIterator[None]:
    slots = asyncio.Semaphore(4)
    settings = WorkerSettings("w", queue_config("w", file=str(stage.folder / "queue.db")), poll_s=0.1)
    worker = Worker(
        client.engine.database,
        client.engine.around,
        settings,
        {"job": lambda job_id: jobs.carry_out(job_id, "w", slots)},
        Jobs.waiting,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(worker.run(stop))
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await task


def a_job(stage: Stage, prompt: str, **more: object) -> NewJob:
    return NewJob(prompt, str(stage.work), "claude", MODEL, permissions=Permissions.ALL, **more)  # type: ignore[arg-type]


async def ended(jobs: Jobs, job: Job, *, status: JobStatus | None = None) -> Job:
    async with asyncio.timeout(60):
        while True:
            now = await jobs.find(job.id)
            if now.status not in (JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.WAITING) or now.status is status:
                return now
            await asyncio.sleep(0.05)


async def test_a_job_runs_and_its_answer_is_the_result(stage: Stage) -> None:
    async with stage.open() as client:
        jobs = Jobs(client.engine)
        async with working(stage, client, jobs):
            done = await ended(jobs, await jobs.submit(a_job(stage, "!say all done")))
        assert (done.status, done.result, done.runs, done.resume_count) == (JobStatus.SUCCEEDED, "all done", 1, 0)
        assert done.session_id and done.session_saved_at


async def test_a_time_out_is_followed_by_a_resumed_run_that_is_told_to_go_on(stage: Stage) -> None:
    async with stage.open() as client:
        jobs = Jobs(client.engine)
        async with working(stage, client, jobs):
            job = await jobs.submit(a_job(stage, "!slow 1000 0.05", limits=Limits(timeout_s=4)))
            done = await ended(jobs, job)
        assert (done.status, done.runs, done.resume_count) == (JobStatus.SUCCEEDED, 2, 1)
        assert stage.launches[-1].resumes
        assert stage.prompt == CONTINUE
        assert sum("!slow" in text for role, text in stage.shown if role == "user") == 1


async def test_a_job_that_may_not_be_resumed_starts_over_with_the_original_prompt(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = Jobs(client.engine)
        async with working(scripted, client, jobs):
            job = await jobs.submit(
                a_job(scripted, "!slow 1000 0.05", limits=Limits(timeout_s=2, max_resumes=0, max_runs=2))
            )
            failed = await ended(jobs, job)
        assert failed.status is JobStatus.FAILED
        assert (failed.runs, failed.reason) == (2, "worn_out")
        assert not scripted.launches[-1].resumes
        assert scripted.prompt == "!slow 1000 0.05"


async def test_jobs_of_one_key_run_in_order_and_others_beside_them(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = Jobs(client.engine)
        submitted = [await jobs.submit(a_job(scripted, f"!say {n}", key="k")) for n in range(4)]
        other = await jobs.submit(a_job(scripted, "!say other"))
        async with working(scripted, client, jobs):
            done = [await ended(jobs, job) for job in (*submitted, other)]
        assert all(job.status is JobStatus.SUCCEEDED for job in done)
        times = [(job.started_at, job.ended_at) for job in done[:4]]
        assert all(before[1] <= after[0] for before, after in pairwise(times))  # type: ignore[operator]


async def test_an_auth_failure_blocks_and_a_retry_resumes(scripted: Stage) -> None:
    async with scripted.open() as client:
        jobs = Jobs(client.engine)
        async with working(scripted, client, jobs):
            job = await jobs.submit(a_job(scripted, "!fail 401 authentication_error invalid x-api-key"))
            blocked = await ended(jobs, job)
            assert blocked.status is JobStatus.BLOCKED and blocked.hint
            await jobs.retry(job.id, Wish.RESUME)
            done = await ended(jobs, job)
        assert done.status is JobStatus.SUCCEEDED and done.tries == 2
        with pytest.raises(Conflict):
            await jobs.retry(job.id)


@pytest.mark.parametrize("when", ["queued", "running", "waiting"])
async def test_a_job_is_cancelled_in_every_state(scripted: Stage, when: str) -> None:
    prompts = {"queued": "!say x", "running": "!slow 1000 0.05", "waiting": "!fail 529 overloaded_error Overloaded"}
    async with scripted.open() as client:
        jobs = Jobs(client.engine)
        job = await jobs.submit(a_job(scripted, prompts[when]))
        if when == "queued":
            assert (await jobs.cancel(job.id)).status is JobStatus.CANCELLED
        async with working(scripted, client, jobs):
            if when != "queued":
                await ended(jobs, job, status=JobStatus(when))
                await jobs.cancel(job.id)
            over = await ended(jobs, job)
        assert over.status is JobStatus.CANCELLED
        with pytest.raises(Conflict):
            await jobs.cancel(job.id)
