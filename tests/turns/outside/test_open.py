"""`clew open`: the agent's own TUI on a thread. What is said there comes in, and the thread is held meanwhile."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from clew.cli.ui.upcoming import upcoming_of
from clew.core.runs.events import RunQueued
from clew.core.runs.run import IN_TERMINAL
from clew.engine.process.family import started_at
from clew.errors import Busy
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from clew.testing.truth import tokens
from turns.outside.conversation import Conversation, begun
from turns.outside.plain import ClaudeTui, CodexTui, PlainClaude, PlainCodex, Tui

pytestmark = pytest.mark.real


@asynccontextmanager
async def opened(
    talk: Conversation, *args: str, kind: type[Tui] = ClaudeTui, in_shell: bool = False
) -> AsyncIterator[Tui]:
    """`clew open` on a terminal. `in_shell`: a shell starts it, and outlives it."""
    stage = talk.stage
    PlainClaude(stage)._answer_first_questions()
    if stage.codex is not None:
        PlainCodex(stage)._answer_first_questions()
    command = [sys.executable, "-m", "clew.cli", "open", "t", *args]
    if in_shell:
        command = ["bash", "-c", f"{shlex.join(command)}; until [ -e end ]; do sleep 0.1; done"]
    environ = {**stage.environ, "CLEW_MODEL": MODEL}
    with await asyncio.to_thread(kind, command, environ, stage.work) as tui:
        yield tui


async def _gone(pid: int) -> None:
    while started_at(pid) is not None:
        await asyncio.sleep(0.05)


@pytest.mark.always
async def test_what_is_said_in_the_tui_comes_in_and_the_session_is_resumed(real: Stage) -> None:
    async with begun(real) as talk:
        session_id = talk.session_id
        async with opened(talk) as tui:
            await talk.typed(tui)
            await talk.typed(tui)
            with pytest.raises(Busy, match=r"t is open in a terminal since .* \(process \d+ on "):
                await talk.thread.ask("now", wait=False)
            with pytest.raises(Busy, match="is open in a terminal"):
                await talk.thread.truncate("1")
            with pytest.raises(Busy, match="is open in a terminal"):
                await talk.thread.compact()
            assert (await talk.client.views.summary("t")).opened_at is not None
            shown = "\n".join((await upcoming_of(talk.client, talk.thread)).lines())
            assert "open in a terminal, 0s ago: other prompts wait" in re.sub(r"\d+[smh] ago", "0s ago", shown)
            await asyncio.to_thread(tui.quit)
            tui.wait_for(r"4 turns came in · [$]")
        await talk.check()
        assert (await upcoming_of(talk.client, talk.thread)).opened_at is None
        assert (await talk.client.views.summary("t")).opened_at is None
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id, reply.warnings) == (True, session_id, ())


async def test_a_thread_without_turns_is_opened_in_a_new_session(real: Stage) -> None:
    async with begun(real, turns=0) as talk:
        async with opened(talk) as tui:
            await asyncio.to_thread(tui.wait_until_idle)
            [pin] = await talk.pins()
            assert (pin.state, pin.absorbed, await talk.thread.turns()) == ("provisional", (), ())
            await talk.typed(tui)
            await asyncio.to_thread(tui.quit)
            tui.wait_for("2 turns came in")
        await talk.check()
        [pin] = await talk.pins()
        assert pin.state == "good"
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id) == (True, pin.session_id)


async def test_a_new_session_in_which_nothing_is_said_is_forgotten(real: Stage) -> None:
    async with begun(real, turns=0) as talk:
        async with opened(talk) as tui:
            await asyncio.to_thread(tui.wait_until_idle)
            await asyncio.to_thread(tui.quit)
            tui.wait_for(r"nothing was said")
        assert [pin.state for pin in await talk.pins()] == ["retired"]
        assert (await talk.ask()).reason == "first_turn"


async def test_a_prompt_waits_until_the_tui_is_left(real: Stage) -> None:
    async with begun(real) as talk:
        async with opened(talk) as tui:
            prompt = await talk.typed(tui)
            assert (await talk.thread.explain("Never sent.")).waits_for == IN_TERMINAL
            assert "is open in a terminal since" in str((await talk.thread.opening()).busy)
            waiting = await talk.thread.ask("Never sent.")
            async for event in waiting:
                if isinstance(event, RunQueued):
                    assert (event.waiting_for, event.held_by) == ("terminal", None)
                    waiting.cancel()
            asked = asyncio.ensure_future(talk.ask())
            assert not asked.done()
            await asyncio.to_thread(tui.quit)
            reply = await asked
        assert reply.session_resumed and tokens(prompt)[0] in talk.voice.shown


async def test_a_tui_that_is_killed_leaves_what_was_said(real: Stage) -> None:
    async with begun(real) as talk:
        async with opened(talk) as tui:
            await talk.typed(tui)
            lease = await talk.client.engine.store.call(lambda store: store.leases.under("thread/")[0])
            assert lease.owner.pid != tui.process.pid, "the lease is the agent's"
            while len((await talk.thread.sync(dry_run=True)).turns) < 2:  # until it has written its file
                await asyncio.sleep(0.05)
            os.kill(lease.owner.pid, signal.SIGKILL)
            assert await asyncio.to_thread(tui.ended) == 128 + signal.SIGKILL
            tui.wait_for("2 turns came in")
        assert (await talk.ask()).session_resumed


async def test_a_tui_outlives_clew_and_holds_the_thread_until_it_ends(real: Stage) -> None:
    async with begun(real) as talk, opened(talk, in_shell=True) as tui:
        await talk.typed(tui)
        lease = await talk.client.engine.store.call(lambda store: store.leases.under("thread/")[0])
        parent = int(Path(f"/proc/{lease.owner.pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        await _gone(parent)
        with pytest.raises(Busy, match="is open in a terminal"):
            await talk.thread.ask("now", wait=False)
        os.kill(lease.owner.pid, signal.SIGTERM)
        await _gone(lease.owner.pid)
        assert (await talk.ask()).session_resumed
        (real.work / "end").touch()
        await asyncio.to_thread(tui.ended)


async def test_a_terminal_that_is_closed_ends_both(real: Stage) -> None:
    async with begun(real) as talk:
        async with opened(talk) as tui:
            await talk.typed(tui)
            tui.process.send_signal(signal.SIGHUP)
            await asyncio.to_thread(tui.ended)
        await talk.thread.sync()
        await talk.check()
        assert (await talk.ask()).session_resumed


@pytest.mark.always
async def test_another_agent_takes_the_thread_over_with_a_turn(both_real: Stage) -> None:
    async with begun(both_real) as talk:
        prompt = talk.voice.prompt()
        async with opened(talk, "--agent", "codex", "--model", CODEX_MODEL, prompt, kind=CodexTui) as tui:
            await asyncio.to_thread(tui.wait_until_idle)
            talk.heard(prompt, outside=False)
            assert talk.voice.shown == [each.token for each in talk.said[:-1]]
            await talk.typed(tui)
            assert talk.voice.shown == [each.token for each in talk.said[:-1]]
            await asyncio.to_thread(tui.quit)
            tui.wait_for("2 turns came in")
        await talk.check()
        assert (await talk.ask(agent="codex", model=CODEX_MODEL)).session_resumed, "no server holds the lock"
        assert (await talk.ask()).session_resumed
