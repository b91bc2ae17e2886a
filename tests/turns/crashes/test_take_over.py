"""Recovery with the real agent: an agent that a dead Clew left takes no further step."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path

import pytest

import forkserver
from clew.api.client import Client
from clew.core.ids import RunId
from clew.core.record import replace
from clew.core.runs.run import Attempt, RunStatus
from clew.engine.process.family import family
from clew.testing.stage import MODEL, Stage

pytestmark = pytest.mark.rest

DAEMON = Path(__file__).with_name("daemon.py")
BUSY = '!tool Bash {"command": "tail -f /dev/null"}'


async def in_the_tool(client: Client) -> Attempt:
    """Waits until the attempt's tool runs, and returns the attempt."""
    [run] = await client.runs()
    async with asyncio.timeout(60):
        while True:
            for attempt in await client.attempts(run.id):
                names = [Path(f"/proc/{process.pid}/comm") for process in family(attempt.id, attempt.pid)]
                if any(name.exists() and name.read_text() == "tail\n" for name in names):
                    return attempt
            await asyncio.sleep(0.05)


@pytest.mark.real
async def test_an_agent_that_is_ended_in_a_tool_sends_nothing_more_to_the_model(real: Stage) -> None:
    environ = {**real.environ, "CLEW_PERMISSIONS": "all"}
    daemon = await forkserver.start_in_loop(
        [real.work, MODEL, BUSY], script=DAEMON, env=environ, stdout=subprocess.PIPE
    )
    async with real.open() as client:
        assert daemon.stdout is not None
        async with asyncio.timeout(60):
            await daemon.stdout.readline()
        attempt = await in_the_tool(client)
        os.kill(daemon.pid, signal.SIGKILL)
        await daemon.wait()
        asked = len(real.api.requests)
        [run] = await client.engine.recover()
        assert run.status is RunStatus.INTERRUPTED
        assert not family(attempt.id, attempt.pid)
        assert len(real.api.requests) == asked, "no step without an owner"
        assert not any("Exit code" in file.read_text() for file in real.session_files())


async def test_the_error_of_a_run_that_lost_its_database_does_not_say_that_clew_died(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("hello"))
        [answered] = await client.runs()
        left = replace(
            answered, id=RunId("left"), status=RunStatus.RUNNING, ended_at=None, owner=client.engine.context.owner
        )
        await client.engine.store.call(lambda store: store.runs.create(left))
        [run] = await client.engine.recover()
        assert run.error == "The database was unavailable while the run was in progress."
