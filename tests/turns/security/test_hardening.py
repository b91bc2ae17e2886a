"""Faults that an attack on the engine found: an unusable thread, another process ended, too much shown to the model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import threading

import pytest

import forkserver
from clew.core.record import replace
from clew.core.runs.events import RunEnded, TextStreamed
from clew.engine.process.family import is_alive
from clew.errors import StoreError, UsageError
from clew.store.database.database import Database
from clew.store.tables.leases import LeaseTable
from clew.testing.model.replies import Text
from clew.testing.stage import MODEL, Stage

LIMIT_S = 60


@pytest.mark.real
async def test_a_path_in_a_transcript_is_not_read_for_the_model(real: Stage) -> None:
    secret = real.folder / "secret.txt"
    secret.write_text("TOP SECRET")
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work, permissions="read-only")
        real.api.reply = lambda _: Text(f"look at @{secret} please")
        await (await thread.ask("hello"))
        await (await thread.ask("go on", fresh_session=True))
        assert str(secret) in real.prompt
        assert "TOP SECRET" not in json.dumps(real.api.main_requests[-1].body["messages"])


@pytest.mark.real
@pytest.mark.parametrize("prompt", ["/clear", "/compact", "/cost"])
async def test_a_prompt_with_a_slash_reaches_the_model(real: Stage, prompt: str) -> None:
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        await (await thread.ask("hello"))
        reply = await (await thread.ask(prompt))
        assert reply.text
        assert real.prompt.strip() == prompt
        assert (await (await thread.ask("on"))).session_resumed


async def test_retry_sends_the_standing_text(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("one", instructions="Rhyme."))
        turn = (await thread.turns())[0]
        await (await thread.retry(turn.id))
        assert "Rhyme." in scripted.prompt


async def test_a_missed_heartbeat_neither_fails_the_run_nor_keeps_its_lease(
    scripted: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = threading.Event()

    def full(*_: object) -> bool:
        missed.set()
        raise StoreError("full", kind="full")

    async with scripted.open() as client:
        client.engine.settings = replace(client.engine.settings, lease_s=0.6)
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!hang text so far")
        with monkeypatch.context() as broken:
            broken.setattr(LeaseTable, "renew", full)
            assert await asyncio.to_thread(missed.wait, LIMIT_S)
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        scripted.api.release()
        assert (await run.reply()).status == "answered"
        assert not await client.engine.store.call(lambda store: store.leases.under())


async def test_after_a_store_failure_the_same_process_continues(
    scripted: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("full", kind="full")

    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!slow 12 0.1")
        async for event in run:
            if isinstance(event, TextStreamed):
                break
        with monkeypatch.context() as broken:
            broken.setattr(Database, "_begun", full)
            assert (await run.reply()).status == "interrupted", "it is left to recovery, as after a crash"
        reply = await asyncio.wait_for((await thread.ask("on")).reply(), LIMIT_S)
        assert reply.status == "answered"
        events = await client.engine.store.call(lambda store: store.events.of_run(run.id))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert isinstance(events[-1].event, RunEnded)


async def test_a_live_run_keeps_its_place_when_the_clock_jumps(scripted: Stage) -> None:
    async with scripted.open() as client, scripted.open() as other:
        client.engine.settings = replace(client.engine.settings, lease_s=3.0)
        ahead = other.engine.context.clock
        other.engine.context = replace(other.engine.context, clock=lambda: ahead() + 60)
        run = await (await client.thread("a", cwd=scripted.work)).ask("!hang text so far")
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        assert (await (await other.thread("b", cwd=scripted.work)).ask("hello")).id
        scripted.api.release()
        assert (await run.reply()).status == "answered"


async def test_a_run_that_died_waiting_on_another_machine_does_not_block_forever(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("one"))
    with sqlite3.connect(scripted.clew_home / "clew.db") as database:
        database.execute("UPDATE runs SET status = 'queued', owner_host = 'old-name', created_at = 1, ended_at = NULL")
    async with scripted.open() as client:
        reply = await asyncio.wait_for((await (await client.find("t")).ask("two")).reply(), LIMIT_S)
        assert reply.status == "answered"


async def test_recovery_does_not_end_another_process_that_has_a_reused_pid(scripted: Stage) -> None:
    async with scripted.open() as client:
        await (await (await client.thread("t", cwd=scripted.work)).ask("one"))
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        with sqlite3.connect(scripted.clew_home / "clew.db") as database:
            database.execute("UPDATE runs SET status = 'running', owner_pid = 999999999, ended_at = NULL")
            database.execute("UPDATE attempts SET pid = ?, pid_started = NULL", (stranger.pid,))
        async with scripted.open() as client:
            assert len(client.recovered) == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_pipe_in_place_of_a_session_file_does_not_hang(scripted: Stage) -> None:
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask("one"))
        [path] = scripted.session_files()
        path.unlink()
        os.mkfifo(path)
        reply = await asyncio.wait_for((await thread.ask("two")).reply(), LIMIT_S)
        assert reply.reason == "session_missing"


async def test_a_live_waiting_run_of_another_machine_is_not_declared_dead(scripted: Stage) -> None:
    async with scripted.open() as client, scripted.open() as other:
        elsewhere = replace(other.engine.context.owner, host="elsewhere")
        other.engine.context = replace(other.engine.context, owner=elsewhere)
        first = await (await client.thread("t", cwd=scripted.work)).ask("!hang text so far")
        waiting = await (await other.find("t")).ask("second")
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        assert (await other.run(waiting.id)).status == "queued"
        assert not await client.engine.recover()
        scripted.api.release()
        assert (await first.reply()).status == "answered"
        assert (await waiting.reply()).status == "answered"


async def test_a_work_directory_that_was_replaced_by_a_link_is_refused(scripted: Stage) -> None:
    elsewhere = scripted.folder / "elsewhere"
    elsewhere.mkdir()
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work, permissions="edits")
        await (await thread.ask("one"))
        scripted.work.rmdir()
        scripted.work.symlink_to(elsewhere)
        with pytest.raises(UsageError, match="leads to another directory"):
            await thread.ask("two")


@pytest.mark.real
async def test_the_users_own_default_mode_does_not_widen_ask(real: Stage) -> None:
    settings = real.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"permissions": {"defaultMode": "acceptEdits"}}))
    made = real.work / "made.txt"
    async with real.open() as client:
        thread = await client.thread("t", cwd=real.work)
        await (await thread.ask("!tool Write " + json.dumps({"file_path": str(made), "content": "x"})))
    assert not made.exists()


# A process with another session, no mark in its environment, and no parents.
ESCAPES = "env -i setsid sh -c '(sleep 1000 & echo $! > {pid})' </dev/null >/dev/null 2>&1"


async def test_a_hidden_process_of_a_tool_ends_with_the_run(stage: Stage) -> None:
    pid = stage.folder / "pid"
    prompt = "!tool Bash " + json.dumps({"command": ESCAPES.format(pid=pid)})
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        assert (await (await thread.ask(prompt))).status == "answered"
    assert not is_alive(int(pid.read_text()), None)


async def test_a_hidden_process_of_a_tool_is_found_after_a_crash(scripted: Stage) -> None:
    pid = scripted.folder / "pid"
    prompt = "!tool Bash " + json.dumps({"command": ESCAPES.format(pid=pid)})
    died = await forkserver.start_in_loop(
        ["ask", "-t", "t", "--permissions", "all", prompt],
        env={**scripted.environ, "CLEW_MODEL": MODEL, "CLEW_FAULT": "result_read"},
        cwd=scripted.work,
        stdin=subprocess.DEVNULL,
    )
    assert await died.wait() == -signal.SIGKILL
    assert is_alive(int(pid.read_text()), None)
    async with scripted.open() as client:
        assert len(client.recovered) == 1
    assert not is_alive(int(pid.read_text()), None)


@pytest.mark.parametrize("agent", ["claude", "codex"])
async def test_a_model_name_that_looks_like_an_option_reaches_no_command_line(codex: Stage, agent: str) -> None:
    async with codex.open() as client:
        thread = await client.thread("t", cwd=codex.work, agent=agent, model="--settings=x")
        for model in (None, "-x"):
            with pytest.raises(UsageError) as error:
                await thread.ask("Hello.", model=model)
            assert error.value.message == f"{model or '--settings=x'!r} is no model."
        assert await thread.turns() == () and await client.runs(thread=thread) == []
    assert codex.launches == []
