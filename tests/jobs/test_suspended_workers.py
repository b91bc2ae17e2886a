"""A worker is suspended while another machine takes over its job. It does no harm when it wakes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import forkserver
from clew.api.client import Client
from clew.core.jobs.job import Job, JobStatus
from clew.core.runs.run import RunStatus
from clew.git.checkpoints import Checkpoints
from clew.store.store import Store
from clew.testing.stage import Stage
from jobs.processes import a_job, a_repository, end, ended, log_of, put_to_sleep, speaking, start

pytestmark = pytest.mark.rest

# Agents of one machine are invisible to another. So they get no mark by which they would be found here. They have no
# launcher either, because a program that is not called Python cannot start it.
LAUNCHER = '#!/bin/sh\n[ -n "$CLEW_TEST_OUT_OF_SIGHT" ] && unset CLEW_ATTEMPT\nexec "{behind}" "$@"\n'
OUT_OF_SIGHT = {"CLEW_TEST_OUT_OF_SIGHT": "1"}


def put_out_of_sight(stage: Stage) -> None:
    behind = stage.binary.rename(stage.binary.with_name("launcher"))
    text = behind.read_text().replace("launcher", "claude")
    behind.write_text(text)
    stage.binary.write_text(LAUNCHER.format(behind=behind))
    stage.binary.chmod(0o755)


def program_out_of_sight(stage: Stage) -> dict[str, str]:
    path = stage.folder / "another-machine"
    path.symlink_to(os.path.realpath(sys.executable))
    return {"PYTHONPATH": os.pathsep.join(sys.path), **OUT_OF_SIGHT}


async def all_of(client: Client, job: Job) -> Any:
    """Every row about the job."""

    def read(store: Store) -> Any:
        runs = store.runs.newest(thread_id=job.thread_id)
        return (
            store.jobs.require(job.id),
            runs,
            [store.runs.attempts(run.id) for run in runs],
            [store.events.of_run(run.id) for run in runs],
            store.turns.history(job.thread_id),
            store.pins.of_thread(job.thread_id),
            store.jobs.markers(job.id),
        )

    return await client.engine.store.call(read)


@pytest.mark.parametrize(
    ("agent", "where"),
    [("still at work", "sqlite"), ("answered meanwhile", "sqlite"), ("still at work", "postgres")],
)
async def test_a_suspended_worker_that_wakes_writes_nothing_and_ends_its_agent(
    scripted: Stage, request: pytest.FixtureRequest, agent: str, where: str
) -> None:
    store = request.getfixturevalue("postgres").new_store() if where == "postgres" else None
    environ = {} if store is None else {"CLEW_STORE": store}
    put_out_of_sight(scripted)
    a_repository(scripted)
    prompt = "!hang text so far" if agent == "still at work" else "!slow 40 0.1"
    async with scripted.open(environ=environ) as client:
        unseen = program_out_of_sight(scripted)
        sleeper = await start(scripted, {**environ, **unseen}, "one", program=scripted.folder / "another-machine")
        other: forkserver.AsyncProcess | None = None
        try:
            job = await client.jobs.submit(a_job(scripted, prompt, checkpoint=True))
            await speaking(client, job)
            await put_to_sleep(scripted, sleeper, store)
            first = (await client.jobs.find(job.id)).run_id or ""
            [attempt] = await client.attempts(first)
            other = await start(scripted, environ, "two")
            done = await ended(client, job)
            assert (done.status, done.runs, done.worker) == (JobStatus.SUCCEEDED, 2, "two")
            if agent == "still at work":
                assert Path(f"/proc/{attempt.pid}").exists(), "nobody could reach it"
            before = await all_of(client, job)
            saved = await Checkpoints(str(scripted.work), job.id, scripted.environ).list()

            os.kill(sleeper.pid, signal.SIGCONT)
            async with asyncio.timeout(90):
                while Path(f"/proc/{attempt.pid}").exists():
                    await asyncio.sleep(0.1)
                while "one" not in {
                    each.id for each in await client.engine.store.call(lambda store: store.workers.all())
                }:
                    await asyncio.sleep(0.1)
            more = await ended(client, await client.jobs.submit(a_job(scripted, "!say more")))
            assert more.status is JobStatus.SUCCEEDED, "both are of use"
            await end([sleeper])
            assert sleeper.returncode == 0

            assert await all_of(client, job) == before
            assert await Checkpoints(str(scripted.work), job.id, scripted.environ).list() == saved
            assert [run.status for run in before[1]] == [RunStatus.ANSWERED, RunStatus.INTERRUPTED]
        finally:
            scripted.api.release()
            await end([process for process in (sleeper, other) if process is not None])
        assert "Traceback" not in log_of(scripted)
        forks = [launch for launch in scripted.launches if "--fork-session" in launch.argv]
        assert len(forks) == 1 and forks[0].resumes == attempt.session_id != forks[0].session_id
