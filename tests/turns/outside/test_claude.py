"""Claude's session is continued with the plain `claude -p`, and comes back: nothing is lost, nothing is doubled."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.history import Role
from clew.core.runs.events import ToolFinished, ToolStarted
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import tokens
from turns.outside.conversation import Conversation, begun
from turns.outside.directives import reads, writes
from turns.outside.plain import PlainClaude
from turns.test_explain import dump
from turns.world import MODELS, Other

OPUS = MODELS[1]


async def test_three_times_out_and_back(stage: Stage) -> None:
    async with begun(stage) as talk:
        session_id = talk.session_id
        for count in (1, 2, 1):
            for _ in range(count):
                await talk.outside()
            reply = await talk.ask()
            assert (reply.session_resumed, reply.session_id, reply.reason) == (True, session_id, None)
            assert any(f"{2 * count} turns were made outside" in said for said in reply.warnings)
        assert (await talk.ask()).warnings == ()
        for run in await talk.outside_runs():
            assert (run.model, run.agent, run.session_id) == (MODEL, "claude", session_id)
            assert run.usage.output_tokens > 0 and run.cost_usd > 0
            assert (run.status, run.error) == ("answered", None)
        assert await talk.cost_usd() == pytest.approx(talk.cli.read(session_id).cost_total_usd), "nothing counts twice"


async def test_parallel_tools_and_an_edit_come_along(stage: Stage) -> None:
    made = stage.work / "made.txt"
    async with begun(stage) as talk:
        await talk.outside(reads(stage, "first.txt", "second.txt", "third.txt"))
        await talk.outside(writes(made, "new"))
        assert (await talk.ask()).session_resumed
        read, wrote = await talk.outside_runs()
        events = [stored.event for stored in await talk.steps(read)]
        started = [event for event in events if isinstance(event, ToolStarted)]
        finished = {event.tool_id: event for event in events if isinstance(event, ToolFinished)}
        assert [Path(event.input["file_path"]).name for event in started] == ["first.txt", "second.txt", "third.txt"]
        assert [finished[event.tool_id].output for event in started] == [
            f"1\twords of {name}.txt" for name in ("first", "second", "third")
        ]
        assert all(event.ran and not event.is_error for event in finished.values())
        [call] = [stored.event for stored in await talk.steps(wrote) if isinstance(stored.event, ToolStarted)]
        assert (call.name, call.input["content"], made.read_text()) == ("Write", "new", "new")
        assert await talk.edits() == [(made.name, "write", "new")]


async def test_another_model_answered_outside(stage: Stage) -> None:
    async with begun(stage) as talk:
        session_id = talk.session_id
        await talk.outside(model=OPUS)
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id, reply.model) == (True, session_id, MODEL)
        asked, _ = (request.model for request in stage.api.main_requests[-2:])  # the CLI may replace an old model
        [run] = await talk.outside_runs()
        assert run.model == asked != MODEL
        assert {turn.model for turn in await talk.outside_turns()} == {asked}
        assert (await talk.ask()).session_resumed


async def test_a_branch_is_left_alone_and_can_be_adopted(stage: Stage) -> None:
    async with begun(stage, turns=3) as talk:
        session_id, first = talk.session_id, (await talk.thread.turns())[1]
        prompt = await talk.outside("", f"--resume-session-at={first.message_id}")
        other = [tokens(prompt)[0], talk.voice.answers[tokens(prompt)[0]]]
        del talk.said[-2:]  # it is not on this thread's branch
        assert talk.voice.shown == [*(each.token for each in talk.said[:2]), other[0]]

        seen = await talk.thread.preview()
        assert (seen.resumes, seen.reason, seen.outside_turns) == (False, "session_diverged", 0)
        assert f"clew sessions adopt {session_id}" in seen.words
        reply = await talk.ask()
        assert (reply.session_resumed, reply.reason) == (False, "session_diverged")

        adopted = await talk.adopted(session_id)
        assert [token for turn in await adopted.turns() for token in tokens(turn.text)] == [
            *(each.token for each in talk.said[:2]), *other,
        ]  # fmt: skip
        await talk.check()
        assert (await talk.ask()).session_resumed, "the thread has a session of its own now"
        before = len(stage.api.main_requests)
        continued = await (await adopted.ask(talk.voice.prompt())).reply()
        assert (continued.session_resumed, continued.session_id) == (True, session_id)
        assert len(stage.api.main_requests) == before + 1


async def test_a_compaction_is_said_and_the_session_is_resumed(stage: Stage) -> None:
    async with begun(stage, turns=2) as talk:
        session_id = talk.session_id
        await talk.outside()
        talk.cli.ask(session_id, "/compact")
        seen = await talk.thread.preview()
        assert (seen.resumes, seen.outside_turns) == (True, 2)
        assert "compacted outside Clew" in seen.words

        prompt = talk.voice.prompt()
        reply = await (await talk.thread.ask(prompt)).reply()
        talk.heard(prompt, outside=False)
        assert (reply.session_resumed, reply.session_id) == (True, session_id)
        assert any(f"The session {session_id} was compacted" in said for said in reply.warnings)
        await talk.check()
        assert talk.voice.shown[-1:] == tokens(prompt)
        shown = [text for _, text in stage.shown]
        assert sum("scripted summary" in text for text in shown) == 1
        [pin] = await talk.pins()
        assert (pin.summarised, len(pin.absorbed)) == (6, 8)

        before = len(talk.voice.shown)
        again = await (await talk.thread.ask(talk.voice.prompt())).reply()
        assert again.session_resumed and not again.warnings
        assert len(talk.voice.shown) == before + 2, "it was given the new prompt alone"


async def test_reading_reports_and_changes_nothing(stage: Stage) -> None:
    async with begun(stage) as talk:
        await talk.outside()
        await talk.outside()
        before = dump(stage)
        seen = await talk.thread.preview()
        assert (seen.resumes, seen.outside_turns) == (True, 4)
        explained = await talk.thread.explain("?")
        assert (explained.resumes, explained.outside_turns, explained.turns_sent) == (True, 4, 0)
        assert len((await talk.client.views.thread("t")).turns) == 2
        assert len(await talk.thread.turns()) == 2
        assert dump(stage) == before
        assert len((await talk.thread.sync()).turns) == 4
        await talk.check()
        assert (await talk.thread.preview()).outside_turns == 0
        assert (await talk.ask()).session_resumed


async def test_the_thread_continued_with_another_agent_meanwhile(stage: Stage) -> None:
    """Both sides are kept in order of time, and each session is given what it lacks, once."""
    async with begun(stage, adapters=[Other()]) as talk:
        session_id = talk.session_id
        await talk.outside()
        await talk.ask(agent="other", model=MODEL)
        await talk.outside(session_id=session_id)
        await talk.ask(agent="other", model=MODEL)
        reply = await talk.ask(in_order=False)
        assert (reply.session_resumed, reply.session_id) == (True, session_id)
        assert (await talk.ask(in_order=False)).session_resumed


async def test_without_follow_moves_a_session_that_was_used_outside_is_not_resumed(stage: Stage) -> None:
    async with begun(stage, follow_moves=False) as talk:
        await talk.outside()
        del talk.said[-2:]
        reply = await talk.ask()
        assert (reply.session_resumed, reply.reason) == (False, "session_diverged")
        assert not await talk.outside_runs()


async def test_an_adopted_session_brings_its_tool_calls_and_edits(stage: Stage) -> None:
    made = stage.work / "made.txt"
    async with stage.open() as client:
        talk = Conversation(stage, client, PlainClaude(stage))
        await talk.outside(reads(stage, "first.txt", "second.txt"))
        await talk.outside(writes(made, "new"))
        talk.thread = await talk.adopted(talk.session_id)
        await talk.check()
        assert [turn.role for turn in await talk.thread.turns()] == [Role.USER, Role.ASSISTANT] * 2
        read, _ = await talk.outside_runs()
        names = [each.event.name for each in await talk.steps(read) if isinstance(each.event, ToolStarted)]
        assert names == ["Read", "Read"]
        assert await talk.edits() == [(made.name, "write", "new")]
        assert (await talk.ask()).session_resumed
