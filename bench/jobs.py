"""Jobs on both databases: the time from submit to start and from a worker's death to the next run, jobs per second, and
the cost of an idle worker.

Real workers (`clew work`) run the scripted agent, whose start is part of every job. The figures of the two databases
come from one run on one machine.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

from bench.report import Column, Result, Table
from bench.timing import Sample, tell
from clew.api.client import Client
from clew.core.jobs.job import ACTIVE, Job, Limits
from clew.core.thread import Permissions
from clew.hosts.jobs.jobs import JobSpec
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.postgres import PostgresServer
from clew.testing.stage import MODEL, Stage

LIMIT_S = 300.0
POLL_S = 0.01


def measure(quick: bool) -> Result:
    rows = []
    for name in ("SQLite", "PostgreSQL"):
        tell(f"  {name}")
        rows.append((name, *asyncio.run(_measured(name, quick))))
    columns = (
        Column("store"),
        Column("submit to start, median ms", ".0f"),
        Column("death to next run, median s", ".1f"),
        Column("jobs a second", ".1f"),
        Column("idle worker, % of a core", ".1f"),
    )
    return Result("jobs", [Table("Jobs", columns, rows)], (), ["Four agents at once; two workers where one is killed."])


async def _measured(name: str, quick: bool) -> tuple[float, float, float, float]:
    with tempfile.TemporaryDirectory() as folder, ModelApi() as api:
        stage = Stage(Path(folder), api, scripted_agent.install(Path(folder) / "agent"))
        server = PostgresServer(Path(folder) / "postgres") if name == "PostgreSQL" else None
        with server or nullcontext():
            environ = {"CLEW_STORE": server.new_database()} if server else {}
            async with stage.open(environ=environ) as client:
                async with workers(stage, environ, 1) as [worker]:
                    await _over(client, await submit(stage, client, "!say warm"))
                    starts = [await _start(stage, client) for _ in range(3 if quick else 20)]
                    idle = await _idle(worker.pid, 2 if quick else 15)
                    rate = await _rate(stage, client, 6 if quick else 60)
                deaths = [await _death(stage, client, environ) for _ in range(1 if quick else 5)]
    return Sample.of(starts).median * 1000, Sample.of(deaths).median, rate, idle


async def submit(stage: Stage, client: Client, prompt: str) -> Job:
    new = JobSpec(prompt, str(stage.work), "claude", MODEL, permissions=Permissions.ALL, limits=Limits(max_runs=100))
    return await client.jobs.submit(new)


async def _until(client: Client, job: Job, test: Callable[[Job], bool]) -> Job:
    async with asyncio.timeout(LIMIT_S):
        while not test(now := await client.jobs.find(job.id)):
            await asyncio.sleep(POLL_S)
    return now


async def _over(client: Client, job: Job) -> Job:
    return await _until(client, job, lambda now: now.status not in ACTIVE)


async def _start(stage: Stage, client: Client) -> float:
    """The time until the run started, as its row in the database says."""
    done = await _over(client, await submit(stage, client, "!say x"))
    return (done.started_at or 0.0) - done.created_at


async def _rate(stage: Stage, client: Client, count: int) -> float:
    began = time.monotonic()
    jobs = [await submit(stage, client, "!say x") for _ in range(count)]
    for job in jobs:
        await _over(client, job)
    return count / (time.monotonic() - began)


async def _death(stage: Stage, client: Client, environ: dict[str, str]) -> float:
    async with workers(stage, environ, 2) as alive:
        job = await submit(stage, client, "!slow 2000 0.05")
        running = await _until(client, job, lambda now: now.run_id is not None)
        await asyncio.sleep(1.0)
        holder = next(worker for worker in alive if (running.worker or "").endswith(_number(worker)))
        holder.kill()
        killed = time.time()
        again = await _until(client, job, lambda now: now.run_id not in (None, running.run_id))
        run = await client.run(again.run_id or "")
        await client.jobs.cancel(job.id)
        await _over(client, job)
        return run.created_at - killed


def _number(worker: subprocess.Popen[bytes]) -> str:
    """The worker's name ends with the number of the file that it has locked."""
    for entry in Path(f"/proc/{worker.pid}/fd").iterdir():
        target = entry.readlink()
        if target.parent.name == "workers":
            return f"/{target.name}"
    return "?"


async def _idle(pid: int, seconds: float) -> float:
    def spent() -> float:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = spent()
    await asyncio.sleep(seconds)
    return 100 * (spent() - before) / seconds


@asynccontextmanager
async def workers(
    stage: Stage, environ: dict[str, str], count: int, at_once: int = 4
) -> AsyncIterator[list[subprocess.Popen[bytes]]]:
    command = [sys.executable, "-m", "clew", "work", "--concurrency", str(at_once)]
    started = [
        subprocess.Popen(command, env={**stage.environ, **environ}, stderr=subprocess.DEVNULL) for _ in range(count)
    ]
    try:
        yield started
    finally:
        for worker in started:
            worker.terminate()
        for worker in started:
            await asyncio.to_thread(worker.wait, LIMIT_S)
