"""Ctrl-C, a kill and a second process: a stopped pair continues at the same point, and one process runs it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
import time
from pathlib import Path

import pytest

from clew.core.pairs.pair import PairPart, PairStatus
from clew.errors import Busy
from clew.hosts.pairs.rows import ResumeOptions
from clew.testing.model.scripts import Hang, ToolUse
from clew.testing.stage import Stage
from pairs.couple import CONTINUE, TASK, Couple, begun, resumed, run, start, started, turns

WAIT_S = 60
LASTING = ToolUse("Bash", {"command": "while true; do sleep 1; done"})


@pytest.mark.real
@pytest.mark.timeout(240)
async def test_ten_rounds_with_ctrl_c_in_the_third_while_the_worker_is_busy(real: Stage) -> None:
    couple = Couple(real, rounds=9)
    couple.busy[3] = Hang("text", "I am at it.")
    with begun(real, TASK, "--permissions", "all") as process:
        real.api.wait_for_hanging(1, WAIT_S)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 7, err.decode()
    assert "round 2, worker:\n  report-2" in out.decode()
    assert "stopping…" in err.decode() and "continues it" in err.decode()
    assert not real.processes()
    async with real.open() as client:
        [left] = await client.pairs.list()
        assert (left.status, left.pair.phase, left.pair.number) == (PairStatus.STOPPED, "working", 3)
        kept = json.loads((real.work / ".clew" / "sessions" / "current.json").read_text())
        assert (kept["currentRound"], kept["remainingRounds"], kept["lastInstruction"][:7]) == (3, 8, "order-3")
        state = await resumed(client, left.pair)
        assert (state.status, len(state.rounds)) == (PairStatus.FINISHED, 10)
        await couple.check_shown(client, state.pair)
        history = await turns(client, state.pair, PairPart.WORKER)
        assert [text.split()[0] for text in history if text.startswith("order-")] == [
            f"order-{n}" for n in range(1, 10)
        ]
        assert history.count(CONTINUE) == 1
    assert len({launch.resumes or launch.session_id for launch in real.launches}) == 2, "two sessions, to the end"


@pytest.mark.rest
@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGHUP], [signal.SIGINT, signal.SIGINT]])
async def test_a_stop_ends_what_the_worker_runs_and_saves_the_file(stage: Stage, signals: list[signal.Signals]) -> None:
    couple = Couple(stage, rounds=1)
    couple.busy[1] = LASTING
    with begun(stage, TASK, "--permissions", "all", "--json") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("event", {}).get("kind") == "tool_started":
                break
        for number in signals:
            process.send_signal(number)
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 7, err.decode()
    assert not stage.processes()
    kept = json.loads((stage.work / ".clew" / "sessions" / "current.json").read_text())
    assert (kept["phase"], kept["worker"]["conversationHistory"][0]["content"][:7]) == ("working", "order-1")
    done = run(stage, "--resume")
    assert done.returncode == 0, done.stderr.decode()
    assert b"round 2, instructor, done:" in done.stdout


@pytest.mark.real
def test_sigint_stops_it_in_the_background_of_a_script_too(real: Stage) -> None:
    """A shell without job control starts background commands with SIGINT ignored."""
    couple = Couple(real, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    script = 'python=$1; shift; "$python" -m clew pair "$@" & echo $!; wait $!; echo "ended $?"'
    with started(real, ["bash", "-c", script, "script", sys.executable, TASK]) as shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        real.api.wait_for_hanging(1, WAIT_S)
        os.kill(pid, signal.SIGINT)
        out, err = shell.communicate(timeout=WAIT_S)
    assert out.decode().splitlines()[-1] == "ended 7", err.decode()
    assert "stopping…" in err.decode()
    assert not real.processes()


def test_a_stop_while_a_pair_is_being_stored_reports_its_name(scripted: Stage) -> None:
    """Another process locks the store, so that the stop comes before the pair is stored."""
    Couple(scripted, rounds=1)
    assert run(scripted, "--list-sessions").returncode == 0  # creates the store
    other = sqlite3.connect(scripted.clew_home / "clew.db", isolation_level=None)
    with contextlib.closing(other), begun(scripted, TASK, "--name", "build") as process:
        other.execute("BEGIN IMMEDIATE")
        _wait_until_it_listens(process.pid)
        process.send_signal(signal.SIGINT)
        other.execute("ROLLBACK")
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 7, err.decode()
    assert "pair build (" in err.decode() and "clew pair --session build continues it" in err.decode()
    assert (scripted.work / ".clew" / "sessions" / "current.json").is_file()
    assert not scripted.launches, "nobody was asked"
    assert run(scripted, "--resume").returncode == 0


def _wait_until_it_listens(pid: int) -> None:
    """Waits until that process handles SIGHUP, which Python itself does not."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        if caught is not None and int(caught[1], 16) & (1 << (signal.SIGHUP - 1)):
            return
        time.sleep(0.005)
    raise TimeoutError("it does not listen to signals")


async def test_one_pair_belongs_to_one_process(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted)
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        with pytest.raises(Busy):
            await client.pairs.resume(live.pair.id, ResumeOptions())
        other = run(scripted, "--session", live.pair.name, "--json")
        assert other.returncode == 8
        assert json.loads(other.stdout)["error"]["code"] == "busy"
        cleaned = run(scripted, "--clean-sessions", "--older-than", "0.001s")
        assert f"kept {live.pair.name}: it is running".encode() in cleaned.stderr
        assert (await client.pairs.find(live.pair.id)).status is PairStatus.RUNNING
        scripted.api.release()
        await live.finish()
        assert (await client.pairs.find(live.pair.id)).status is PairStatus.FINISHED


async def test_a_pair_stops_with_its_client_and_continues_in_the_next(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted)
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
    assert live.error is not None and live.error.code == "cancelled"
    async with scripted.open() as client:
        state = await resumed(client, live.pair)
        assert state.status is PairStatus.FINISHED
        await couple.check_shown(client, state.pair)
