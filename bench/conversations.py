"""Conversations with the real CLIs to which a measurement can return, so that several continuations have one beginning.

A conversation is built once. Then everything that it consists of is kept: the store, the agent's own files and the
model API's prompt cache. Each continuation starts from what was kept, so none sees what another one has written. The
API's clock stands still, so a cache entry expires only when a continuation pauses.

Prompts and answers contain unique tokens (`clew.testing.truth`): they show whether the model was shown each turn of the
thread exactly once.
"""

from __future__ import annotations

import copy
import itertools
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.cost import PROMPT_CHARS, REPLY_CHARS, padded
from bench.timing import tell
from clew.api.client import Client
from clew.api.reply import Reply as ThreadReply
from clew.api.thread import Thread
from clew.testing.model.api import ModelApi
from clew.testing.model.prompt_cache import LIFE_S, CacheAccount, Clock, PromptCache, read_blocks
from clew.testing.model.scripts import Reply, Request, Text, ToolUse, newest_tool_result, newest_user_text
from clew.testing.stage import Stage, real_claude, real_codex
from clew.testing.truth import expected, tokens

RESULT_CHARS = 8_000
PAUSE_S = 600.0
NAME = "bench"
MODEL_IS = "The exact model ID is"  # how Claude's CLI tells the model which one it is

Change = Callable[[Thread], Awaitable[ThreadReply]]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a conversation consists of."""

    agent: str
    tools: bool  # in each turn the agent reads a file
    model: str

    @property
    def name(self) -> str:
        held = f"a tool result of {RESULT_CHARS:,} characters in each turn" if self.tools else "texts only"
        return f"{self.agent}, {held}"


@dataclass(frozen=True, slots=True)
class Continuation:
    """The turns that followed: what each cost, and what the model was shown in the first."""

    accounts: tuple[CacheAccount, ...]
    reason: str | None
    resumed: bool
    wrong_turns: int  # turns that were missing, doubled or not in order in any of them
    results_shown: int  # tool results that the model was shown before the first answer
    named: int  # how often that request said which model is asked, and named the one that was asked before the change

    def cost(self, turns: int) -> float:
        return self._account(turns).cost_units

    def read_share(self, turns: int) -> float:
        whole = self._account(turns)
        return whole.read_tokens / whole.prompt_tokens

    def _account(self, turns: int) -> CacheAccount:
        return sum(self.accounts[:turns], CacheAccount())


class PrefixCache(PromptCache):
    """The cache of the Responses API: every prefix of a request is found again, and nothing is paid for writing it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._expires_at: dict[tuple[str, str], float] = {}  # by model and prefix

    def charge(self, body: Mapping[str, Any]) -> CacheAccount:
        blocks, now = read_blocks(body), self.clock.now()
        keys = [(str(body.get("model")), block.prefix_hash) for block in blocks]
        known = [
            block.prefix_tokens
            for key, block in zip(keys, blocks, strict=True)
            if now < self._expires_at.get(key, now) and block.prefix_tokens >= self.minimum_tokens
        ]
        self._expires_at.update(dict.fromkeys(keys, now + LIFE_S["5m"]))
        read = max(known, default=0)
        return CacheAccount(input_tokens=blocks[-1].prefix_tokens - read, read_tokens=read)


@dataclass(frozen=True, slots=True)
class Kept:
    """A conversation as it was after some turns."""

    folder: Path
    cache: PromptCache


class Conversation:
    """One thread of one agent."""

    def __init__(self, folder: Path, api: ModelApi, kind: Kind) -> None:
        self.kind = kind
        self._folder = folder
        self._api = api
        self._stage = Stage(folder / "stage", api, real_claude(), codex=real_codex())
        self._numbers = itertools.count(1)
        self._kept: dict[int, Kept] = {}
        self._has_tools = kind.tools
        api.reply = self._answer
        if kind.agent == "codex":
            api.cache = PrefixCache(api.clock)

    async def build(self, lengths: tuple[int, ...]) -> None:
        """Asks, and keeps the conversation at each of these lengths."""
        for before, turns in zip((0, *lengths), lengths, strict=False):
            async with self._open() as client:
                thread = await client.thread(NAME, cwd=self._stage.work)
                for turn in range(before, turns):
                    reply = await (await thread.ask(self.prompt()))
                    if reply.session_resumed != (turn > 0) or reply.error is not None:
                        raise RuntimeError(f"turn {turn} did not go as it should: {reply.reason}, {reply.error}")
            folder = self._folder / f"kept-{turns}"
            shutil.copytree(self._stage.folder, folder, symlinks=True)
            self._kept[turns] = Kept(folder, copy.deepcopy(self._api.cache))
            tell(f"  {self.kind.name}: {turns} turns")

    async def continued(
        self, turns: int, changes: tuple[Change, ...], *, pause_s: float = 0.0, **settings: object
    ) -> Continuation:
        """The thread as it was after that many turns, with these changes and settings. Each change ends with a turn."""
        self._return_to(self._kept[turns])
        self._api.clock.advance(pause_s)
        self._has_tools = False  # a new file that is read would cost the same in each continuation
        try:
            async with self._open(**settings) as client:
                return await self._continued(await client.thread(NAME), changes)
        finally:
            self._has_tools = self.kind.tools
            self._api.clock.advance(-pause_s)

    async def _continued(self, thread: Thread, changes: tuple[Change, ...]) -> Continuation:
        accounts, wrong, replies, results, named = [], 0, [], 0, 0
        for change in changes:
            seen = len(self._api.requests)
            replies.append(await change(thread))
            requests = self._api.requests[seen:]  # the CLI's other requests cost money too
            accounts.append(sum((request.cache for request in requests), CacheAccount()))
            [asked] = [request for request in requests if request.is_main]
            *before, prompt, answer = await thread.turns()
            shown = [token for _, text in asked.shown_texts() for token in tokens(text)]
            if answer.text != replies[-1].text or shown != expected(before, prompt.text, agent=self.kind.agent):
                wrong += 1
            if len(replies) == 1:
                results = sum(text.startswith("[tool_result") for _, text in asked.shown_texts(tools=True))
                named = json.dumps(asked.body).count(f"{MODEL_IS} {self.kind.model}")
        first = replies[0]
        return Continuation(tuple(accounts), first.reason, first.session_resumed, wrong, results, named)

    def prompt(self) -> str:
        return padded(f"u{next(self._numbers)}z question:", PROMPT_CHARS)

    def _open(self, **settings: object) -> AbstractAsyncContextManager[Client]:
        return self._stage.open(agent=self.kind.agent, model=self.kind.model, **settings)

    def _return_to(self, kept: Kept) -> None:
        shutil.rmtree(self._stage.folder)
        shutil.copytree(kept.folder, self._stage.folder, symlinks=True)
        self._api.cache = copy.deepcopy(kept.cache)
        self._api.cache.clock = self._api.clock

    def _answer(self, request: Request) -> Reply | None:
        if not request.is_main:
            return None
        number = next(self._numbers)
        if self._has_tools and newest_tool_result(request.messages) is None and newest_user_text(request.messages):
            return self._reading(number)
        return Text(padded(f"a{number}z answer:", REPLY_CHARS))

    def _reading(self, number: int) -> ToolUse:
        """A file of its own each time: the CLI does not send an unchanged file twice."""
        path = self._stage.work / f"file-{number}.txt"
        lines = (padded(f"line {line} of file {number}:", 99) for line in range(RESULT_CHARS // 100))
        path.write_text("".join(f"{line}\n" for line in lines))
        if self.kind.agent == "codex":
            return ToolUse("exec_command", {"cmd": f"cat {path.name}"})
        return ToolUse("Read", {"file_path": str(path)})


@contextmanager
def conversation(kind: Kind) -> Iterator[Conversation]:
    with TemporaryDirectory() as folder, ModelApi(clock=Clock()) as api:
        yield Conversation(Path(folder), api, kind)
