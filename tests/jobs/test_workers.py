"""Workers that are killed, stopped and started: every job ends once, in order, and nothing is shown twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from itertools import pairwise

import pytest

from clew.client import Client
from clew.core.job import UNDER_WAY, Job, JobStatus, Limits
from clew.core.run import RunStatus
from clew.errors import StoreError
from clew.testing.postgres import PostgresServer
from clew.testing.scripts import Slow
from clew.testing.stage import Stage
from jobs.house import a_job, ended, speaking, start, until, workers


@pytest.mark.parametrize("at", ["text", "tool"])
async def test_a_killed_workers_job_is_taken_over_in_a_copy_of_the_session(stage: Stage, at: str) -> None:
    prompt = "!slow 400 0.05" if at == "text" else '!tool Bash {"command": "touch made; sleep 60"}'
    async with stage.open() as client:
        async with workers(stage, {}) as alive:
            job = await client.jobs.submit(a_job(stage, prompt))
            await speaking(client, job, "text_streamed" if at == "text" else "tool_started")
            alive[0].kill()
            alive[0] = await start(stage, {})
            done = await ended(client, job)
        assert done.status is JobStatus.SUCCEEDED, done
        assert done.runs == 2
        assert sum(prompt in text for role, text in stage.shown if role == "user") == 1
        launch = stage.launches[-1]
        assert launch.resumes and "--fork-session" in launch.argv
        assert done.session_id != launch.resumes


@pytest.mark.parametrize("where", ["sqlite", "postgres"])
@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.timeout(900)
async def test_jobs_end_once_and_in_order_whatever_happens_to_their_workers(
    scripted: Stage, request: pytest.FixtureRequest, where: str, count: int
) -> None:
    environ: dict[str, str] = {}
    if where == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        environ["CLEW_STORE"] = server.new_database()
    dice = random.Random(count)
    async with scripted.open(environ=environ) as client, workers(scripted, environ, 3) as alive:
        limits = Limits(max_resumes=100, max_runs=100)
        jobs = [
            await client.jobs.submit(
                a_job(scripted, f"!slow 10 {dice.choice([0.01, 0.1])}", key=f"k{number % 6}", limits=limits)
            )
            for number in range(count)
        ]
        unrest = asyncio.create_task(_unrest(scripted, environ, alive, dice, count // 3))
        try:
            done = [await until(client, job.id, lambda now: now.status not in UNDER_WAY, 600) for job in jobs]
        finally:
            unrest.cancel()
            await asyncio.gather(unrest, return_exceptions=True)
        assert [job.status for job in done] == [JobStatus.SUCCEEDED] * count
        said = "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9"
        assert {job.result for job in done if job.runs == 1} <= {said}
        for key in {job.key for job in done}:
            line = [job for job in done if job.key == key]
            for before, after in pairwise(line):
                assert (before.ended_at or 0) <= (after.started_at or 0), "order by key"
        for job in done:
            runs = await client.runs(thread=await client.find(job.thread_id))
            assert [run.status for run in runs].count(RunStatus.ANSWERED) == 1, "every job ends exactly once"


async def _unrest(
    stage: Stage,
    environ: dict[str, str],
    alive: list[asyncio.subprocess.Process],
    dice: random.Random,
    disturbances: int,
) -> None:
    for _ in range(disturbances):
        await asyncio.sleep(dice.uniform(1.0, 3.0))
        place = dice.randrange(len(alive))
        if dice.random() < 0.5:
            alive[place].kill()
            await alive[place].wait()
            alive[place] = await start(stage, environ)
        else:
            os.kill(alive[place].pid, signal.SIGSTOP)
            await asyncio.sleep(dice.uniform(0.2, 1.0))
            os.kill(alive[place].pid, signal.SIGCONT)


async def test_a_job_goes_on_where_its_session_is_not_known(real: Stage) -> None:
    """The machine is lost: another one has the same store and files, and none of the agent's own."""
    async with real.open() as client:
        async with workers(real, {}) as alive:
            job = await client.jobs.submit(a_job(real, "!slow 400 0.05"))
            await speaking(client, job)
            alive[0].kill()
            await alive[0].wait()
            elsewhere = real.folder / "other home"
            elsewhere.mkdir()
            alive[0] = await start(real, {"HOME": str(elsewhere)})
            done = await ended(client, job)
        assert done.status is JobStatus.SUCCEEDED
        assert done.reason in ("session_missing", "runtime_changed"), "it says so"
        assert real.launches[-1].resumes is None
        assert real.prompt.count("!slow 400 0.05") == 1, "what was asked and said before is in the transcript, once"


async def test_a_worker_that_ends_in_order_hands_its_job_to_the_next(scripted: Stage) -> None:
    async with scripted.open() as client:
        async with workers(scripted, {}) as alive:
            job = await client.jobs.submit(a_job(scripted, "!slow 400 0.05"))
            await speaking(client, job)
            alive[0].terminate()
            await alive[0].wait()
            assert alive[0].returncode == 0
            back = await client.jobs.find(job.id)
            assert (back.status, back.worker) == (JobStatus.QUEUED, None)
            alive[0] = await start(scripted, {})
            done = await ended(client, job)
        assert (done.status, done.runs, done.resume_count) == (JobStatus.SUCCEEDED, 2, 1)


async def test_a_database_that_is_restarted_costs_no_job(
    scripted: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with PostgresServer(tmp_path_factory.mktemp("own") / "data") as server:
        environ = {"CLEW_STORE": server.new_database()}
        async with scripted.open(environ=environ) as client, workers(scripted, environ, 2):
            jobs = [await client.jobs.submit(a_job(scripted, "!slow 60 0.1")) for _ in range(4)]
            await until(client, jobs[0].id, lambda now: now.run_id is not None)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            done = [await patiently(client, job.id) for job in jobs]
        assert [job.status for job in done] == [JobStatus.SUCCEEDED] * 4


async def patiently(client: Client, job_id: str) -> Job:
    """The connection of this very process broke as well: the first call says so, the next has a new one."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await until(client, job_id, lambda now: now.status not in UNDER_WAY, 120)
            except StoreError:
                await asyncio.sleep(0.5)


async def test_a_run_that_had_answered_when_its_worker_died_is_not_asked_again(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!say all done"))
        dying = await start(scripted, {"CLEW_FAULT": "outcome_stored"})
        async with asyncio.timeout(60):
            await dying.wait()
        assert (await client.jobs.find(job.id)).status is JobStatus.RUNNING
        async with workers(scripted, {}):
            done = await ended(client, job)
        assert (done.status, done.result, done.runs) == (JobStatus.SUCCEEDED, "all done", 1)
        assert len(scripted.launches) == 1


async def test_a_job_whose_workers_keep_dying_comes_to_an_end(scripted: Stage) -> None:
    scripted.api.default = Slow("word " * 400, words_per_s=20)
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "take your time", limits=Limits(max_runs=2)))
        for _ in range(3):
            dying = await start(scripted, {"CLEW_FAULT": "session_started"})
            async with asyncio.timeout(60):
                await asyncio.wait(
                    [
                        asyncio.ensure_future(dying.wait()),
                        asyncio.ensure_future(until(client, job.id, lambda now: now.status not in UNDER_WAY)),
                    ],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            if dying.returncode is None:
                dying.terminate()
                await dying.wait()
        over = await client.jobs.find(job.id)
        assert (over.status, over.runs) == (JobStatus.FAILED, 2)


async def test_a_job_that_no_worker_has_is_cancelled_at_once(scripted: Stage) -> None:
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!slow 100 0.05"))
        dying = await start(scripted, {"CLEW_FAULT": "session_started"})
        async with asyncio.timeout(60):
            await dying.wait()
        assert (await client.jobs.cancel(job.id)).status is JobStatus.CANCELLED
