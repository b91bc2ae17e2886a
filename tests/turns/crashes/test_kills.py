"""kill -9 of Clew at every named point, and of the agent at every stage of a turn.

After each kill no prompt is lost or duplicated, the thread is usable, no process is left, and the next turn shows the
model the thread's true history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from clew.api.client import Client, Reply, Run, Thread
from clew.core.history import Role
from clew.core.runs.events import AttemptStarted, Event, SessionStarted, TextStreamed, ToolStarted
from clew.engine.faults import POINTS, WARM_POINTS
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, expected, tokens
from turns.crashes.killing import SLEEP, Killer, ask_and_die, words_for


async def next_turn_is_true(stage: Stage, client: Client, voice: TokenModel, killed: str) -> Reply:
    """Asks once more, and compares what the model was shown with the thread."""
    thread = await client.find("t")
    before = await thread.turns()
    prompts = [turn.text for turn in before if turn.role is Role.USER]
    assert prompts.count(killed) == 1, "the prompt of the killed run is in the thread, once"
    prompt = voice.prompt()
    reply = await (await thread.ask(prompt))
    assert reply.status == "answered"
    assert voice.shown == expected(before, prompt)
    after = voice.prompt()
    history = await thread.turns()
    follow_up = await (await thread.ask(after))
    assert follow_up.session_resumed, "the thread is not bricked"
    assert voice.shown == expected(history, after)
    return reply


@pytest.mark.parametrize(
    ("point", "turn"),
    [
        *((point, turn) for turn in ("first", "resumed") for point in POINTS),
        *((point, "warm") for point in (*POINTS, *WARM_POINTS) if point not in ("process_ended", "agent_retired")),
    ],
)
async def test_clew_is_killed_at_a_named_point(scripted: Stage, point: str, turn: str) -> None:
    await clew_is_killed(scripted, point, turn)


@pytest.mark.real
@pytest.mark.parametrize(
    ("point", "turn"),
    [
        ("prompt_stored", "resumed"),
        ("decided", "first"),
        ("spawned", "resumed"),
        ("prompt_sent", "first"),
        ("session_started", "resumed"),
        ("text_streamed", "resumed"),
        ("tool_started", "resumed"),
        ("result_read", "resumed"),
        ("process_ended", "first"),
        ("outcome_known", "resumed"),
        ("spawned", "warm"),
        ("prompt_sent", "warm"),
        ("text_streamed", "warm"),
        ("tool_started", "warm"),
        ("result_read", "warm"),
        ("outcome_stored", "warm"),
        ("agent_kept", "warm"),
    ],
)
async def test_clew_is_killed_at_a_named_point_with_the_real_cli(real: Stage, point: str, turn: str) -> None:
    await clew_is_killed(real, point, turn)


async def clew_is_killed(stage: Stage, point: str, turn: str) -> None:
    voice = TokenModel(stage.api)
    if turn == "resumed":
        permissions = "all" if point == "tool_started" else "ask"
        async with stage.open() as client:
            thread = await client.thread("t", cwd=stage.work, permissions=permissions)
            await (await thread.ask(voice.prompt()))
    earlier = voice.prompt() if turn == "warm" else ""
    prompt = voice.prompt(words_for(point))
    ask_and_die(stage, prompt, point, earlier=earlier)
    async with stage.open() as client:
        assert not stage.processes(), "what the dead run left running is ended"
        [run, *_] = await client.runs()
        if point in ("outcome_stored", "agent_kept"):
            assert run.status == "answered"
        else:
            assert run.status == "interrupted"
            assert [dead.id for dead in client.recovered] == [run.id]
        leases = await client.engine.store.call(lambda store: store.leases.under())
        assert not leases, "its leases are free"
        await next_turn_is_true(stage, client, voice, prompt)


@pytest.mark.pairwise
@pytest.mark.parametrize(
    ("when", "words"),
    [
        pytest.param(AttemptStarted, "slowly", id="before init"),
        pytest.param(SessionStarted, "slowly", id="after init"),
        pytest.param(TextStreamed, "slowly", id="mid-text"),
        pytest.param(ToolStarted, f"\n{SLEEP}", id="tool running"),
    ],
)
@pytest.mark.parametrize("turn", ["first", "resumed"])
async def test_agent_is_killed(stage: Stage, when: type[Event], words: str, turn: str) -> None:
    voice = TokenModel(stage.api)
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        if turn == "resumed":
            await (await thread.ask(voice.prompt()))
        prompt = voice.prompt(words)
        run = await thread.ask(prompt)
        killer = Killer(stage, when)
        await asyncio.wait_for(killer.watch(run), 60)
        reply = await run.reply()
        assert killer.killed
        assert reply.status == "failed"
        assert not stage.processes(), "the Bash tool's child is ended too"
        await next_turn_is_true(stage, client, voice, prompt)


async def test_partial_answer_is_kept_and_shown_once(stage: Stage) -> None:
    voice = TokenModel(stage.api)
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        prompt = voice.prompt("slowly")
        run = await thread.ask(prompt)
        await asyncio.wait_for(Killer(stage, TextStreamed).watch(run), 60)
        await run.reply()
        answer = (await thread.turns())[-1]
        assert answer.role is Role.ASSISTANT
        assert answer.partial
        assert tokens(answer.text), "what had been said is in the thread"
        await next_turn_is_true(stage, client, voice, prompt)


async def running(thread: Thread, prompt: str, timeout_s: float | None = None) -> Run:
    run = await thread.ask(prompt, timeout_s=timeout_s)
    async for event in run:
        if isinstance(event, TextStreamed | ToolStarted):
            break
    return run


@pytest.mark.parametrize("words", ["slowly", f"\n{SLEEP}"])
async def test_cancel_keeps_what_was_said_and_the_next_turn_is_true(stage: Stage, words: str) -> None:
    voice = TokenModel(stage.api)
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        await (await thread.ask(voice.prompt()))
        prompt = voice.prompt(words)
        run = await running(thread, prompt)
        assert await client.cancel(run.id), "through the store, as another process would"
        reply = await asyncio.wait_for(run.reply(), 60)
        assert reply.status == "cancelled"
        assert not stage.processes()
        await next_turn_is_true(stage, client, voice, prompt)


async def test_timed_out_run_can_be_continued(stage: Stage, pass_an_hour: Callable[[], None]) -> None:
    voice = TokenModel(stage.api)
    async with stage.open() as client:
        thread = await client.thread("t", cwd=stage.work, permissions="all")
        await (await thread.ask(voice.prompt()))
        prompt = voice.prompt("\n" + SLEEP)
        run = await running(thread, prompt, timeout_s=600)
        pass_an_hour()
        assert (await run.reply()).status == "timed_out"
        assert not stage.processes()
        await next_turn_is_true(stage, client, voice, prompt)


async def test_a_turn_that_is_truncated_before_recovery_does_not_come_back(scripted: Stage) -> None:
    voice = TokenModel(scripted.api)
    async with scripted.open() as client:  # opened before the crash, so nothing is recovered automatically
        thread = await client.thread("t", cwd=scripted.work)
        await (await thread.ask(voice.prompt()))
        kept = await thread.turns()
        await asyncio.to_thread(ask_and_die, scripted, voice.prompt("slowly"), "text_streamed")
        [*_, asked] = [turn for turn in await thread.turns() if turn.role == "user"]
        await thread.truncate(asked.id)
        assert await thread.turns() == kept
        assert not scripted.processes(), "its agent is ended first"
        prompt = voice.prompt()
        await (await thread.ask(prompt))
        assert voice.shown == expected(kept, prompt)
