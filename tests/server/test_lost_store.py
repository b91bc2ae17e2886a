"""A daemon whose database was deleted, replaced or truncated accepts nothing, says so, and loses nothing silently."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forkserver
from clew.store import open_store
from clew.testing.stage import Stage
from server.daemons import ServeProcess

pytestmark = pytest.mark.rest

LOST = "The store was deleted, replaced or truncated while the daemon was running: nothing more is accepted."


async def unhealthy(daemon: ServeProcess) -> Any:
    """The first failing response of /healthz."""
    while (answer := await daemon.http.get("/healthz")).status_code == 200:
        await asyncio.sleep(0.02)
    return answer


def delete_files(home: Path, which: str) -> None:
    if which == "replaced":
        with open_store(home / "other.db"):
            pass
        (home / "other.db").rename(home / "clew.db")
        which = "clew.db-*"
    for file in home.glob(which):
        file.unlink()


@pytest.mark.parametrize("which", ["clew.db-wal", "clew.db", "clew.db*", "replaced"])
async def test_it_refuses_writes_says_so_and_keeps_a_copy(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], which: str
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    assert (await daemon.ask("t", "kept"))["status"] == "answered"
    delete_files(scripted.clew_home, which)

    answer = await daemon.http.post("/api/threads/t/runs", json={"prompt": "refused"})
    assert (answer.status_code, answer.json()["code"]) == (503, "store"), "at once, before the health check ran"
    assert "was deleted, replaced or cut short under this process" in answer.json()["detail"]
    answer = await unhealthy(daemon)
    assert answer.status_code == 503 and answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["detail"], answer.json()["code"]) == (LOST, "store")
    doctor = await asyncio.to_thread(clew, scripted, "doctor")
    assert f"clew serve on port {daemon.port}: {LOST}" in doctor
    assert f"kill {daemon.process.pid} ends it" in doctor

    while "Start the daemon again." not in daemon.log:
        await asyncio.sleep(0.02)
    [copy] = re.findall(r"A copy of all that this process had stored is (\S+)\.", daemon.log)
    doctor = await asyncio.to_thread(clew, scripted, "doctor")
    assert f"{copy} is a copy from a process" in doctor, "while the daemon is still up"
    assert "disk I/O error" not in doctor
    assert await asyncio.to_thread(daemon.stop) == 0
    assert daemon.log.count("deleted, replaced or cut short") == 1, "once in its log"
    with sqlite3.connect(copy) as rescued:
        texts = {text for (text,) in rescued.execute("SELECT text FROM turns")}
    assert {"kept", "ack: kept"} <= texts and "refused" not in texts

    daemon.restart()
    assert (await daemon.http.get("/healthz")).status_code == 200, "a restart fixes it"
    assert str(copy) in await asyncio.to_thread(clew, scripted, "doctor"), "doctor names the copy"
    await daemon.thread("u")
    assert (await daemon.ask("u", "more"))["status"] == "answered"


def clew(stage: Stage, *args: str) -> str:
    done = forkserver.run(*args, env=stage.environ, cwd=stage.work)
    return done.stdout + done.stderr


async def test_a_stopped_daemon_is_seen_by_doctor(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    daemon = start_daemon(scripted)
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        said = await asyncio.to_thread(clew, scripted, "doctor")
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert f"clew serve on port {daemon.port}: It did not answer within 5 s." in said
