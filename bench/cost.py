"""What a conversation costs by transcript and by resume, with the real Claude CLI, in units of one input token.

The scripted model API accounts for the prompt cache by the documented rules, so the costs are counted, not timed: a
busy machine does not change them, and the conversations run two at a time. Only the input is counted; the answers are
the same text either way. A 20-turn conversation is the beginning of the 60-turn one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import counted, tell
from clew.testing.model.api import ModelApi
from clew.testing.model.prompt_cache import CacheAccount
from clew.testing.model.scripts import Reply, Request, Text
from clew.testing.stage import Stage, real_claude

LIMIT = 0.45
LIMIT_AT = 20
TURNS = (20, 60)
QUICK_TURNS = (8,)
PROMPT_CHARS = 400
REPLY_CHARS = 1500
WORKERS = 2
PAUSE_S = 600.0


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    before_turn: Callable[[Stage, int], None]
    limited: bool  # the limit only applies to conversations that continue while the cache is valid


@dataclass(frozen=True, slots=True)
class Conversation:
    """The costs of one conversation, after each of its turns."""

    accounts: tuple[CacheAccount, ...]
    requests: int

    def cost(self, turns: int) -> float:
        return sum(self.accounts[:turns], CacheAccount()).cost_units

    def read_share(self, turns: int) -> float:
        """The share of the shown tokens that came from the cache."""
        whole = sum(self.accounts[:turns], CacheAccount())
        return whole.read_tokens / whole.prompt_tokens


def in_plain_folder(_stage: Stage, _turn: int) -> None:
    """Nothing happens between the turns."""


def in_changing_repository(stage: Stage, turn: int) -> None:
    """A tracked file changes, a new one appears, and at every third turn all changes are committed."""
    if turn == 0:
        _git(stage, "init", "-q")
    (stage.work / "tracked.txt").write_text(f"line {turn}\n" * 10)
    (stage.work / f"new-{turn}.txt").write_text(f"file {turn}\n")
    if turn % 3 == 0:
        _git(stage, "add", "-A")
        _git(stage, "commit", "-q", "-m", f"change {turn}")


def after_ten_minutes(stage: Stage, turn: int) -> None:
    if turn:
        stage.api.clock.advance(PAUSE_S)


SETTINGS = (
    Setting("plain folder", in_plain_folder, limited=True),
    Setting("repository whose files change every turn", in_changing_repository, limited=True),
    Setting("ten minutes between turns", after_ten_minutes, limited=False),
)


def measure(quick: bool) -> Result:
    lengths = QUICK_TURNS if quick else TURNS
    cases = [(number, resume) for number in range(len(SETTINGS)) for resume in (False, True)]
    tell(f"  {len(cases)} conversations of {lengths[-1]} turns with the real CLI, {WORKERS} at a time")
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = {case: pool.submit(converse, *case, lengths[-1]) for case in cases}
        held = {case: job.result() for case, job in jobs.items()}
    rows, checks = [], []
    for number, setting in enumerate(SETTINGS):
        transcript, resumed = held[number, False], held[number, True]
        for turns in lengths:
            ratio = resumed.cost(turns) / transcript.cost(turns)
            rows.append(
                (
                    setting.name,
                    turns,
                    transcript.cost(turns),
                    resumed.cost(turns),
                    ratio,
                    transcript.read_share(turns),
                    resumed.read_share(turns),
                )
            )
            if setting.limited and turns == LIMIT_AT:
                what = f"resume ÷ transcript, {setting.name}, {turns} turns"
                checks.append(Check(what, ratio, LIMIT, timed=False))
    columns = [
        Column("setting"),
        Column("turns", "d"),
        Column("transcript", ",.0f"),
        Column("resume", ",.0f"),
        Column("resume ÷ transcript", ".1%"),
        Column("read from cache, transcript", ".0%"),
        Column("read from cache, resume", ".0%"),
    ]
    title = f"Cost in token units ({PROMPT_CHARS}-character prompts, {REPLY_CHARS:,}-character replies, input side)"
    return Result("cost", [Table(title, columns, rows)], checks)


def converse(setting: int, resume: bool, turns: int) -> Conversation:
    """One conversation, in its own process, with its own store and model API."""
    with tempfile.TemporaryDirectory() as folder, ModelApi(reply=_reply) as api:
        stage = Stage(Path(folder), api, real_claude())
        return asyncio.run(_converse(stage, SETTINGS[setting], resume, turns))


async def _converse(stage: Stage, setting: Setting, resume: bool, turns: int) -> Conversation:
    accounts = []
    seen = 0
    async with stage.open() as client:
        thread = await client.thread("bench", cwd=stage.work)
        for turn in counted(f"{setting.name}, {'resume' if resume else 'transcript'}", turns):
            setting.before_turn(stage, turn)
            reply = await (await thread.ask(padded(f"Question {turn}:", PROMPT_CHARS), resume=resume))
            if reply.session_resumed != (resume and turn > 0) or len(reply.text) != REPLY_CHARS:
                raise RuntimeError(f"turn {turn} did not go as it should: {reply.reason}, {len(reply.text)} characters")
            requests = stage.api.requests  # the CLI's other requests cost money too
            accounts.append(sum((request.cache for request in requests[seen:]), CacheAccount()))
            seen = len(requests)
    return Conversation(tuple(accounts), seen)


def _reply(request: Request) -> Reply | None:
    if not request.is_main:
        return None
    return Text(padded(f"Answer to {len(request.messages)} messages:", REPLY_CHARS))


def padded(start: str, length: int) -> str:
    filler = " the quick brown fox jumps over the lazy dog"
    return (start + filler * (length // len(filler) + 1))[:length].rstrip().ljust(length, ".")


def _git(stage: Stage, *words: str) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false"]
    environ = {**stage.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *who, *words], cwd=stage.work, env=environ, check=True, capture_output=True)
