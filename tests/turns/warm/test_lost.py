"""An agent that was kept and is lost costs one cold attempt, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from clew.api.client import Client, Reply, Thread
from clew.core.history import Role
from clew.core.runs.events import AttemptStarted, SessionStarted, TextStreamed
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, expected, saved_tokens, tokens


@contextlib.asynccontextmanager
async def kept(stage: Stage, **settings: Any) -> AsyncIterator[tuple[Client, Thread, TokenModel, int]]:
    """A thread with one turn, and the pid of its agent, which is kept."""
    voice = TokenModel(stage.api)
    async with stage.open(**{"warm.keys": True, **settings}) as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        await (await thread.ask(voice.prompt())).reply()
        [agent] = await client.kept_agents()
        yield client, thread, voice, agent.pid


async def is_answered_as_ever(stage: Stage, thread: Thread, voice: TokenModel, reply: Reply, prompt: str) -> None:
    """The prompt is answered in the same session, which holds it once, and the next turn resumes that."""
    assert reply.status == "answered"
    turns = await thread.turns()
    assert [turn.text for turn in turns if turn.role is Role.USER].count(prompt) == 1
    if reply.session_resumed:
        [file] = stage.session_files()
        asked = [token for token in saved_tokens(file) if token in tokens(prompt)]
        assert len(asked) == 1
    after = voice.prompt()
    follow_up = await (await thread.ask(after)).reply()
    assert follow_up.session_resumed and not follow_up.warnings
    assert voice.shown == expected(turns, after)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
async def test_between_two_turns(stage: Stage, how: signal.Signals) -> None:
    async with kept(stage) as (client, thread, voice, pid):
        os.kill(pid, how)
        if how is not signal.SIGSTOP:
            async with asyncio.timeout(30):
                while await client.kept_agents():
                    await asyncio.sleep(0.01)
        before, prompt = await thread.turns(), voice.prompt()
        reply = await (await thread.ask(prompt)).reply()
        assert voice.shown == expected(before, prompt)
        assert reply.session_resumed and not reply.warnings, "it was noticed before the prompt was sent"
        [attempt] = await client.attempts(reply.run)
        assert attempt.mark is None and attempt.pid != pid
        await is_answered_as_ever(stage, thread, voice, reply, prompt)


@pytest.mark.parametrize("when", [AttemptStarted, SessionStarted, TextStreamed])
async def test_killed_during_its_second_turn(stage: Stage, when: type) -> None:
    async with kept(stage) as (client, thread, voice, pid):
        before, prompt = await thread.turns(), voice.prompt("slowly")
        run = await thread.ask(prompt)
        killed = False
        async for event in run:
            if isinstance(event, when) and not killed:
                killed = True
                os.kill(pid, signal.SIGKILL)
        reply = await run.reply()
        lost, again = await client.attempts(run.id)
        assert (lost.outcome, again.outcome) == ("killed", "success")
        assert (lost.mark is not None, again.mark) == (True, None)
        assert voice.shown == expected(before, prompt)
        [said] = reply.warnings
        assert said == (
            "The claude process of the last turn was to answer, but it ended without an answer (exit status -9): "
            "another one is started."
        )
        assert not reply.fallback
        await is_answered_as_ever(stage, thread, voice, reply, prompt)


FAULTS = [
    {"do": "crash_before_init", "rc": 1},
    {"do": "crash_after_init", "signal": 9},
    {"do": "crash_after_init", "signal": 9, "saved": False},
    {"do": "crash_mid_text", "signal": 9},
    {"do": "no_result"},
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: "-".join(map(str, fault.values())))
async def test_it_crashes_at_each_stage_of_its_turn(scripted: Stage, fault: dict[str, Any]) -> None:
    scripted.fault({**fault, "turn": 2, "once": str(scripted.folder / "crashed")})
    async with kept(scripted) as (client, thread, voice, _):
        before, prompt = await thread.turns(), voice.prompt("slowly" if "text" in fault["do"] else "")
        reply = await (await thread.ask(prompt)).reply()
        assert len(await client.attempts(reply.run)) == 2
        assert voice.shown == expected(before, prompt)
        assert len(reply.warnings) == 1
        await is_answered_as_ever(scripted, thread, voice, reply, prompt)


async def test_it_hangs_with_the_prompt(scripted: Stage) -> None:
    """It has not said that it works on the prompt, so another process is started after some seconds."""
    async with kept(scripted) as (client, thread, voice, pid):
        client.engine.settings = client.engine.settings.replace(warm_answer_s=0.2)
        prompt = voice.prompt()
        stopped = False

        def stop(point: str) -> None:
            nonlocal stopped
            if point == "spawned" and not stopped:
                stopped = True
                os.kill(pid, signal.SIGSTOP)

        with fault_hook(stop):
            reply = await (await thread.ask(prompt)).reply()
        assert stopped
        assert reply.warnings == (
            "The claude process of the last turn was to answer, but it did not take the prompt up: another one is "
            "started.",
        )
        assert pid not in scripted.processes()
        await is_answered_as_ever(scripted, thread, voice, reply, prompt)


async def test_a_tool_that_ran_is_not_run_again(scripted: Stage) -> None:
    """Law 6: after a tool has run, nothing is asked again."""
    async with kept(scripted) as (client, thread, voice, pid):
        run = await thread.ask(voice.prompt('\n!tool Bash {"command": "echo once >> made; sleep 30"}'))
        async for event in run:
            if event.kind == "tool_started":
                made = scripted.work / "made"
                while not made.exists():
                    await asyncio.sleep(0.01)
                os.kill(pid, signal.SIGKILL)
        reply = await run.reply()
        assert reply.status == "failed"
        assert len(await client.attempts(run.id)) == 1
        assert made.read_text() == "once\n"
        assert not scripted.processes()


async def test_the_new_process_may_fall_back_as_any_other(scripted: Stage) -> None:
    """The lost process does not count as the one fallback that a run has."""
    crashed = str(scripted.folder / "crashed")
    scripted.fault({"do": "crash_before_init", "turn": 2, "once": crashed}, {"do": "reject", "on": "resume"})
    async with kept(scripted) as (client, thread, voice, _):
        before, prompt = await thread.turns(), voice.prompt()
        reply = await (await thread.ask(prompt)).reply()
        assert (reply.status, reply.fallback, reply.reason) == ("answered", True, "rejected")
        assert [each.outcome for each in await client.attempts(reply.run)] == ["killed", "rejected", "success"]
        assert voice.shown == expected(before, prompt)


@contextlib.contextmanager
def fault_hook(hook: Any) -> Any:
    from clew.engine import faults

    faults.install(hook)
    try:
        yield
    finally:
        faults.install(None)
