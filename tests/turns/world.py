"""A thread and everything that can happen to it, one method per step: for random scripts, and for fixed ones."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from clew.agents.claude import Claude
from clew.api.client import Client, Reply, Run, Thread
from clew.core.history import Role, Turn, Visibility
from clew.core.runs.events import TextStreamed
from clew.testing.model.replies import Fail
from clew.testing.stage import MODEL, Stage
from clew.testing.truth import Ask, Ledger, Source, TokenModel, expected, saved_tokens, tokens
from turns.plain_cli import PlainCli

MODELS = (MODEL, "claude-opus-4-1")
AGENTS = ("claude", "other")


class Other(Claude):
    """A second agent: the same CLI under another name, so that its turns are those of another agent."""

    name = "other"


class World:
    """Every `ask` checks law 1 on each request that reached the model, and law 3 against a ledger of its own."""

    def __init__(self, stage: Stage, client: Client, thread: Thread, ledger: Ledger) -> None:
        self.stage = stage
        self.client = client
        self.thread = thread
        self.ledger = ledger
        self.voice = TokenModel(stage.api)
        self.cli = PlainCli(stage)
        self.replies: list[Reply] = []
        self.warm = 0  # how many attempts had an agent that was kept
        for name in ("first", "second", "third"):
            (stage.work / f"{name}.txt").write_text(f"the {name} file")

    @classmethod
    async def make(cls, stage: Stage, client: Client, visibility: Visibility, **settings: Any) -> World:
        """`settings` are those of the client that the ledger has to know."""
        thread = await client.thread("t", cwd=stage.work, visibility=visibility)
        return cls(stage, client, thread, Ledger(visibility=visibility, **settings))

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        stage: Stage,
        visibility: Visibility,
        *,
        rewind: bool = True,
        model_switch: str = "transcript",
        follow_moves: bool = True,
        enable_resume: bool = True,
        warm: bool = False,
    ) -> AsyncIterator[World]:
        """`warm`: agents are kept between two turns, although they have an API key in their environment."""
        settings: dict[str, Any] = {"rewind": rewind, "model_switch": model_switch}
        settings |= {"follow_moves": follow_moves, "enable_resume": enable_resume}
        async with stage.open(adapters=[Other()], **settings, **{"warm.keys": warm}) as client:
            yield await cls.make(stage, client, visibility, **settings)

    # --- in Clew

    async def ask(
        self,
        agent: str = "claude",
        model: str = MODEL,
        *,
        words: str = "",
        fresh: bool = False,
        standing: str | None = None,
        cancel_at_text: bool = False,
        kill_at_text: bool = False,
        refused: Fail | None = None,
    ) -> Reply:
        """`refused`: the API refuses a history with this text, but answers a prompt without history."""
        prompt, seen_before = self.voice.prompt(words), len(self.stage.api.main_requests)
        due = self.ledger.due()
        self.voice.refusing_history = refused
        run = await self.thread.ask(prompt, agent=agent, model=model, fresh_session=fresh, instructions=standing)
        if cancel_at_text or kill_at_text:
            async for event in run:
                if isinstance(event, TextStreamed):
                    run.kill() if kill_at_text else run.cancel()
        reply = await run.reply()
        self.voice.refusing_history = None
        turns = await self.thread.turns()
        assert [turn.text for turn in turns].count(prompt) == 1, "the prompt is in the thread, once"
        self._check_outside(turns, due)
        history = tuple(turn for turn in turns if turn.run_id != run.id)
        await self._check(run, reply, Ask(agent, model, history, prompt, fresh=fresh), seen_before)
        return reply

    async def retry(self, turn: Turn) -> Reply:
        seen_before = len(self.stage.api.main_requests)
        run = await self.thread.retry(turn.id)
        reply = await run.reply()
        turns = await self.thread.turns()
        self._check_outside(turns)
        history = turns[: [each.id for each in turns].index(turn.id)]
        await self._check(
            run, reply, Ask(reply.agent, reply.model or "", history, turn.text, retries=True), seen_before
        )
        return reply

    async def _check(self, run: Run, reply: Reply, ask: Ask, seen_before: int) -> None:
        self.replies.append(reply)
        attempts = await self.client.attempts(run.id)
        self.warm += sum(each.mark is not None for each in attempts)
        source = self.ledger.source(ask)
        resumed = attempts[0].resumed
        assert resumed == (source is not None), f"law 3: resumed: {resumed}, reason: {reply.reason}, may: {source}"
        requests = self.stage.api.main_requests[seen_before:]
        truth = expected(ask.history, ask.prompt, agent=ask.agent, visibility=self.ledger.visibility)
        for number, request in enumerate(requests, start=1):
            is_fallback = reply.fallback and number == len(requests)
            self._check_shown(self.voice.tokens_of(request), truth, None if is_fallback else source)
        cold = sum(each.mark is None for each in attempts)
        launched = self.stage.launches[-cold].resumes if attempts[0].mark is None else attempts[0].session_id
        saved = {each.session_id: saved_tokens(self.cli.path(each.session_id)) for each in attempts}
        self.ledger.ended(ask, attempts, reply.text, saved=saved, copied_from=launched)

    def _check_shown(self, shown: list[str], truth: list[str], source: Source | None) -> None:
        """Law 1: each turn once, in order. A session may hold turns that were made outside before others of the thread,
        and what it had before its last compaction only as a summary."""
        kept = source.kept if source is not None else ()
        summarised = source.summarised if source is not None else frozenset()
        wanted = [*kept, *(token for token in truth if token not in kept)]
        told = f"law 1: shown {shown}, expected {wanted}, of which {[*summarised]} may be summarised"
        assert [each for each in shown if each not in summarised] == [
            each for each in wanted if each not in summarised
        ], told
        assert len({*shown}) == len(shown) and {*shown} <= {*truth}, told

    def _check_outside(self, turns: Sequence[Turn], due: Sequence[str] = ()) -> None:
        """Outside turns are in the thread once, marked, and in order of time: prompts are numbered by when they were
        made. A turn that was edited has a new number."""
        unedited = [turn for turn in turns if not turn.revision]
        shown = [token for turn in unedited for token in tokens(turn.text)]
        assert len({*shown}) == len(shown), f"a turn came in twice: {shown}"
        assert {*due} <= {*shown}, f"of what was made outside, {due} should have come in: {shown}"
        for turn in unedited:
            assert turn.outside == any(token in self.ledger.outside for token in tokens(turn.text)), turn
        asked = [int(tokens(turn.text)[0][1:-1]) for turn in unedited if turn.role is Role.USER]
        assert asked == sorted(asked), f"not in order of time: {shown}"

    async def kept_agents(self) -> set[int]:
        """The processes that are kept, each with its helpers."""
        return {each.pid for each in await self.client.kept_agents()}

    async def turns_of(self, role: Role | None = None) -> list[Turn]:
        return [turn for turn in await self.thread.turns() if role in (None, turn.role)]

    async def user_turns(self) -> list[Turn]:
        return await self.turns_of(Role.USER)

    async def edit(self, turn: Turn) -> None:
        await self.thread.edit(turn.id, self.voice.prompt("edited"))

    async def truncate(self, turn: Turn) -> None:
        await self.thread.truncate(turn.id)

    # --- outside Clew

    def session(self, choice: int) -> str | None:
        """One of the sessions that have a file, counted from the newest."""
        found = [session for session in self.ledger.sessions if saved_tokens(self.cli.path(session))]
        return found[-1 - choice % len(found)] if found else None

    def delete_session(self, choice: int) -> None:
        if (session := self.session(choice)) is not None:
            self.cli.path(session).unlink()
            self.ledger.deleted(session)

    def use_plain_cli(self, choice: int, *, count: int = 1, tools: str = "", model: str = MODEL) -> None:
        """Continues one of the sessions outside Clew, with `count` turns. `tools` are directives."""
        if (session := self.session(choice)) is None:
            return
        prompts = [f"{self.voice.outside_prompt()}\n{tools}".strip() for _ in range(count)]
        answers = self.cli.ask(session, *prompts, model=model)
        for prompt, answer in zip(prompts, answers, strict=True):
            self.ledger.continued(session, prompt, answer)

    def go_back_outside(self, choice: int, place: int) -> None:
        """Rewinds one of the sessions in place, to one of its own answers, and continues there.

        Not to the last answer that Clew knows: only notes of the CLI that may follow it would make that a branch. And
        not in a session whose first turn had no success: without our prompt, it is like a copy that was not finished.
        """
        session = self.session(choice)
        if session is None or not self.ledger.known(session):
            return
        held = {*self.ledger.held(session)} - {*self.ledger.known(session)[-1:]}
        ends = [(token, uuid) for token, uuid in self.cli.ends(session) if token in held]
        if not ends:
            return
        token, uuid = ends[-1 - place % len(ends)]
        prompt = self.voice.outside_prompt()
        [answer] = self.cli.ask(session, prompt, flags=("--resume-session-at", uuid))
        self.ledger.went_back(session, token)
        self.ledger.continued(session, prompt, answer)

    def compact_outside(self, choice: int) -> None:
        session = self.session(choice)
        if session is not None and self.cli.compact(session):
            self.ledger.compacted(session)

    @property
    def read_in_parallel(self) -> str:
        """Directives for three tool calls in one answer."""
        paths = [str(self.stage.work / f"{name}.txt") for name in ("first", "second", "third")]
        return "\n".join(f"!tool Read {json.dumps({'file_path': path})}" for path in paths)

    @property
    def write_a_file(self) -> str:
        return f"!tool Write {json.dumps({'file_path': str(self.stage.work / 'made.txt'), 'content': 'made'})}"
