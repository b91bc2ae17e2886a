"""A follow-up from end to end, in every way that there is to ask one: which of them find the agent running already.

All ways are measured in one run, in turns, each with a session of its own and the same first turns. The model answers
at once, so what is measured is everything else. Between two turns is a short pause, so that what a way still does after
its answer does not slow down the next one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import peers
from bench.delivery import model_api
from bench.follow_ups import BARE, COLD, HTTP, RESIDENT, Ask, Bare, FollowUp, Took, has_resident, http, resident
from bench.report import Check, Column, Result, Table
from bench.timing import Sample, counted, ratios, tell
from clew.testing.stage import Stage, real_claude

LIMITS = {COLD: 1.15, RESIDENT: 0.35, HTTP: 0.15}
PAUSE_S = 0.1
END_LIMIT_S = 10.0
WARM_UPS = 2  # the first begins the session, the second resumes it
NO_RESIDENT = "`clew ask` with the daemon was left out: this Clew has no `clew up`."
NO_ACP = (
    "`claude-agent-acp` was left out: it is not installed, and a quick run (or one without npm) does not install it."
)


@dataclass
class Measured:
    """The turns of one way."""

    took: list[Took] = field(default_factory=list)
    started: int = 0  # agents, during these turns

    @property
    def all_s(self) -> list[float]:
        return [took.all_s for took in self.took]

    @property
    def first_text_s(self) -> list[float]:
        return [took.first_text_s for took in self.took]


def measure(quick: bool) -> Result:
    rounds = 3 if quick else 30
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as folder, model_api() as api:
        stage = Stage(Path(folder), api, real_claude())
        with ExitStack() as opened:
            measured = _measured(stage, _ways(stage, opened, notes, install=not quick), rounds)
        _check_all_ended(stage)
    return _result(measured, notes)


def _check_all_ended(stage: Stage) -> None:
    """They have been told to end, and may take a moment."""
    deadline = time.monotonic() + END_LIMIT_S
    while left := stage.processes():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(left)} processes were left running")
        time.sleep(0.05)


def _ways(stage: Stage, opened: ExitStack, notes: list[str], *, install: bool) -> list[FollowUp]:
    """Those that this machine and this Clew have, each warmed up. The others are noted."""
    cold = Ask(stage, COLD, "clew-cold")
    _warm_up(cold)
    launch = stage.launches[-1]
    if launch.resumes is None:
        raise RuntimeError("clew ask did not resume: there is nothing to compare")
    bare = Bare(stage, launch.argv)
    _warm_up(bare)
    found: list[FollowUp] = [bare, cold]
    if has_resident():
        found.append(opened.enter_context(resident(stage)))
    else:
        notes.append(NO_RESIDENT)
    found.append(opened.enter_context(http(stage)))
    found.append(opened.enter_context(peers.sdk_client(stage)))
    if command := peers.acp_command(install=install):
        found.append(opened.enter_context(peers.acp_kept(stage, command)))
        found.append(peers.AcpLoaded(stage, command))
    else:
        notes.append(NO_ACP)
    for way in found[2:]:
        _warm_up(way)
    return found


def _warm_up(way: FollowUp) -> None:
    for number in range(WARM_UPS):
        way.turn(f"warm-up {number}")


def _measured(stage: Stage, found: Sequence[FollowUp], rounds: int) -> dict[str, Measured]:
    measured = {way.name: Measured() for way in found}
    tell(f"  {len(found)} ways, {rounds} turns each with the real CLI, about {rounds * len(found) * 0.8:.0f} s")
    for number in counted("rounds", rounds):
        first = number % len(found)  # each is the first one, and each other one's successor, equally often
        for way in (*found[first:], *found[:first]):
            before = _agents_started(stage)
            measured[way.name].took.append(way.turn(f"question {number}"))
            time.sleep(PAUSE_S)
            measured[way.name].started += _agents_started(stage) - before
    return measured


def _agents_started(stage: Stage) -> int:
    """The SDK does not start its agent with `-p`, so `Stage.launches` does not count all of them."""
    return (stage.folder / "launches-claude.log").read_text().count("\037--input-format\037stream-json\037")


def _result(measured: Mapping[str, Measured], notes: Sequence[str]) -> Result:
    bare = measured[BARE]
    plain, plain_first = Sample.of(bare.all_s).median, Sample.of(bare.first_text_s).median
    rows = []
    for name, way in measured.items():
        took, first = Sample.of(way.all_s), Sample.of(way.first_text_s).median
        spread = ratios(way.all_s, bare.all_s).spread(1, ".3f") if way is not bare else None
        whole = (took.median * 1000, took.spread(1000), took.median / plain, spread)
        rows.append((name, took.n, way.started, *whole, first * 1000, first / plain_first))
    columns = [
        Column("follow-up"),
        Column("n", "d"),
        Column("agents started", "d"),
        Column("median ms", ".0f"),
        Column("middle half, ms"),
        Column("× bare", ".3f"),
        Column("middle half of the ratio"),
        Column("first text, median ms", ".0f"),
        Column("first text, × bare", ".3f"),
    ]
    checks = [
        Check(f"{name} ÷ bare CLI", Sample.of(measured[name].all_s).median / plain, limit, timed=True)
        for name, limit in LIMITS.items()
        if name in measured
    ]
    return Result("warm", [Table("A follow-up in every way, interleaved runs", columns, rows)], checks, notes)
