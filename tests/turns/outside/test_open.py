"""`clew open`: the agent's own TUI on a thread. What is said there comes in, and the thread is held meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from clew.errors import Busy
from clew.testing.stage import CODEX_MODEL, MODEL, Stage
from clew.testing.truth import tokens
from turns.outside.conversation import Conversation, begun
from turns.outside.plain import ClaudeTui, CodexTui, PlainClaude, PlainCodex, Tui

pytestmark = pytest.mark.real


@asynccontextmanager
async def opened(talk: Conversation, *args: str, kind: type[Tui] = ClaudeTui) -> AsyncIterator[Tui]:
    stage = talk.stage
    PlainClaude(stage)._answer_first_questions()
    if stage.codex is not None:
        PlainCodex(stage)._answer_first_questions()
    command = [sys.executable, "-m", "clew.cli", "open", "t", *args]
    environ = {**stage.environ, "CLEW_MODEL": MODEL}
    with await asyncio.to_thread(kind, command, environ, stage.work) as tui:
        yield tui


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
            await asyncio.to_thread(tui.quit)
        assert "4 turns came in · $" in tui.text
        await talk.check()
        reply = await talk.ask()
        assert (reply.session_resumed, reply.session_id, reply.warnings) == (True, session_id, ())
