"""The queue's file is damaged or cannot be used: a worker rebuilds it or reports it, and no job is lost."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from clew.api.client import Client
from clew.core.hooks.hook import Forge, HookEvent
from clew.core.jobs.job import Job, JobStatus
from clew.engine.durable import queue_file
from clew.errors import StoreError
from clew.testing.stage import Stage
from jobs.processes import a_job, carried_out, ended, log_of, workers


async def an_event(client: Client, number: int = 1) -> str:
    """An event of a repository without hooks: a worker needs the queue for it, and handles it quickly."""
    event = HookEvent(Forge.GITHUB, f"delivery-{number}", "issue.opened", "o/r", number, "someone")
    return (await client.engine.store.call(lambda store: store.hooks.add_event(f"hook-{number}", event, 1.0)))[0]


async def dealt_with(client: Client, hook_id: str) -> None:
    async with asyncio.timeout(60):
        while (stored := await client.engine.store.call(lambda store: store.hooks.event(hook_id))) is None or (
            stored.state == "received"
        ):
            await asyncio.sleep(0.05)
    assert stored.state == "ignored"


def random_bytes(path: Path) -> None:
    path.write_bytes(os.urandom(100_000))


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def cut_short(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE workflow_status (text TEXT)")
        database.executemany("INSERT INTO workflow_status VALUES (?)", [("x" * 1000,)] * 200)
        database.commit()
    os.truncate(path, path.stat().st_size // 2)


def garbage_inside(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE workflow_status (text TEXT)")
        database.commit()
    content = bytearray(path.read_bytes())
    content[60:] = b"\xff" * (len(content) - 60)
    path.write_bytes(content)


@pytest.mark.rest
@pytest.mark.parametrize("damage", [random_bytes, cut_short, garbage_inside])
async def test_a_damaged_file_is_renamed_and_the_queue_is_rebuilt(
    scripted: Stage, damage: Callable[[Path], None]
) -> None:
    async with scripted.open() as client:
        event = await an_event(client)
        file = scripted.clew_home / "queue.db"
        damage(file)
        before = file.read_bytes()
        async with workers(scripted):
            await dealt_with(client, event)
        aside = [
            path for path in scripted.clew_home.glob("queue.db.broken-*") if not path.name.endswith(("-wal", "-shm"))
        ]
        assert [path.read_bytes() for path in aside] == [before]
        assert file.stat().st_mode & 0o777 == 0o600
        told = [line for line in log_of(scripted).splitlines() if "damaged" in line]
        assert len(told) == 1 and aside[0].name in told[0]
        assert "Traceback" not in log_of(scripted)


@pytest.mark.rest
async def test_workers_that_start_at_once_on_a_damaged_file_share_the_new_one(scripted: Stage) -> None:
    async with scripted.open() as client:
        events = [await an_event(client, number) for number in range(4)]
        random_bytes(scripted.clew_home / "queue.db")
        async with workers(scripted, {}, 3) as alive:
            for event in events:
                await dealt_with(client, event)
            assert [process.returncode for process in alive] == [None] * 3
        assert log_of(scripted).count("damaged") == 1


@pytest.mark.rest
async def test_an_empty_file_is_used_as_a_new_one(scripted: Stage) -> None:
    async with scripted.open() as client:
        event = await an_event(client)
        nothing(scripted.clew_home / "queue.db")
        async with workers(scripted):
            await dealt_with(client, event)
        assert not list(scripted.clew_home.glob("queue.db.broken-*"))


@pytest.mark.rest
async def test_a_file_whose_creation_was_interrupted_is_created_again(scripted: Stage) -> None:
    """DBOS creates its tables one by one, and creates none if it finds some of them."""
    async with scripted.open() as client:
        event = await an_event(client)
        file = scripted.clew_home / "queue.db"
        with pytest.raises(ZeroDivisionError), queue_file.prepared(str(file)):
            with closing(sqlite3.connect(file)) as database:
                database.execute("CREATE TABLE workflow_status (text TEXT)")
                database.commit()
            raise ZeroDivisionError
        async with workers(scripted):
            await dealt_with(client, event)
        assert sorted(path.name for path in scripted.clew_home.glob("queue.db.*")) == [
            "queue.db.lock",
            "queue.db.users",
        ]


async def test_jobs_need_no_queue_file(scripted: Stage) -> None:
    """The queue is for hooks: without them a worker creates no file, and ignores a damaged one."""
    async with scripted.open() as client, workers(scripted):
        assert (await ended(client, await client.jobs.submit(a_job(scripted, "!say done")))).result == "done"
    assert not list(scripted.clew_home.glob("queue.db*"))


async def test_a_job_without_a_worker_needs_no_queue_file(scripted: Stage) -> None:
    async with scripted.open() as client:
        random_bytes(scripted.clew_home / "queue.db")
        job: Job = await client.jobs.submit(a_job(scripted, "!say done"))
        assert (await carried_out(client, job)).status is JobStatus.SUCCEEDED


@pytest.mark.rest
async def test_a_damaged_file_that_other_workers_use_is_not_renamed(scripted: Stage) -> None:
    async with scripted.open() as client, workers(scripted):
        await dealt_with(client, await an_event(client))
    file = scripted.clew_home / "queue.db"
    with queue_file.prepared(str(file)) as users:
        pass
    random_bytes(file)
    with pytest.raises(StoreError) as caught, queue_file.prepared(str(file)):
        pass
    os.close(users)
    assert caught.value.kind == "corrupt" and caught.value.hint
    assert not list(scripted.clew_home.glob("queue.db.broken-*"))


def test_a_healthy_file_is_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "queue.db"
    with queue_file.prepared(str(file)), closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("CREATE TABLE t (x)")
        database.execute("BEGIN IMMEDIATE")
        users = []
        for _ in range(2):
            with queue_file.prepared(str(file)) as user:
                assert file.exists()
            users.append(user)
        for user in users:
            os.close(user)
        database.execute("COMMIT")
        assert database.execute("SELECT count(*) FROM t").fetchone() == (0,)
    assert [path.name for path in tmp_path.iterdir() if "broken" in path.name] == []


@pytest.mark.parametrize("what", ["folder", "loop", "no folder"])
def test_a_path_that_cannot_be_a_file_is_one_clear_error(tmp_path: Path, what: str) -> None:
    file = tmp_path / "queue.db"
    if what == "folder":
        file.mkdir()
    elif what == "loop":
        file.symlink_to(file)
    else:
        file = tmp_path / "not there" / "queue.db"
    with pytest.raises(StoreError) as caught, queue_file.prepared(str(file)):
        pass
    assert str(file) in caught.value.message and "\n" not in caught.value.message and caught.value.hint


@pytest.mark.rest
async def test_a_worker_reports_a_bad_queue_file_in_one_line_and_runs_jobs(scripted: Stage) -> None:
    (scripted.clew_home / "queue.db").mkdir(parents=True)
    async with scripted.open() as client, workers(scripted):
        event = await an_event(client)
        assert (await ended(client, await client.jobs.submit(a_job(scripted, "!say done")))).result == "done"
        async with asyncio.timeout(60):
            while "queue.db cannot be used (Is a directory)" not in log_of(scripted):
                await asyncio.sleep(0.05)
        (scripted.clew_home / "queue.db").rmdir()
        await dealt_with(client, event)
    assert "sqlalchemy" not in log_of(scripted) and "Traceback" not in log_of(scripted)


AS_NOBODY = """
import fcntl, os, sys
from clew.engine.durable import queue_file
from clew.errors import StoreError
if os.getuid() == 0:
    os.setgid(65534), os.setuid(65534)
try:
    with queue_file.prepared(sys.argv[1]):
        print("fine")
except StoreError as error:
    print(error.kind, bool(error.hint))
"""


@pytest.mark.process
def test_an_unreadable_file_is_one_clear_error() -> None:
    """Runs as another user than root, because root can read every file."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="clew-queue-") as folder:
        file = Path(folder, "queue.db")
        file.write_bytes(b"")
        file.chmod(0o000)
        Path(folder).chmod(0o777)
        command = [sys.executable, "-W", "error", "-c", AS_NOBODY, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("read_only True\n", "")
