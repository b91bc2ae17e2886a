"""When a job resumes its session and when it starts a fresh one; and runs whose prompt never reached the agent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest

from clew.api.client import Client
from clew.api.jobs import view_job
from clew.core.jobs.job import CONTINUE, Job, JobStatus, Limits, StartMode, is_session_expired
from clew.core.runs.limits import JITTER_S
from clew.core.runs.run import RunStatus
from clew.errors import NotFound
from clew.testing.model.scripts import Fail, Hang, Reply, Request, ToolUse
from clew.testing.stage import Stage
from jobs.processes import REFUSED, a_job, carried_out, start, until


def user_texts(stage: Stage) -> list[str]:
    return [text for role, text in stage.shown if role == "user"]


async def refused_once(stage: Stage, client: Client, prompt: str = "do it", **limits: object) -> Job:
    """A job that is blocked after its first run. Its next run will be answered."""
    stage.api.reply = lambda request: (
        Fail(401, "authentication_error", "invalid x-api-key") if request.is_main else None
    )
    job = await client.jobs.submit(a_job(stage, prompt, limits=Limits(**limits)))  # type: ignore[arg-type]
    blocked = await carried_out(client, job)
    assert blocked.status is JobStatus.BLOCKED
    stage.api.reply = None
    return blocked


async def test_an_expired_session_is_not_resumed_and_the_original_prompt_is_sent_again(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await refused_once(scripted, client, max_age_s=0.0)
        await client.jobs.retry(job.id)
        done = await carried_out(client, job)
        assert (done.status, done.reason, done.resume_count) == (JobStatus.SUCCEEDED, "expired", 0)
        assert done.session_id != job.session_id
        assert scripted.launches[-1].resumes is None
        assert user_texts(scripted) == ["do it"]


async def test_a_recent_session_is_resumed(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await refused_once(scripted, client, max_age_s=3600.0)
        await client.jobs.retry(job.id)
        done = await carried_out(client, job)
        assert (done.status, done.session_id, done.resume_count) == (JobStatus.SUCCEEDED, job.session_id, 1)
        assert user_texts(scripted) == ["do it", CONTINUE]


@pytest.mark.rest
@pytest.mark.parametrize(("max_age_s", "start_mode"), [(3600.0, None), (None, None), (0.5, StartMode.RESUME)])
async def test_a_jobs_own_age_limit_applies_instead_of_that_of_conversations(
    scripted: Stage, max_age_s: float | None, start_mode: StartMode | None
) -> None:
    async with scripted.open(environ={"CLEW_MAX_AGE": "1s"}) as client:
        job = await refused_once(scripted, client, max_age_s=max_age_s)
        async with asyncio.timeout(60):
            while client.engine.context.clock() < (job.ended_at or 0) + 1.5:
                await asyncio.sleep(0.1)
        await client.jobs.retry(job.id, start_mode)
        done = await carried_out(client, job)
        assert (done.status, done.session_id, done.resume_count) == (JobStatus.SUCCEEDED, job.session_id, 1)


async def test_waiting_for_a_usage_limit_does_not_age_a_session(scripted: Stage) -> None:
    """The wait is longer than the age limit of the session, and does not count as age."""
    async with scripted.open() as client:
        resets_at = int(client.engine.context.clock()) + 7200
        limit = Fail(429, "rate_limit_error", f"Claude AI usage limit reached|{resets_at}")
        scripted.api.reply = lambda request: limit if request.is_main else None
        job = await client.jobs.submit(a_job(scripted, "do it", limits=Limits(max_age_s=600)))
        carrying = asyncio.create_task(client.carry_out(job.id))
        try:
            waiting = await until(client, job.id, lambda now: now.status is JobStatus.WAITING)
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
        assert waiting.wake_at is not None and 0 <= waiting.wake_at - resets_at <= JITTER_S
        assert not is_session_expired(waiting, resets_at + 300)
        assert is_session_expired(waiting, resets_at + 660), "from then on it counts"


@pytest.mark.rest
async def test_a_session_ages_from_its_last_event_even_if_its_worker_died_later(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!slow 400 0.05", limits=Limits(max_age_s=1.0)))
        dying = await start(scripted, {"CLEW_FAULT": "text_streamed"})
        async with asyncio.timeout(60):
            await dying.wait()
        scripted.api.reply = lambda request: None
        heard = await client.engine.store.call(
            lambda store: store.events.of_run(store.jobs.find(job.id).run_id or "")[-1].at
        )  # type: ignore[union-attr]
        async with asyncio.timeout(60):
            while client.engine.context.clock() < heard + 2:
                await asyncio.sleep(0.1)
        carrying = asyncio.create_task(client.carry_out(job.id))
        try:
            begun = await until(client, job.id, lambda now: now.runs == 2)
            run = await client.run(begun.run_id or "")
            async with asyncio.timeout(60):
                while run.reason is None:
                    await asyncio.sleep(0.1)
                    run = await client.run(run.id)
            assert run.reason == "expired"
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)


@pytest.mark.parametrize("damage", ["gone", "garbage", "empty"])
async def test_a_damaged_session_is_replaced_once(scripted: Stage, damage: str) -> None:
    async with scripted.open() as client:
        job = await refused_once(scripted, client)
        [file] = scripted.session_files()
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(b"\x00\xff{not json\n" * 100 if damage == "garbage" else b"")
        await client.jobs.retry(job.id)
        done = await carried_out(client, job)
        assert (done.status, done.runs, done.resume_count) == (JobStatus.SUCCEEDED, 2, 0)
        assert done.reason and done.session_id != job.session_id
        assert sum("do it" in text for text in user_texts(scripted)) == 1


async def test_a_session_that_the_agent_refuses_is_replaced_once(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await refused_once(scripted, client)
        scripted.fault({"do": "reject", "on": "resume"})
        await client.jobs.retry(job.id)
        done = await carried_out(client, job)
        assert (done.status, done.runs, done.reason) == (JobStatus.SUCCEEDED, 2, "rejected")
        assert [bool(launch.resumes) for launch in scripted.launches] == [False, True, False]
        assert sum("do it" in text for text in user_texts(scripted)) == 1


@pytest.mark.rest
async def test_a_session_that_was_resumed_too_often_is_replaced(
    scripted: Stage, pass_an_hour: Callable[[], None]
) -> None:
    async with scripted.open() as client:
        limits = Limits(timeout_s=600, max_resumes=1, max_runs=3)
        scripted.api.reply = None
        job = await client.jobs.submit(a_job(scripted, "!hang text so far", limits=limits))
        asked: list[str] = []

        def reply(request: Request) -> Reply | None:
            if request.is_main:
                asked.append(request.shown_texts()[-1][1])
            return Hang("text", "so far") if request.is_main else None

        scripted.api.reply = reply
        carrying = asyncio.create_task(client.carry_out(job.id))
        for _ in range(3):
            await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
            pass_an_hour()
            await asyncio.to_thread(scripted.api.wait_for_hanging, 0)
        await carrying
        over = await client.jobs.find(job.id)
        assert (over.status, over.runs, over.reason) == (JobStatus.FAILED, 3, "worn_out")
        assert asked == ["!hang text so far", CONTINUE, "!hang text so far"]
        assert (over.resume_count, over.session_resumes) == (1, 0), "all of them, and those of the newest session"


async def test_resumes_are_counted_over_all_sessions_and_limited_by_session(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await refused_once(scripted, client, max_resumes=1)
        for how, counts in [
            (None, (1, 1)),  # resumed
            (None, (1, 0)),  # its session was resumed as often as allowed: a fresh one
            (None, (2, 1)),
            (StartMode.FRESH, (2, 0)),
            (None, (3, 1)),
        ]:
            scripted.api.reply = lambda request: (
                Fail(401, "authentication_error", "invalid x-api-key") if request.is_main else None
            )
            await client.jobs.retry(job.id, how)
            job = await carried_out(client, job)
            assert (job.resume_count, job.session_resumes) == counts
        assert [bool(launch.resumes) for launch in scripted.launches] == [False, True, False, True, False, True]


async def test_only_a_fresh_session_is_told_the_last_marker(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "do it", limits=Limits(timeout_s=None)))
        look = ToolUse("Bash", {"command": "true"}, text="First I look.\n# New message")
        refused = Fail(401, "authentication_error", "invalid x-api-key")
        scripted.api.script.extend([look, ToolUse("Bash", {"command": "true"}, text="Now the tests."), refused])
        blocked = await carried_out(client, job)
        assert blocked.status is JobStatus.BLOCKED
        marked = (await view_job(client, job.id)).markers or ()
        assert [(each.number, each.text) for each in marked] == [
            (1, "First I look.\n# New message"),
            (2, "Now the tests."),
        ]
        assert {each.run_id for each in marked} == {blocked.run_id}

        scripted.api.script.append(refused)
        await client.jobs.retry(job.id)
        assert (await carried_out(client, job)).resume_count == 1
        assert user_texts(scripted)[-1] == CONTINUE, "the session knows where it stopped"

        for file in scripted.session_files():
            file.unlink()
        await client.jobs.retry(job.id)
        done = await carried_out(client, job)
        assert (done.status, done.reason) == (JobStatus.SUCCEEDED, "session_missing")
        assert "was cut off was number 2: “Now the tests.”" in scripted.prompt.split("# Work done so far")[1]
        assert scripted.prompt.endswith(CONTINUE)


async def test_latest_is_the_newest_job(scripted: Stage) -> None:
    async with scripted.open() as client:
        with pytest.raises(NotFound, match="There is no job yet"):
            await client.jobs.find("latest")
        for prompt in ("one", "two"):
            await client.jobs.submit(a_job(scripted, prompt))
        assert (await client.jobs.find("latest")).prompt == "two"


DIES = """
import asyncio, sys, clew

async def main():
    async with clew.open() as client:
        await client.carry_out(sys.argv[1])

asyncio.run(main())
"""


async def dies_with_it(stage: Stage, job: Job, point: str) -> None:
    """Simulates that the worker is killed at this point."""
    environ = {**stage.environ, "CLEW_FAULT": point}
    dying = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, job.id, env=environ)
    async with asyncio.timeout(60):
        assert await dying.wait() == -9


@pytest.mark.parametrize("point", ["prompt_stored", "decided", "spawned", "prompt_sent", "text_streamed"])
async def test_a_run_whose_worker_died_counts(scripted: Stage, point: str) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!say done"))
        await dies_with_it(scripted, job, point)
        assert (await client.jobs.find(job.id)).runs == 1, "the job has moved with its run"

        done = await carried_out(client, job)

        assert (done.status, done.runs) == (JobStatus.SUCCEEDED, 2)
        runs = await client.runs(thread=await client.find(job.thread_id))
        assert [run.status for run in runs] == [RunStatus.ANSWERED, RunStatus.INTERRUPTED]
        assert sum("!say done" in text for text in user_texts(scripted)) == 1
        if point in ("prompt_stored", "decided", "spawned"):
            assert user_texts(scripted) == ["!say done"], "nobody was cut off: nobody had been asked"
            assert done.result == "done"


async def test_a_prompt_that_never_reached_the_agent_is_sent_once(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await refused_once(scripted, client)
        await client.jobs.retry(job.id)
        await dies_with_it(scripted, job, "prompt_stored")

        done = await carried_out(client, job)

        assert (done.status, done.runs) == (JobStatus.SUCCEEDED, 3)
        assert user_texts(scripted) == ["do it", CONTINUE]


async def test_a_job_whose_workers_always_die_ends(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, REFUSED, limits=Limits(max_runs=1)))
        await dies_with_it(scripted, job, "prompt_stored")
        over = await carried_out(client, job)
        assert (over.status, over.runs) == (JobStatus.FAILED, 1)
        assert not scripted.launches
