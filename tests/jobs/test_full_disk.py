"""The disk of the store or of the checkpoints is full for a while: the job continues when there is space again."""

from __future__ import annotations

import asyncio
import resource
import shutil
from pathlib import Path

import pytest

from clew.core.jobs.job import JobStatus
from clew.core.runs.run import RunStatus
from clew.errors import StoreError
from clew.git.checkpoints import Checkpoints
from clew.testing.stage import Stage
from jobs.processes import a_job, a_repository, carried_out, ended, log_of, speaking, workers

GIT = """#!/bin/sh
case " $* " in *" hash-object "*|*" write-tree "*|*" commit-tree "*|*" add "*|*" update-index "*|*" update-ref "*)
    if [ -e "{full}" ]; then echo "fatal: unable to write loose object file: No space left on device" >&2; exit 128; fi
esac
exec "{git}" "$@"
"""


def a_disk(stage: Stage) -> Path:
    """While this file exists, git cannot write."""
    git, full = shutil.which("git"), stage.folder / "full"
    script = stage.folder / "bin" / "git"
    script.write_text(GIT.format(full=full, git=git))
    script.chmod(0o755)
    return full


async def test_a_job_survives_a_store_that_cannot_be_written(scripted: Stage) -> None:
    prompt = "!slow 400 0.05"
    async with scripted.open() as client, workers(scripted) as alive:
        job = await client.jobs.submit(a_job(scripted, prompt))
        await speaking(client, job)
        [attempt] = await client.attempts((await client.jobs.find(job.id)).run_id or "")
        _, most = resource.prlimit(alive[0].pid, resource.RLIMIT_FSIZE)
        resource.prlimit(alive[0].pid, resource.RLIMIT_FSIZE, (0, most))  # the worker cannot write any file
        try:
            other = await client.jobs.submit(a_job(scripted, "!say other"))
            async with asyncio.timeout(90):
                while Path(f"/proc/{attempt.pid}").exists():  # its output cannot be stored, so it is ended
                    await asyncio.sleep(0.1)
            assert (await client.jobs.find(job.id)).status is JobStatus.RUNNING
        finally:
            resource.prlimit(alive[0].pid, resource.RLIMIT_FSIZE, (most, most))
        done = await ended(client, job)
        assert (await ended(client, other)).result == "other"
        assert alive[0].returncode is None, "the worker lives"
        assert (done.status, done.runs) == (JobStatus.SUCCEEDED, 2)
        runs = await client.runs(thread=await client.find(job.thread_id))
        assert [run.status is RunStatus.ANSWERED for run in runs] == [True, False]
        asked = [
            request
            for request in scripted.api.main_requests
            if any(prompt in text for _, text in request.shown_texts())
        ]
        assert sum(prompt in text for role, text in asked[-1].shown_texts() if role == "user") == 1


async def test_a_checkpoint_that_cannot_be_written_does_not_end_the_job(scripted: Stage) -> None:
    a_repository(scripted)
    full = a_disk(scripted)
    async with scripted.open() as client, workers(scripted):
        prompt = f'!tool Bash {{"command": "echo x > made.txt; touch {full}"}}'
        done = await ended(client, await client.jobs.submit(a_job(scripted, prompt, checkpoint=True)))
        assert (done.status, done.runs) == (JobStatus.SUCCEEDED, 1)
    assert "no checkpoint of job" in log_of(scripted)
    assert [each.why for each in await Checkpoints(str(scripted.work), done.id, scripted.environ).list()] == ["start"]


@pytest.mark.rest
async def test_a_job_whose_first_checkpoint_cannot_be_written_waits_for_space(scripted: Stage) -> None:
    a_repository(scripted)
    full = a_disk(scripted)
    full.touch()
    async with scripted.open() as client, workers(scripted):
        job = await client.jobs.submit(a_job(scripted, "!say done", checkpoint=True))
        async with asyncio.timeout(60):
            while "The disk is full" not in log_of(scripted):
                await asyncio.sleep(0.1)
        assert (await client.jobs.find(job.id)).runs == 0
        full.unlink()
        done = await ended(client, job)
        assert (done.status, done.runs) == (JobStatus.SUCCEEDED, 1)


async def test_a_job_without_a_worker_reports_a_full_disk_and_is_kept(scripted: Stage) -> None:
    a_repository(scripted)
    full = a_disk(scripted)
    async with scripted.open() as client:
        job = await client.jobs.submit(a_job(scripted, "!say done", checkpoint=True))
        full.touch()
        with pytest.raises(StoreError, match="disk is full"):
            await carried_out(client, job)
        full.unlink()
        assert (await carried_out(client, job)).status is JobStatus.SUCCEEDED
