"""Codex's session is continued with `codex exec resume` and in its TUI, and comes back."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from clew.api import sessions as agent_sessions
from clew.core.costs.usage import NO_USAGE
from clew.core.runs.events import ToolFinished, ToolStarted
from clew.testing.model.scripts import Reply, Request, ToolUse, newest_tool_result
from clew.testing.stage import CODEX_MODEL, Stage
from clew.testing.truth import tokens
from turns.outside.conversation import Conversation, begun
from turns.outside.directives import PATCHED, commands, helper, patch
from turns.outside.plain import PlainCodex
from turns.test_explain import dump

pytestmark = pytest.mark.real


def talking(stage: Stage, **settings: Any):  # type: ignore[no-untyped-def]
    return begun(stage, PlainCodex, **settings)


@pytest.mark.always
async def test_three_times_out_and_back(codex: Stage) -> None:
    async with talking(codex) as talk:
        session_id = talk.session_id
        for count in (1, 2, 1):
            for _ in range(count):
                await talk.outside()
            reply = await talk.ask()
            assert (reply.session_resumed, reply.session_id, reply.reason) == (True, session_id, None)
            assert any(f"{2 * count} turns were made outside" in said for said in reply.warnings)
        assert (await talk.ask()).warnings == ()
        for run in await talk.outside_runs():
            assert (run.model, run.agent, run.status) == (CODEX_MODEL, "codex", "answered")
            assert run.usage.output_tokens > 0
        assert await talk.usage() == talk.cli.adapter.session_usage(talk.cli.path(session_id)), "nothing counts twice"


async def test_tools_in_parallel_an_edit_and_another_model_in_the_tui(codex: Stage) -> None:
    async with talking(codex) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            await talk.typed(tui, commands("echo first", "echo second", "echo third"))
            await talk.typed(tui, patch("new"))
        assert (await talk.ask()).session_resumed
        async with talk.tui("-m", "gpt-5.4") as tui:
            await talk.typed(tui)
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id) == (True, session_id)
        ran, _, switched = await talk.outside_runs()
        events = [stored.event for stored in await talk.steps(ran)]
        started = [event for event in events if isinstance(event, ToolStarted)]
        finished = {event.tool_id: event for event in events if isinstance(event, ToolFinished)}
        assert [finished[event.tool_id].output.strip() for event in started] == ["first", "second", "third"]
        assert [path for path, _, _ in await talk.edits()] == [PATCHED]
        assert (codex.work / PATCHED).read_text() == "new\n"
        assert switched.model == "gpt-5.4"
        assert (await talk.ask()).session_resumed


async def test_a_rewind_leaves_a_branch_that_can_be_adopted(codex: Stage) -> None:
    async with talking(codex, turns=3) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            await asyncio.to_thread(tui.rewind, talk.said[2].token)
            await talk.typed(tui)
        other = talk.said[:2] + talk.said[-2:]
        del talk.said[-2:]
        assert talk.voice.shown == [each.token for each in other[:-1]]
        assert (await talk.thread.preview()).reason == "session_diverged"
        reply = await talk.ask()
        assert (reply.session_resumed, reply.reason) == (False, "session_diverged")
        adopted = await talk.adopted(session_id)
        held = [token for turn in await adopted.turns() for token in tokens(turn.text)]
        assert held == [each.token for each in other]
        await talk.check()
        asked = talk.voice.prompt()
        assert (await (await adopted.ask(asked)).reply()).session_resumed
        assert talk.voice.shown == [*held, *tokens(asked)]
        assert (await talk.ask()).session_resumed


async def test_a_rewind_of_outside_turns_only_is_followed(codex: Stage) -> None:
    async with talking(codex) as talk:
        session_id = talk.session_id
        async with talk.tui() as tui:
            await talk.typed(tui)
            await talk.typed(tui)
            await asyncio.to_thread(tui.rewind, talk.said[-2].token)
            del talk.said[-2:]
            await talk.typed(tui)
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id) == (True, session_id)


async def test_reading_reports_and_changes_nothing(codex: Stage) -> None:
    async with talking(codex) as talk:
        await talk.outside()
        before = dump(codex)
        seen = await talk.thread.preview()
        assert (seen.resumes, seen.outside_turns) == (True, 2)
        assert (await talk.thread.explain("?")).outside_turns == 2
        assert dump(codex) == before
        assert len((await talk.thread.sync()).turns) == 2
        await talk.check()
        assert (await talk.ask()).warnings == ()


async def test_an_adopted_session_brings_its_tool_calls_and_edits(codex: Stage) -> None:
    async with codex.open() as client:
        talk = Conversation(codex, client, PlainCodex(codex))
        await talk.outside(commands("echo first", "echo second"))
        await talk.outside(patch("new"), "-c", "sandbox_mode=workspace-write")
        talk.thread = await talk.adopted(talk.session_id)
        await talk.check()
        ran, _ = await talk.outside_runs()
        events = [stored.event for stored in await talk.steps(ran)]
        assert [event.output.strip() for event in events if isinstance(event, ToolFinished)] == ["first", "second"]
        assert [path for path, _, _ in await talk.edits()] == [PATCHED]
        assert (await talk.ask()).session_resumed


async def test_a_subagents_calls_and_tokens_belong_to_the_turn_that_started_it(codex: Stage) -> None:
    async with talking(codex) as talk:
        session_id = talk.session_id
        said = codex.api.reply
        assert said is not None
        codex.api.reply = lambda request: _wait_for_the_subagent(request) or said(request)
        await talk.outside(helper(patch("new")), "-c", "sandbox_mode=workspace-write")
        await talk.outside(helper(commands("echo sub")))
        assert (await talk.ask()).session_resumed
        patched, ran = await talk.outside_runs()
        for run, tools in ((patched, ["apply_patch"]), (ran, ["exec_command"])):
            events = [stored.event for stored in await talk.steps(run)]
            called = [event.name for event in events if isinstance(event, ToolStarted)]
            assert called == ["spawn_agent", *tools, "wait_agent"]
            assert len([event for event in events if isinstance(event, ToolFinished)]) == len(called)
        assert [path for path, _, _ in await talk.edits()] == [PATCHED]
        own = talk.cli.path(session_id)
        helpers = [path for path in codex.codex_files() if path != own]
        assert len(helpers) == 2
        counted = sum((talk.cli.adapter.session_usage(path) or NO_USAGE for path in (own, *helpers)), NO_USAGE)
        assert await talk.usage() == counted, "the session's own count leaves them out, and nothing counts twice"
        listed, _ = await agent_sessions.newest(talk.client)
        assert not {path.stem[-36:] for path in helpers} & {each.id for each in listed}


def _wait_for_the_subagent(request: Request) -> Reply | None:
    """A turn's process ends its subagents when it ends."""
    started = re.search(r'"agent_id":"([^"]+)"', newest_tool_result(request.messages) or "")
    if started is None or not request.is_main:
        return None
    return ToolUse("multi_agent_v1.wait_agent", {"targets": [started[1]], "timeout_ms": 60_000})


async def test_both_agents_are_used_outside_and_in_clew(both_real: Stage) -> None:
    """Both sides are kept in order of time, and each session is given what it lacks, once."""
    async with begun(both_real) as talk:
        claude, codex = talk.cli, PlainCodex(both_real)
        claude_session = talk.session_id
        await talk.outside()
        codex_session = (await talk.ask(agent="codex", model=CODEX_MODEL)).session_id
        await talk.outside(session_id=claude_session)
        talk.cli = codex
        await talk.outside(session_id=codex_session or "")
        talk.cli = claude
        reply = await talk.ask(agent="codex", model=CODEX_MODEL, in_order=False)
        assert (reply.session_resumed, reply.session_id) == (True, codex_session)
        reply = await talk.ask(in_order=False)
        assert (reply.session_resumed, reply.session_id) == (True, claude_session)
        assert [run.agent for run in await talk.outside_runs()] == ["claude", "claude", "codex"]
        assert (await talk.ask(in_order=False)).warnings == ()


async def test_a_compaction_is_said_and_the_session_is_resumed(codex: Stage) -> None:
    async with talking(codex, turns=2) as talk:
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
