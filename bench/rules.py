"""What a project's rules cost over a conversation, and whether each turn still reads the whole prefix from the cache.

The real CLIs have the same 20-turn conversation in four ways: without rules; with the rules as Clew gives them to the
agent; with trust in the project, where the agent reads them itself; and as Clew gives them, where a file of them
changes after the tenth turn. Costs are counted, as in `cost`.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.cost import PROMPT_CHARS, REPLY_CHARS, padded
from bench.report import Check, Column, Result, Table
from bench.timing import counted, tell
from clew.testing.model.api import ModelApi
from clew.testing.model.prompt_cache import CacheAccount
from clew.testing.model.scripts import Reply, Request, Text
from clew.testing.stage import CODEX_MODEL, MODEL, Stage, real_claude, real_codex

TURNS, QUICK_TURNS = 20, 3
RULES_CHARS = 4_000  # of each of the two files
LIMIT = 1.02  # rules as Clew gives them, against trust
MODELS = {"claude": MODEL, "codex": CODEX_MODEL}
NAMES = {"claude": "CLAUDE.md", "codex": "AGENTS.md"}
NONE, GIVEN, TRUSTED, CHANGED = "no rules", "given by Clew", "trust", "given by Clew, one file changes once"


@dataclass(frozen=True, slots=True)
class Conversation:
    agent: str
    way: str
    accounts: tuple[CacheAccount, ...]  # of each turn
    broken: int  # turns that did not read the whole prompt of the turn before from the cache

    @property
    def cost(self) -> float:
        return sum(self.accounts, CacheAccount()).cost_units


def measure(quick: bool) -> Result:
    turns = QUICK_TURNS if quick else TURNS
    agents = ("claude",) if quick else tuple(MODELS)
    tell(f"  conversations of {turns} turns with the real CLIs")
    found = [converse(agent, way, turns) for agent in agents for way in (NONE, GIVEN, TRUSTED, CHANGED)]
    costs = {(each.agent, each.way): each.cost for each in found}
    rows = [
        (each.agent, each.way, turns, each.cost, each.cost / costs[each.agent, NONE], each.broken) for each in found
    ]
    columns = [
        *(Column("agent"), Column("rules"), Column("turns", "d"), Column("cost", ",.0f")),
        *(Column("÷ no rules", ".1%"), Column("turns that did not read the whole prefix", "d")),
    ]
    dearest = max(costs[agent, GIVEN] / costs[agent, TRUSTED] for agent in agents)
    broken = sum(each.broken for each in found)
    checks = [
        Check("turns that did not read the whole prefix from the cache", broken, 0, timed=False),
        Check("given by Clew ÷ trust, the dearer agent", dearest, LIMIT, timed=False),
    ]
    title = f"Cost in token units (two files of rules with {RULES_CHARS:,} characters each, input side)"
    return Result("rules", [Table(title, columns, rows)], checks)


def converse(agent: str, way: str, turns: int) -> Conversation:
    with tempfile.TemporaryDirectory() as folder, ModelApi(reply=_reply) as api:
        return asyncio.run(_converse(Stage(Path(folder), api, real_claude(), codex=real_codex()), agent, way, turns))


async def _converse(stage: Stage, agent: str, way: str, turns: int) -> Conversation:
    work = stage.work / "sub"
    (stage.work / ".git").mkdir(parents=True)
    (stage.work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    work.mkdir()
    for folder in (stage.work, work) if way != NONE else ():
        (folder / NAMES[agent]).write_text(padded("Rules:", RULES_CHARS))
    accounts: list[CacheAccount] = []
    async with stage.open(agent=agent) as client:
        thread = await client.thread("bench", cwd=work, trust="project" if way == TRUSTED else "user")
        for turn in counted(f"{agent}, {way}", turns):
            if way == CHANGED and turn == turns // 2:
                (work / NAMES[agent]).write_text(padded("Other rules:", RULES_CHARS))
            seen = len(stage.api.main_requests)
            reply = await (await thread.ask(padded(f"Question {turn}:", PROMPT_CHARS)))
            if reply.session_resumed != (turn > 0) or len(reply.text) != REPLY_CHARS:
                raise RuntimeError(f"turn {turn} did not go as it should: {reply.reason}, {len(reply.text)} characters")
            [request] = stage.api.main_requests[seen:]
            accounts.append(request.cache)
    broken = sum(after.read_tokens < before.prompt_tokens for before, after in pairwise(accounts))
    return Conversation(agent, way, tuple(accounts), broken)


def _reply(request: Request) -> Reply | None:
    return Text(padded(f"Answer to {len(request.messages)} messages:", REPLY_CHARS)) if request.is_main else None
