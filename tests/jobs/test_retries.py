"""Retries: what they continue, what they reset, and in which order they run."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import subprocess
import time

import pytest

from clew.api.client import Client
from clew.api.jobs import error_of, view_job
from clew.core.jobs.job import CONTINUE, Job, JobStatus, Limits, StartMode
from clew.core.runs.limits import FIRST_PAUSE_S, JITTER_S
from clew.core.runs.run import RunStatus
from clew.errors import AgentFailed, AuthFailed, Conflict, NotFound, TimedOut, UsageError
from clew.git.checkpoints import Checkpoints
from clew.testing.model.scripts import Fail, Reply, Request, usage_limit
from clew.testing.stage import SUBSCRIPTION, Stage
from jobs.processes import REFUSED, a_job, a_repository, carried_out, until


def checkpoints(stage: Stage, job: Job) -> Checkpoints:
    return Checkpoints(str(stage.work), job.id, stage.environ)


async def blocked(stage: Stage, client: Client, **more: object) -> Job:
    """A job that is blocked after a first run that did nothing."""
    job = await carried_out(client, await client.jobs.submit(a_job(stage, REFUSED, **more)))
    assert job.status is JobStatus.BLOCKED
    return job


async def test_kept_files_become_the_first_checkpoint_when_the_checkpoints_are_gone(scripted: Stage) -> None:
    a_repository(scripted)
    async with scripted.open() as client:
        job = await blocked(scripted, client, checkpoint=True)
        await checkpoints(scripted, job).drop()
        (scripted.work / "kept.txt").write_text("somebody else was here\n")

        await client.jobs.retry(job.id, keep=True)
        done = await carried_out(client, job)

        assert done.status is JobStatus.SUCCEEDED, done
        saved = await checkpoints(scripted, job).list()
        assert saved[0].why == "start"
        shown = ["git", "-C", str(scripted.work), "show", f"{saved[0].commit}:kept.txt"]
        assert subprocess.run(shown, capture_output=True, text=True, check=True).stdout == "somebody else was here\n"


async def test_a_job_whose_checkpoints_are_gone_is_in_conflict(scripted: Stage) -> None:
    a_repository(scripted)
    async with scripted.open() as client:
        job = await blocked(scripted, client, checkpoint=True)
        await checkpoints(scripted, job).drop()

        with pytest.raises(NotFound) as restored:
            await client.jobs.retry(job.id, restore=True)
        assert "--keep" in (restored.value.hint or "") and "\n" not in restored.value.message
        assert (await client.jobs.find(job.id)).status is JobStatus.BLOCKED, "nothing came of it"

        await client.jobs.retry(job.id)
        stopped = await carried_out(client, job)
        assert (stopped.status, stopped.conflicts, stopped.runs) == (JobStatus.CONFLICT, (), 1)
        assert isinstance(error_of(stopped), Conflict) and "--keep" in (stopped.hint or "")
        with pytest.raises(Conflict) as again:
            await client.jobs.retry(job.id)
        assert "checkpoints" in again.value.message

        await client.jobs.retry(job.id, keep=True)
        assert (await carried_out(client, job)).status is JobStatus.SUCCEEDED


async def test_the_error_is_that_of_the_end_and_not_of_an_earlier_run(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await blocked(scripted, client)
        assert isinstance(error_of(job), AuthFailed)

        queued = await client.jobs.retry(job.id)
        assert (queued.outcome, error_of(queued)) == (None, None)
        scripted.work.rename(scripted.folder / "moved")
        gone = await carried_out(client, job)

        assert gone.status is JobStatus.FAILED
        assert type(error_of(gone)) is AgentFailed, "nobody has to log in for a directory that is not there"


async def test_a_passed_deadline_has_its_own_message(scripted: Stage) -> None:
    async with scripted.open() as client:
        now = client.engine.context.clock()
        limits = Limits(deadline_at=now + 1)
        job = await client.jobs.submit(a_job(scripted, "!say x", not_before=now + 60, limits=limits))
        over = await carried_out(client, job)
        assert over.status is JobStatus.FAILED and isinstance(error_of(over), TimedOut)


async def test_a_wait_beyond_the_deadline_names_its_cause(scripted: Stage) -> None:
    async with scripted.open() as client:
        limits = Limits(deadline_at=client.engine.context.clock() + 60)
        scripted.api.reply = lambda _: Fail(429, "rate_limit_error", "Slow down")
        over = await carried_out(client, await client.jobs.submit(a_job(scripted, "hello", limits=limits)))
        assert over.status is JobStatus.FAILED
        assert over.error is not None and over.error.endswith("The job would continue only after its deadline.")
        assert "limit" in over.error, "and what for"


async def test_a_retry_drops_a_deadline_that_has_passed_and_keeps_one_that_has_not(scripted: Stage) -> None:
    async with scripted.open() as client:
        now = client.engine.context.clock()
        late = await client.jobs.submit(a_job(scripted, "!say x", limits=Limits(deadline_at=now - 1)))
        assert (await carried_out(client, late)).status is JobStatus.FAILED
        soon = await blocked(scripted, client, limits=Limits(deadline_at=now + 600))

        assert (await client.jobs.retry(late.id)).limits.deadline_at is None
        assert (await client.jobs.retry(soon.id)).limits.deadline_at == now + 600

        assert (await carried_out(client, late)).status is JobStatus.SUCCEEDED


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf, -1.0, 1e15])
@pytest.mark.parametrize("field", ["deadline_at", "not_before"])
async def test_an_impossible_time_is_refused(scripted: Stage, field: str, at: float) -> None:
    async with scripted.open() as client:
        new = (
            a_job(scripted, "x", not_before=at)
            if field == "not_before"
            else a_job(scripted, "x", limits=Limits(deadline_at=at))
        )
        with pytest.raises(UsageError):
            await client.jobs.submit(new)
        assert await client.jobs.list() == []


@pytest.mark.parametrize("told", ["9" * 400, "1800000000000000", "0", "-5", "253402300800"])
async def test_an_impossible_reset_time_leads_to_a_limited_wait(scripted: Stage, told: str) -> None:
    asked: list[Request] = []

    def reply(request: Request) -> Reply | None:
        asked.append(request)
        return Fail(429, "rate_limit_error", f"Claude AI usage limit reached|{told}") if request.is_main else None

    scripted.api.reply = reply
    async with scripted.open() as client:
        now = client.engine.context.clock()
        job = await client.jobs.submit(a_job(scripted, "x"))
        carrying = asyncio.create_task(client.carry_out(job.id))
        try:
            waiting = await until(client, job.id, lambda seen: seen.status is JobStatus.WAITING)
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
        latest = client.engine.context.clock() + FIRST_PAUSE_S + JITTER_S
        assert waiting.wake_at is not None and now < waiting.wake_at <= latest

        assert json.dumps((await view_job(client, job.id)).to_json())


@pytest.mark.rest
async def test_usage_limits_of_the_account_do_not_count_against_the_jobs_limits(scripted: Stage) -> None:
    scripted.account = SUBSCRIPTION
    limited = [usage_limit(time.time() + 2), usage_limit(time.time() + 3)]
    scripted.api.reply = lambda request: limited.pop(0) if limited and request.is_main else None
    narrow = Limits(max_runs=1, retries=0, max_resumes=0, max_age_s=1)
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "do it", limits=narrow))
        over = await carried_out(client, job)
        runs = await client.runs(thread=await client.find(job.thread_id))
    assert (over.status, over.runs, over.resume_count) == (JobStatus.SUCCEEDED, 1, 2)
    assert [run.outcome for run in runs] == ["success", "usage_limit", "usage_limit"]
    assert len({run.session_id for run in runs}) == 1, "the session is kept"


@pytest.mark.rest
async def test_a_retried_job_waits_for_a_started_job_of_its_key(scripted: Stage) -> None:
    async with scripted.open() as client:
        older = await blocked(scripted, client, key="k")
        newer = await client.jobs.submit(a_job(scripted, "!hang text so far", key="k"))
        last = await client.jobs.submit(a_job(scripted, "!say last", key="k"))
        carrying = [asyncio.create_task(client.carry_out(newer.id))]
        await until(client, newer.id, lambda seen: seen.run_id is not None)

        await client.jobs.retry(older.id)
        carrying += [asyncio.create_task(client.carry_out(job.id)) for job in (older, last)]
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        assert (await client.jobs.find(older.id)).status is JobStatus.QUEUED
        scripted.api.release()
        async with asyncio.timeout(90):
            await asyncio.gather(*carrying)

        done = {job.id: await client.jobs.find(job.id) for job in (older, newer, last)}
        assert {job.status for job in done.values()} == {JobStatus.SUCCEEDED}
        order = [newer, older, last]
        times = [(done[job.id].started_at or 0, done[job.id].ended_at or 0) for job in order]
        assert times == sorted(times)
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))


async def test_a_retried_job_runs_before_newer_jobs_of_its_key_that_have_not_started(scripted: Stage) -> None:
    """A process that runs a later job runs the retried one first, even if the later job still has to wait."""
    async with scripted.open() as client:
        older = await blocked(scripted, client, key="k")
        later = client.engine.context.clock() + 3600
        newer = await client.jobs.submit(a_job(scripted, "!say newer", key="k", not_before=later))
        carrying = asyncio.create_task(client.carry_out(newer.id))
        try:
            await client.jobs.retry(older.id)
            done = await until(client, older.id, lambda seen: seen.status is JobStatus.SUCCEEDED)
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
        assert done.tries == 2
        assert (await client.jobs.find(newer.id)).status is JobStatus.QUEUED


@pytest.mark.rest
async def test_two_tasks_on_one_key_never_run_two_jobs_at_once(scripted: Stage) -> None:
    async with scripted.open() as one, scripted.open() as other:
        older = await blocked(scripted, one, key="k")
        jobs = [await one.jobs.submit(a_job(scripted, f"!slow 3 0.0{n}", key="k")) for n in range(4)]
        await one.jobs.retry(older.id)
        async with asyncio.timeout(90):
            await asyncio.gather(
                *(client.carry_out(job.id) for client in (one, other) for job in (*jobs, older)),
            )
        done = [await one.jobs.find(job.id) for job in (older, *jobs)]
        assert [job.status for job in done] == [JobStatus.SUCCEEDED] * 5
        runs = [run for run in await one.runs(limit=100) if run.status is RunStatus.ANSWERED]
        times = sorted((run.started_at or 0, run.ended_at or 0) for run in runs)
        assert len(runs) == 5
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(times))


async def test_a_fresh_retry_sends_the_original_prompt_and_a_resumed_one_continues(scripted: Stage) -> None:
    async with scripted.open() as client:
        for start_mode, prompt in ((StartMode.FRESH, REFUSED), (StartMode.RESUME, CONTINUE)):
            job = await blocked(scripted, client)
            await client.jobs.retry(job.id, start_mode)
            await carried_out(client, job)
            assert scripted.prompt == prompt
