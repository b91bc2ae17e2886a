"""Worker processes, and jobs for them."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import psycopg

import forkserver
from clew.api.client import Client
from clew.core.jobs.job import ACTIVE, Job, JobStatus
from clew.core.thread import Permissions
from clew.hosts.jobs.jobs import JobSpec
from clew.testing.stage import MODEL, Stage

REFUSED = "!fail 401 authentication_error invalid x-api-key"
WORKER = Path(__file__).with_name("worker.py")
NOTHING: Mapping[str, str] = {}


@asynccontextmanager
async def workers(
    stage: Stage, environ: Mapping[str, str] = NOTHING, count: int = 1
) -> AsyncIterator[list[forkserver.AsyncProcess]]:
    """Starts this many workers. A test may kill one and start another."""
    alive = [await start(stage, environ) for _ in range(count)]
    try:
        yield alive
    finally:
        await end(alive)


async def end(alive: Sequence[forkserver.AsyncProcess]) -> None:
    """Stops the workers, including suspended ones."""
    for process in alive:
        if process.returncode is None:
            process.terminate()
            process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(90):
        for process in alive:
            await process.wait()


async def put_to_sleep(stage: Stage, process: forkserver.AsyncProcess, store: str | None = None) -> None:
    """Suspends a worker outside of a transaction, so that others can write. `store`: an address of PostgreSQL."""

    def is_free() -> bool:
        if store is not None:
            return _is_idle(store)
        return all(_is_free(stage.clew_home / name) for name in ("clew.db", "queue.db"))

    async with asyncio.timeout(60):
        while True:
            os.kill(process.pid, signal.SIGSTOP)
            while not _is_stopped(process.pid):
                await asyncio.sleep(0.01)
            if await asyncio.to_thread(is_free):
                return
            process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.05)


def _is_stopped(pid: int) -> bool:
    stats = [stat.read_bytes() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rsplit(b")", 1)[1].split()[0] == b"T" for stat in stats)


def _is_idle(store: str) -> bool:
    """No other connection to the server is in a transaction."""
    with psycopg.connect(store, autocommit=True) as connection:
        others = "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()"
        row = connection.execute(f"{others} AND backend_type = 'client backend'").fetchone()
    return row == (0,)


def _is_free(database: Path) -> bool:
    with closing(sqlite3.connect(database, timeout=0.2, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True


async def start(
    stage: Stage, environ: Mapping[str, str] = NOTHING, *machine: str, program: Path | None = None
) -> forkserver.AsyncProcess:
    """`machine`: the name of another machine on which the worker pretends to run; or --hooks-only."""
    with (stage.folder / "worker.log").open("ab") as log:
        given = {**stage.environ, **environ}
        if program is not None:
            command = [str(program), str(WORKER), "3", *machine]
            return forkserver.AsyncProcess(subprocess.Popen(command, env=given, stderr=log), None)
        return await forkserver.start_in_loop(["3", *machine], script=WORKER, env=given, stderr=log)


def log_of(stage: Stage) -> str:
    """The output of the workers."""
    return (stage.folder / "worker.log").read_text()


def a_job(stage: Stage, prompt: str, **more: object) -> JobSpec:
    return JobSpec(prompt, str(stage.work), "claude", MODEL, permissions=Permissions.ALL, **more)  # type: ignore[arg-type]


async def until(client: Client, job_id: str, test: Callable[[Job], bool], limit_s: float = 90) -> Job:
    async with asyncio.timeout(limit_s):
        while True:
            job = await client.jobs.find(job_id)
            if test(job):
                return job
            await asyncio.sleep(0.1)


async def ended(client: Client, job: Job, *, status: JobStatus | None = None) -> Job:
    """Waits until the job has stopped or has that status."""
    return await until(client, job.id, lambda now: now.status not in ACTIVE or now.status is status)


async def speaking(client: Client, job: Job, kind: str = "text_streamed") -> None:
    """Waits until the first run has started and has such an event."""
    begun = await until(client, job.id, lambda now: now.run_id is not None)
    async for event in client.views.follow(begun.run_id or ""):
        if event.kind == kind:
            return
    raise AssertionError(f"the run ended without {kind}")


async def carried_out(client: Client, job: Job, limit_s: float = 60) -> Job:
    """Runs the job in this process, without a worker."""
    async with asyncio.timeout(limit_s):
        await client.carry_out(job.id)
    return await client.jobs.find(job.id)


def a_repository(stage: Stage) -> None:
    run = ["git", "-C", str(stage.work), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run([*run, "init", "-q"], check=True)
    (stage.work / "kept.txt").write_text("as it was\n")
    subprocess.run([*run, "add", "."], check=True)
    subprocess.run([*run, "commit", "-qm", "first"], check=True)
