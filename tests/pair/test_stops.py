"""Ctrl-C, a kill and a second process: a pair that is stopped goes on just there, and belongs to one process."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from clew.core.pair import PairStatus, Part
from clew.errors import Busy
from clew.hosts.pair_rows import Wishes
from clew.testing.scripts import Hang, ToolUse
from clew.testing.stage import Stage
from pair.house import CONTINUE, TASK, Couple, begun, resumed, run, start, turns

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
    assert "stopping…" in err.decode() and "goes on with it" in err.decode()
    assert not real.processes()
    async with real.open() as client:
        [left] = await client.pairs.list()
        assert (left.status, left.pair.phase, left.pair.number) == (PairStatus.STOPPED, "working", 3)
        kept = json.loads((real.work / ".clew" / "sessions" / "current.json").read_text())
        assert (kept["currentRound"], kept["remainingRounds"], kept["lastInstruction"][:7]) == (3, 8, "order-3")
        state = await resumed(client, left.pair)
        assert (state.status, len(state.rounds)) == (PairStatus.FINISHED, 10)
        await couple.check_shown(client, state.pair)
        history = await turns(client, state.pair, Part.WORKER)
        assert [text.split()[0] for text in history if text.startswith("order-")] == [
            f"order-{n}" for n in range(1, 10)
        ]
        assert history.count(CONTINUE) == 1
    assert len({launch.resumes or launch.session_id for launch in real.launches}) == 2, "two sessions, to the end"


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
async def test_a_stop_ends_what_the_worker_runs_and_saves_the_file(
    scripted: Stage, signals: list[signal.Signals]
) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = LASTING
    with begun(scripted, TASK, "--permissions", "all", "--json") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("event", {}).get("kind") == "tool_started":
                break
        for number in signals:
            process.send_signal(number)
        _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 7, err.decode()
    assert not scripted.processes()
    kept = json.loads((scripted.work / ".clew" / "sessions" / "current.json").read_text())
    assert (kept["phase"], kept["worker"]["conversationHistory"][0]["content"][:7]) == ("working", "order-1")
    done = run(scripted, "--resume")
    assert done.returncode == 0, done.stderr.decode()
    assert b"round 2, instructor, done:" in done.stdout


async def test_one_pair_belongs_to_one_process(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "I am at it.")
    async with scripted.open() as client:
        live = await start(client, scripted)
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1, WAIT_S)
        with pytest.raises(Busy):
            await client.pairs.resume(live.pair.id, Wishes())
        other = run(scripted, "--session", live.pair.name, "--json")
        assert other.returncode == 8
        assert json.loads(other.stdout)["error"]["code"] == "busy"
        cleaned = run(scripted, "--clean-sessions", "--older-than", "0.001s")
        assert f"kept {live.pair.name}: it is at work".encode() in cleaned.stderr
        assert (await client.pairs.find(live.pair.id)).status is PairStatus.RUNNING
        scripted.api.release()
        await live.finish()
        assert (await client.pairs.find(live.pair.id)).status is PairStatus.FINISHED


async def test_a_pair_ends_with_its_client_and_goes_on_in_the_next(scripted: Stage) -> None:
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
