"""Workers as processes of their own, and jobs for them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from clew.client import Client
from clew.core.job import UNDER_WAY, Job, JobStatus
from clew.core.thread import Permissions
from clew.hosts.jobs import NewJob
from clew.testing.stage import MODEL, Stage

WORKER = Path(__file__).with_name("worker.py")
NOTHING: Mapping[str, str] = {}


@asynccontextmanager
async def workers(
    stage: Stage, environ: Mapping[str, str] = NOTHING, count: int = 1
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """So many of them; a test may kill one and put another in its place."""
    alive = [await start(stage, environ) for _ in range(count)]
    try:
        yield alive
    finally:
        for process in alive:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGCONT)
                process.terminate()
        async with asyncio.timeout(60):
            for process in alive:
                await process.wait()


async def start(stage: Stage, environ: Mapping[str, str] = NOTHING) -> asyncio.subprocess.Process:
    with (stage.folder / "worker.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable, str(WORKER), "3", env={**stage.environ, **environ}, stderr=log
        )


def a_job(stage: Stage, prompt: str, **more: object) -> NewJob:
    return NewJob(prompt, str(stage.work), "claude", MODEL, permissions=Permissions.ALL, **more)  # type: ignore[arg-type]


async def until(client: Client, job_id: str, test: Callable[[Job], bool], limit_s: float = 90) -> Job:
    async with asyncio.timeout(limit_s):
        while True:
            job = await client.jobs.find(job_id)
            if test(job):
                return job
            await asyncio.sleep(0.1)


async def ended(client: Client, job: Job, *, status: JobStatus | None = None) -> Job:
    """When no worker has it any more, or it is in that state."""
    return await until(client, job.id, lambda now: now.status not in UNDER_WAY or now.status is status)


async def speaking(client: Client, job: Job, kind: str = "text_streamed") -> None:
    """Its first run has begun, and such an event has come."""
    begun = await until(client, job.id, lambda now: now.run_id is not None)
    async for event in client.follow(begun.run_id or ""):
        if event.kind == kind:
            return
    raise AssertionError(f"the run ended without {kind}")
