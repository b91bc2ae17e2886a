"""What a review's follow-up costs by resume and by the full prompt, with the real Claude CLI.

The unit is one input token. A review has three rounds; before each follow-up the author fixes a few lines of the diff.
The scripted model API accounts for the prompt cache by the documented rules, so the costs are counted, not timed, and a
quick run gives the same costs. Only the input counts: the answers are the same text either way.

The time is measured too: two reviews take turns, one resumed and one with the full prompt. The model answers at once,
so the time that a real model needs to read is not included.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import Sample, counted, ratios, tell
from clew.api.client import Client
from clew.core.reviews.review import ReviewRound, RoundStatus
from clew.hosts.reviews.reviews import ReviewSpec, RoundOptions
from clew.testing.model.api import ModelApi
from clew.testing.model.prompt_cache import CacheAccount
from clew.testing.model.scripts import Reply, Request, Text
from clew.testing.stage import MODEL, Stage, real_claude

LIMITS = {400: 0.5, 4_000: 0.2}  # by the lines of the diff: the share of the full prompt's cost
ROUNDS = 3
FILES = 8
FINDINGS = 5
FIXED_LINES = 6  # before each follow-up
WORKERS = 2
TIMED_PAIRS = 6  # pairs of reviews of each diff


@dataclass(frozen=True, slots=True)
class Reviewed:
    """The costs of one review, by round."""

    accounts: tuple[CacheAccount, ...]

    @property
    def follow_ups(self) -> CacheAccount:
        return sum(self.accounts[1:], CacheAccount())


@dataclass(frozen=True, slots=True)
class Case:
    """The reviews of one diff: resumed, and with the full prompt."""

    lines: int
    resumed: Reviewed
    full: Reviewed

    @property
    def ratio(self) -> float:
        return self.resumed.follow_ups.cost_units / self.full.follow_ups.cost_units

    @property
    def worst(self) -> float:
        """The highest ratio of a single follow-up."""
        pairs = zip(self.resumed.accounts[1:], self.full.accounts[1:], strict=True)
        return max(resumed.cost_units / full.cost_units for resumed, full in pairs)


@dataclass(frozen=True, slots=True)
class Timed:
    """The seconds of the follow-ups of one diff, by pair of reviews."""

    lines: int
    resumed: tuple[float, ...]
    full: tuple[float, ...]


def measure(quick: bool) -> Result:
    lines = tuple(LIMITS)
    tell(f"  {2 * len(lines)} reviews of {ROUNDS} rounds with the real CLI, {WORKERS} at a time")
    cases = [(number, resume) for number in lines for resume in (True, False)]
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = {case: pool.submit(review, *case) for case in cases}
        held = {case: job.result() for case, job in jobs.items()}
    times = []
    for number in lines:
        pairs = [
            timed(number, 2 if quick else ROUNDS)
            for _ in counted(f"{number:,} lines, pairs", 1 if quick else TIMED_PAIRS)
        ]
        times.append(Timed(number, *(tuple(chain.from_iterable(kind)) for kind in zip(*pairs, strict=True))))
    return result([Case(number, held[number, True], held[number, False]) for number in lines], times)


def result(cases: list[Case], times: list[Timed]) -> Result:
    each = ROUNDS - 1
    rows, checks = [], []
    for case in cases:
        full, resumed = case.full.follow_ups, case.resumed.follow_ups
        rows.append(
            (
                case.lines,
                case.resumed.accounts[0].cost_units,
                full.cost_units / each,
                resumed.cost_units / each,
                case.ratio,
                1 - case.ratio,
                full.read_tokens / full.prompt_tokens,
                resumed.read_tokens / resumed.prompt_tokens,
            )
        )
        what = f"a follow-up resumed ÷ the full prompt, {case.lines:,} lines, the dearest"
        checks.append(Check(what, case.worst, LIMITS[case.lines], timed=False))
    columns = [
        Column("lines of the diff", ",d"),
        Column("first round", ",.0f"),
        Column("follow-up, full prompt", ",.0f"),
        Column("follow-up, resumed", ",.0f"),
        Column("resumed ÷ full", ".1%"),
        Column("less", ".1%"),
        Column("read from cache, full", ".0%"),
        Column("read from cache, resumed", ".0%"),
    ]
    title = (
        f"Cost of a round in token units ({ROUNDS} rounds, {FIXED_LINES} lines fixed before each follow-up, input side)"
    )
    return Result("reviews", [Table(title, columns, rows), _times(times)], checks)


def _times(times: list[Timed]) -> Table:
    rows = []
    for each in times:
        ratio = ratios(each.resumed, each.full)
        full, resumed = Sample.of(each.full).median, Sample.of(each.resumed).median
        rows.append((each.lines, ratio.n, full, resumed, ratio.median, ratio.spread(spec=".2f")))
    columns = [
        Column("lines of the diff", ",d"),
        Column("n", ",d"),
        Column("full prompt, median s", ".2f"),
        Column("resumed, median s", ".2f"),
        Column("resumed ÷ full", ".2f"),
        Column("middle half of the ratio"),
    ]
    return Table("Time of a follow-up, from its start to its end, interleaved", columns, rows)


def review(lines: int, resume: bool) -> Reviewed:
    """One review, in its own process, with its own store and model API."""
    with tempfile.TemporaryDirectory() as folder, ModelApi(reply=_reply) as api:
        stage = Stage(Path(folder), api, real_claude())
        return asyncio.run(_review(stage, lines, resume))


def timed(lines: int, rounds: int) -> tuple[list[float], list[float]]:
    """The seconds of the follow-ups of two reviews with separate stores: one resumed, one with the full prompt."""
    with tempfile.TemporaryDirectory() as folder, ModelApi(reply=_reply) as api:
        stages = {
            resume: Stage(Path(folder, "resumed" if resume else "full"), api, real_claude()) for resume in (True, False)
        }
        return asyncio.run(_timed(stages, lines, rounds))


async def _timed(stages: dict[bool, Stage], lines: int, rounds: int) -> tuple[list[float], list[float]]:
    took: dict[bool, list[float]] = {True: [], False: []}
    reviews: dict[bool, str] = {}
    async with stages[True].open() as one, stages[False].open() as other:
        clients = {True: one, False: other}
        for number in range(1, rounds + 1):
            for resume in (True, False) if number % 2 else (False, True):  # they take turns at being first
                _write(stages[resume], lines, number)
                done = await _round(clients[resume], stages[resume], reviews.get(resume), resume)
                if (done.status, done.session_resumed) != (RoundStatus.DONE, resume and number > 1):
                    raise RuntimeError(f"round {number} did not go as it should: {done.reason}, {done.error}")
                reviews[resume] = done.review_id
                if number > 1 and done.ended_at is not None:
                    took[resume].append(done.ended_at - done.started_at)
    return took[True], took[False]


async def _review(stage: Stage, lines: int, resume: bool) -> Reviewed:
    accounts: list[CacheAccount] = []
    seen = 0
    review_id = None
    async with stage.open() as client:
        for number in range(1, ROUNDS + 1):
            _write(stage, lines, number)
            done = await _round(client, stage, review_id, resume)
            expected = (RoundStatus.DONE, resume and number > 1)
            if (done.status, done.session_resumed) != expected or done.runs != 1:
                raise RuntimeError(
                    f"round {number} did not go as it should: {done.status}, {done.reason}, {done.error}"
                )
            review_id = done.review_id
            requests = stage.api.requests  # the CLI's other requests cost money too
            accounts.append(sum((request.cache for request in requests[seen:]), CacheAccount()))
            seen = len(requests)
    return Reviewed(tuple(accounts))


async def _round(client: Client, stage: Stage, review_id: str | None, resume: bool) -> ReviewRound:
    if review_id is None:
        live = await client.reviews.start(ReviewSpec(str(stage.work), "claude", MODEL, resume=resume))
    else:
        live = await client.reviews.follow(review_id, RoundOptions("I have fixed some of it.", resume=resume))
    return await live.finish()


def _write(stage: Stage, lines: int, number: int) -> None:
    """Writes that many new lines to some files; before each follow-up it fixes a few lines of one of them."""
    each = lines // FILES
    if number == 1:
        _git(stage, "init", "-q")
        _git(stage, "commit", "-q", "--allow-empty", "-m", "nothing yet")
        for file in range(FILES):
            text = "".join(f"value_{line} = compute({file}, {line})  # line {line}\n" for line in range(each))
            (stage.work / f"module_{file}.py").write_text(text)
        return
    path = stage.work / f"module_{number}.py"
    held = path.read_text().splitlines(keepends=True)
    for place in range(FIXED_LINES):
        held[place * each // FIXED_LINES] = f"value_{place} = checked(compute({number}, {place}))\n"
    path.write_text("".join(held))


def _reply(request: Request) -> Reply | None:
    """The same number of findings each time, so that rounds can be compared."""
    if not request.is_main:
        return None
    found = [
        {
            "severity": "medium",
            "file": f"module_{number}.py",
            "line": 3 + number,
            "title": f"The result of compute is not checked, case {number}",
            "detail": "When compute fails, its error is lost and the value is used all the same. " * 2,
            "suggestion": "Check it before it is used.",
        }
        for number in range(FINDINGS)
    ]
    return Text(json.dumps({"summary": "Some calls are not checked.", "findings": found, "earlier": []}))


def _git(stage: Stage, *words: str) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false"]
    environ = {**stage.environ, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *who, *words], cwd=stage.work, env=environ, check=True, capture_output=True)
