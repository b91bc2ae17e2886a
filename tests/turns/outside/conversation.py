"""A thread that is continued in Clew and in the plain CLI of its agent, with a record of its own of what was said.

Every prompt and every answer has a unique token. After each turn in Clew three lists of tokens must be the same: what
was said, what the thread holds, and what the model was shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from clew.api import branching
from clew.api import sessions as agent_sessions
from clew.api.client import Client, Reply, Thread
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role, Turn
from clew.core.pins import Pin
from clew.core.record import Record
from clew.core.runs.run import Run
from clew.store.records import StoredEvent
from clew.testing.model.scripts import Hang, Request, Text, newest_user_text
from clew.testing.model.scripts import Reply as ModelReply
from clew.testing.stage import Stage
from clew.testing.truth import TokenModel, tokens
from turns.outside.plain import PlainClaude, PlainCli, Tui

WAITING = "waiting"


class Said(Record):
    token: str
    outside: bool


class Voice(TokenModel):
    """Remembers which answer it gave to which prompt. The end of an answer to `WAITING` waits for a release."""

    def __init__(self, stage: Stage) -> None:
        self.answers: dict[str, str] = {}
        super().__init__(stage.api)

    def answer(self, request: Request) -> ModelReply | None:
        reply = super().answer(request)
        if isinstance(reply, Text) and WAITING in newest_user_text(request.messages):
            reply = Hang("text", reply.text)
        said = tokens(getattr(reply, "text", ""))
        if request.is_main and said:
            self.answers[self.tokens_of(request)[-1]] = said[0]
        return reply


class Conversation:
    """Without a thread, it has begun in the plain CLI."""

    def __init__(self, stage: Stage, client: Client, cli: PlainCli, thread: Thread | None = None) -> None:
        self.stage, self.client, self.cli = stage, client, cli
        if thread is not None:
            self.thread = thread
        self.voice = Voice(stage)
        self.said: list[Said] = []
        self.session_id = ""  # of the last turn in Clew, or of the session that was begun outside

    async def ask(self, words: str = "", *, in_order: bool = True, **options: Any) -> Reply:
        """A turn in Clew. Everything that was said before is in the thread and is shown to the model, once.

        `in_order` False: the session had outside turns before it was sent what the thread has before them.
        """
        prompt = self.voice.prompt(words)
        before = len(self.stage.api.main_requests)
        reply = await (await self.thread.ask(prompt, **options)).reply()
        assert reply.status == "answered", reply
        self.session_id = reply.session_id or ""
        self.heard(prompt, outside=False)
        await self.check()
        *earlier, new = (each.token for each in self.said[:-1])
        for request in self.stage.api.main_requests[before:]:
            *shown, last = self.voice.tokens_of(request)
            is_true = shown == earlier if in_order else sorted(shown) == sorted(earlier)
            assert is_true and last == new, f"the model was shown {[*shown, last]}, not {[*earlier, new]}"
        return reply

    async def outside(self, words: str = "", *flags: str, model: str = "", session_id: str = "") -> str:
        """A turn in the plain CLI, without a terminal. Returns the prompt."""
        prompt = f"{self.voice.outside_prompt()} {words}".strip()
        await asyncio.to_thread(self.cli.ask, session_id or self.session_id, prompt, *flags, model=model)
        self.session_id = self.session_id or self.cli.newest()
        self.heard(prompt, outside=True)
        return prompt

    @asynccontextmanager
    async def tui(self, *flags: str) -> AsyncIterator[Tui]:
        """The TUI of the session. It is left at the end."""
        with await asyncio.to_thread(self.cli.open, self.session_id, *flags) as tui:
            yield tui
            await asyncio.to_thread(tui.quit)

    async def typed(self, tui: Tui, words: str = "") -> str:
        """A turn in the TUI. Returns the prompt."""
        prompt = f"{self.voice.outside_prompt()} {words}".strip()
        token = tokens(prompt)[0]
        await asyncio.to_thread(tui.send, prompt)
        await asyncio.to_thread(tui.wait_for, lambda screen: self.voice.answers.get(token, "\0") in screen)
        await asyncio.to_thread(tui.wait_for_end, self.voice.answers[token])
        self.heard(prompt, outside=True)
        return prompt

    def heard(self, prompt: str, *, outside: bool) -> None:
        """Notes the prompt and its answer."""
        token = tokens(prompt)[0]
        self.said += [Said(token, outside), Said(self.voice.answers[token], outside)]

    async def check(self) -> None:
        """The thread holds everything that was said, once and in order, and knows where."""
        turns = await self.thread.turns()
        held = [Said(token, turn.outside) for turn in turns for token in tokens(turn.text)]
        assert held == self.said, f"the thread holds {held}, not {self.said}"

    # What Clew keeps of it

    async def outside_turns(self) -> list[Turn]:
        return [turn for turn in await self.thread.turns() if turn.outside]

    async def outside_runs(self) -> list[Run]:
        """In the order of their turns."""
        prompts = [turn.run_id for turn in await self.thread.turns() if turn.role is Role.USER]
        return sorted((run for run in await self._runs() if run.outside), key=lambda run: prompts.index(run.id))

    async def cost_usd(self) -> float:
        """Of all turns, inside and outside."""
        return sum(run.cost_usd for run in await self._runs())

    async def usage(self) -> Usage:
        return sum((run.usage for run in await self._runs()), NO_USAGE)

    async def _runs(self) -> list[Run]:
        thread_id = self.thread.record.id
        return list(await self.client.engine.store.call(lambda store: store.runs.newest(thread_id=thread_id, limit=99)))

    async def steps(self, run: Run) -> list[StoredEvent]:
        return await self.client.views.steps(run.id)

    async def edits(self) -> list[tuple[str, str, str | None]]:
        """The edits that a comparison with an empty thread shows: path, kind and new text."""
        empty = await self.client.thread("empty", cwd=self.stage.work)
        [compared] = await branching.compare(self.client, self.thread.name, empty.name)
        return [(file.path, edit.kind, edit.new) for file in compared.files for edit in file.a]

    async def adopted(self, session_id: str) -> Thread:
        """The thread that adopts this session."""
        chosen = await agent_sessions.choose(self.client, agent_sessions.SessionSelection(ids=(session_id,)))
        [done] = (await agent_sessions.adopt(self.client, chosen)).done
        assert done.thread is not None, done.why
        return await self.client.find(done.thread)

    async def pins(self) -> list[Pin]:
        return list(await self.client.engine.store.call(lambda store: store.pins.of_thread(self.thread.record.id)))


@asynccontextmanager
async def begun(
    stage: Stage, cli: type[PlainCli] = PlainClaude, *, turns: int = 1, **settings: Any
) -> AsyncIterator[Conversation]:
    """A conversation of that many turns in Clew. Tools need no permission there."""
    agent = cli.adapter.name
    async with stage.open(agent=agent, permissions="all", **settings) as client:
        thread = await client.thread("t", cwd=stage.work, agent=agent)
        found = Conversation(stage, client, cli(stage), thread)
        for _ in range(turns):
            await found.ask()
        yield found
