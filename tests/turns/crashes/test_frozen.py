"""A process that is stopped inside a transaction of its run, as on another machine: only its heartbeat is visible."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from clew.core.record import replace
from clew.core.runs.run import RunStatus
from clew.testing.postgres import PostgresServer
from clew.testing.stage import MODEL, Stage

pytestmark = pytest.mark.rest

FREEZE = """
import asyncio, signal, threading
import clew
from clew.core.record import replace
from clew.errors import StoreError
from clew.testing.store_contract import a_turn

async def main():
    async with clew.open() as client:
        client.engine.settings = replace(client.engine.settings, lease_s=2.0)
        thread = await client.find("t")
        run = await thread.ask("!hang text so far")
        async for stored in client.views.follow(run.id):
            if stored.kind == "text_streamed":
                break

        def freeze(store):
            with store.transaction():
                store.turns.add(thread.record.id, a_turn("half"))
                signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # here, and not a little later
                store.turns.add(thread.record.id, a_turn("other half"))

        try:
            await client.engine.store.call(freeze)
        except StoreError as error:
            print(error.kind, error.passing, flush=True)
        print((await run.reply()).error, flush=True)

asyncio.run(main())
"""


async def test_the_run_of_a_frozen_process_is_recovered(scripted: Stage, postgres: PostgresServer) -> None:
    url = f"{postgres.new_store()}&options=-c%20idle_in_transaction_session_timeout%3D1s"
    async with scripted.open(environ={"CLEW_STORE": url}) as client:
        context = client.engine.context
        client.engine.context = replace(context, owner=replace(context.owner, host="elsewhere"))
        thread = await client.thread("t", cwd=scripted.work)
        environ = {**scripted.environ, "CLEW_STORE": url, "CLEW_MODEL": MODEL}
        frozen = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FREEZE, env=environ, cwd=scripted.work, stdout=asyncio.subprocess.PIPE
        )
        try:
            while Path(f"/proc/{frozen.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                assert frozen.returncode is None
                await asyncio.sleep(0.02)
            while not (recovered := await client.engine.recover()):
                await asyncio.sleep(0.05)
            assert [run.status for run in recovered] == [RunStatus.INTERRUPTED]
            assert (await (await thread.ask("next")).reply()).status == "answered"
            os.kill(frozen.pid, signal.SIGCONT)
            said, _ = await asyncio.wait_for(frozen.communicate(), 60)
        finally:
            if frozen.returncode is None:
                frozen.kill()
                await frozen.wait()
        lines = said.decode().splitlines()
        assert lines[0] == "unreachable True", "it is told that its transaction is undone"
        assert "Another process took this thread over while the run was silent." in lines[1]
        texts = [turn.text for turn in await thread.turns()]
        assert texts == ["!hang text so far", "so far", "next", "ack: next"], "nothing half-written, nothing lost"
