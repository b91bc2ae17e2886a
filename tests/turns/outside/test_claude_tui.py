"""Claude's session is continued in its TUI: with tools, another model, a rewind, a compaction, an interruption."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from clew.core.runs.events import ToolFinished, ToolStarted
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import tokens
from turns.outside.conversation import begun
from turns.outside.directives import reads, writes
from turns.outside.plain import ClaudeTui

pytestmark = pytest.mark.real


async def test_three_times_out_and_back(real: Stage) -> None:
    made = real.work / "made.txt"
    async with begun(real) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            await talk.typed(tui)
            await talk.typed(tui)
        assert (await talk.ask()).session_id == session_id

        async with talk.tui("--permission-mode", "acceptEdits") as tui:
            await talk.typed(tui, reads(real, "first.txt", "second.txt", "third.txt"))
            await talk.typed(tui, writes(made, "new"))
        assert (await talk.ask()).session_id == session_id

        async with talk.tui() as tui:
            assert isinstance(tui, ClaudeTui)
            await asyncio.to_thread(tui.switch_model, "haiku")
            await talk.typed(tui)
        switched = real.api.main_requests[-1].model
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id) == (True, session_id)

        _, _, read, _, haiku = await talk.outside_runs()
        events = [stored.event for stored in await talk.steps(read)]
        called = [Path(each.input["file_path"]).stem for each in events if isinstance(each, ToolStarted)]
        assert called == ["first", "second", "third"]
        assert sum(isinstance(each, ToolFinished) and each.ran for each in events) == 3
        assert await talk.edits() == [(made.name, "write", "new")]
        assert haiku.model == switched != MODEL
        assert all(run.usage.output_tokens > 0 and run.cost_usd > 0 for run in await talk.outside_runs())
        assert await talk.cost_usd() == pytest.approx(talk.cli.read(session_id).cost_total_usd)


async def test_opening_and_leaving_the_tui_adds_nothing(real: Stage) -> None:
    async with begun(real) as talk:
        async with talk.tui() as tui:
            await asyncio.to_thread(tui.wait_until_idle)
        assert (await talk.thread.preview()).outside_turns == 0
        reply = await talk.ask()
        assert (reply.session_resumed, reply.warnings) == (True, ())


async def test_a_rewind_leaves_a_branch_that_can_be_adopted(real: Stage) -> None:
    async with begun(real, turns=3) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            await asyncio.to_thread(tui.rewind, talk.said[2].token)
            prompt = await talk.typed(tui)
        other = talk.said[:2] + talk.said[-2:]
        del talk.said[-2:]
        assert talk.voice.shown == [each.token for each in other[:-1]]

        reply = await talk.ask()
        assert (reply.session_resumed, reply.reason) == (False, "session_diverged")
        adopted = await talk.adopted(session_id)
        held = [token for turn in await adopted.turns() for token in tokens(turn.text)]
        assert held == [each.token for each in other]
        await talk.check()
        asked = talk.voice.prompt()
        continued = await (await adopted.ask(asked)).reply()
        assert continued.session_resumed
        assert talk.voice.shown == [*held, *tokens(asked)]
        assert tokens(prompt)[0] in held
        assert (await talk.ask()).session_resumed


@pytest.mark.always
async def test_a_rewind_of_outside_turns_only_is_followed(real: Stage) -> None:
    """What was taken back outside is not a turn of the thread: the model is not shown it any more."""
    async with begun(real) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            await talk.typed(tui)
            await talk.typed(tui)
            await asyncio.to_thread(tui.rewind, talk.said[-2].token)
            del talk.said[-2:]
            await talk.typed(tui)
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id) == (True, session_id)


async def test_a_compaction_is_said_and_the_session_is_resumed(real: Stage) -> None:
    async with begun(real, turns=2) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            await talk.typed(tui)
            await asyncio.to_thread(tui.compact)
            await talk.typed(tui)
        prompt = talk.voice.prompt()
        reply = await (await talk.thread.ask(prompt)).reply()
        talk.heard(prompt, outside=False)
        await talk.check()
        assert (reply.session_resumed, reply.session_id) == (True, session_id)
        assert any("was compacted outside Clew" in said for said in reply.warnings)
        assert talk.voice.shown[-3:] == [each.token for each in talk.said[-4:-1]]
        [pin] = await talk.pins()
        assert (pin.summarised, len(pin.absorbed)) == (6, 10)
        assert (await (await talk.thread.ask(talk.voice.prompt())).reply()).warnings == ()


async def test_only_the_beginning_was_summarised(real: Stage) -> None:
    """The model is still shown the rest as it was, so the session is resumed, and nothing of it is sent again."""
    async with begun(real, turns=3) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            assert isinstance(tui, ClaudeTui)
            await asyncio.to_thread(tui.summarise_up_to, talk.said[2].token)
            await talk.typed(tui)
        prompt = talk.voice.prompt()
        reply = await (await talk.thread.ask(prompt)).reply()
        talk.heard(prompt, outside=False)
        await talk.check()
        assert (reply.session_resumed, reply.session_id) == (True, session_id)
        assert any("was compacted outside Clew" in said for said in reply.warnings)
        assert talk.voice.shown == [each.token for each in talk.said[2:-1]]
