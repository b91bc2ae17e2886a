"""kill -9 of Clew and of the agent while a session is rewound: the copy is being made, or is used for the first time.

After each kill nothing is lost, the original session is byte for byte as it was, no process is left, and the next turn
shows the model the thread's true history and what the dropped turns did to the files, each once.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from clew.core.history import Role
from clew.core.runs.events import AttemptStarted, Event, SessionStarted, TextStreamed, ToolStarted
from clew.engine.faults import COPY_POINTS, POINTS
from clew.testing.model.refusals import BROKEN_SESSIONS
from clew.testing.stage import Stage
from turns.crashes.killing import SLEEP, Killer, ask_and_die
from turns.rewind.scene import Scene, scene

DROPPED = "dropped.txt` was written"
CODEX_SLEEP = f"!tool exec_command {json.dumps({'cmd': 'while true; do sleep 1; done'})}"
CODEX_WORDS = {"tool_started": f"\n{CODEX_SLEEP}"}
WORDS = {"tool_started": f"\n{SLEEP}", "question_asked": '\n!tool Bash {"command": "python3 -c pass"}'}


async def prepare(it: Scene, change: str) -> None:
    """Three rounds, of which the second wrote a file and is changed then."""
    await it.ask()
    await it.ask(it.writes("dropped.txt"))
    await it.ask()
    [*_, changed, _] = await it.prompts()
    if change == "edit":
        await it.thread.edit(changed.id, it.voice.prompt("put better"))
    else:
        await it.thread.truncate(changed.id)
    it.keep()


async def assert_nothing_is_lost(it: Scene, killed: str) -> None:
    """Asks twice more. Law 3 allows to resume each time: what was begun can be continued, or made again."""
    assert not it.stage.processes(), "what the killed run left running is ended"
    turns = await it.thread.turns()
    assert [turn.text for turn in turns if turn.role is Role.USER].count(killed) == 1
    it.assert_originals_unchanged()
    reply = await it.ask()
    assert reply.session_resumed, reply.reason
    assert sum(text.count(DROPPED) for _, text in it.stage.shown) == 1, "it is told what was done, once"
    it.assert_originals_unchanged()
    again = await it.ask()
    assert (again.session_resumed, again.reason, again.session_id) == (True, None, reply.session_id)
    it.assert_originals_unchanged()


async def clew_is_killed(stage: Stage, agent: str, point: str, change: str) -> None:
    permissions = "edits" if point == "question_asked" else "all"  # a file may be written, a command is asked about
    async with scene(stage, agent, permissions=permissions) as it:
        await prepare(it, change)
    words = CODEX_WORDS if agent == "codex" else WORDS
    prompt = it.voice.prompt(words.get(point, "slowly"))
    ask_and_die(stage, prompt, point, agent)
    async with stage.open(agent=agent) as client:
        it = it.with_client(client, await client.find("t"))
        [run, *_] = await client.runs()
        assert run.status == ("answered" if point == "outcome_stored" else "interrupted")
        assert not await client.engine.store.call(lambda store: store.leases.under("thread/"))
        await assert_nothing_is_lost(it, prompt)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("change", ["edit", "truncate"])
async def test_clew_is_killed_while_it_rewinds(scripted: Stage, point: str, change: str) -> None:
    await clew_is_killed(scripted, "claude", point, change)


@pytest.mark.real
@pytest.mark.parametrize("point", [point for point in POINTS if point not in ("prompt_stored", "lease_taken")])
async def test_clew_is_killed_while_it_rewinds_the_real_claude(real: Stage, point: str) -> None:
    await clew_is_killed(real, "claude", point, "edit")


@pytest.mark.real
@pytest.mark.parametrize(
    "point",
    [
        *("decided", *COPY_POINTS, "spawned", "prompt_sent", "session_started", "tool_started"),
        *("result_read", "process_ended", "outcome_known", "outcome_stored"),
    ],
)
async def test_clew_is_killed_while_it_rewinds_the_real_codex(codex: Stage, point: str) -> None:
    await clew_is_killed(codex, "codex", point, "truncate" if point in COPY_POINTS else "edit")


KILLED_AT = [
    pytest.param(AttemptStarted, id="before init"),
    pytest.param(SessionStarted, id="after init"),
    pytest.param(TextStreamed, id="mid-text"),
    pytest.param(ToolStarted, id="tool running"),
]


@pytest.mark.parametrize("when", KILLED_AT)
async def test_the_agent_is_killed_in_the_first_turn_of_the_copy(stage: Stage, when: type[Event]) -> None:
    await agent_is_killed(stage, "claude", when, f"\n{SLEEP}" if when is ToolStarted else "slowly")


@pytest.mark.parametrize("when", [KILLED_AT[0], KILLED_AT[1], KILLED_AT[3]])
async def test_codex_is_killed_in_the_first_turn_of_the_copy(codex: Stage, when: type[Event]) -> None:
    await agent_is_killed(codex, "codex", when, f"\n{CODEX_SLEEP}")


async def agent_is_killed(stage: Stage, agent: str, when: type[Event], words: str) -> None:
    async with scene(stage, agent) as it:
        await prepare(it, "edit")
        prompt = it.voice.prompt(words)
        run = await it.thread.ask(prompt)
        killer = Killer(stage, when)
        await asyncio.wait_for(killer.watch(run), 60)
        reply = await run.reply()
        assert (killer.killed, reply.status, reply.fallback) == (True, "failed", False)
        await assert_nothing_is_lost(it, prompt)


@pytest.mark.parametrize("saved", [True, False])
async def test_a_copy_that_the_agent_left_before_or_after_it_saved_the_prompt(scripted: Stage, saved: bool) -> None:
    async with scene(scripted) as it:
        await prepare(it, "edit")
        scripted.fault({"do": "crash_after_init", "signal": 9, "saved": saved})
        prompt = it.voice.prompt()
        assert (await (await it.thread.ask(prompt)).reply()).status == "failed"
        scripted.fault()
        await assert_nothing_is_lost(it, prompt)


async def test_two_kills_in_a_row_leave_the_original_usable(scripted: Stage) -> None:
    async with scene(scripted) as it:
        await prepare(it, "truncate")
        scripted.fault({"do": "crash_before_init", "signal": 9})
        for _ in range(2):
            prompt = it.voice.prompt()
            assert (await (await it.thread.ask(prompt)).reply()).status == "failed"
        scripted.fault()
        await assert_nothing_is_lost(it, prompt)


async def test_a_copy_that_is_refused_falls_back_to_a_fresh_session_once(scripted: Stage) -> None:
    async with scene(scripted) as it:
        await prepare(it, "edit")
        scripted.fault({"do": "reject", "on": "resume"})
        reply = await it.ask()
        await it.assert_fresh(reply, "rejected")
        assert [attempt.resumed for attempt in await it.client.attempts(reply.run)] == [True, False]
        scripted.fault()
        assert (await it.ask()).session_id == reply.session_id


async def test_a_copy_whose_history_the_api_refuses_falls_back_although_it_holds_tool_calls(stage: Stage) -> None:
    """Law 6: those calls were made before, and copied. No tool has run in this turn."""
    async with scene(stage) as it:
        await it.ask(it.writes("kept.txt"))
        await prepare(it, "edit")
        it.voice.refusing_history = BROKEN_SESSIONS[0].api
        reply = await it.ask()
        await it.assert_fresh(reply, "poisoned")
        assert reply.fallback
        it.voice.refusing_history = None
        assert (await it.ask()).session_id == reply.session_id


@pytest.mark.parametrize("point", ["result_read", "outcome_known"])
async def test_an_answer_that_was_recovered_after_a_kill_can_be_rewound_to(cast: tuple[Stage, str], point: str) -> None:
    """Clew died before it stored the answer: recovery reads it from the session, with the place where it ends."""
    stage, agent = cast
    async with scene(stage, agent) as it:
        await it.ask()
    ask_and_die(stage, it.voice.prompt(), point, agent)
    async with stage.open(agent=agent) as client:
        it = it.with_client(client, await client.find("t"))
        await it.ask()
        it.keep()
        [_, recovered, _] = await it.answers()
        assert not recovered.partial
        await it.thread.edit((await it.prompts())[2].id, it.voice.prompt("put better"))
        await it.assert_rewound(await it.ask(), recovered)
