"""A follow-up with `clew ask -t NAME` compared with one of the bare Claude CLI: the ratio, and where the difference is.

Both resume a session of their own, in the same work directory and home, through the same launcher, with the same
arguments. The runs alternate, so that other load on the machine affects both alike.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.bare import BareConversation
from bench.phases import Phases
from bench.report import Check, Column, Result, Table
from bench.startup import clew_script
from bench.timing import Sample, counted, ratios, tell
from clew.testing.model.api import ModelApi
from clew.testing.stage import MODEL, Stage, real_claude

LIMIT = 1.25
THREAD = "bench"


@dataclass(frozen=True, slots=True)
class Pair:
    """One conversation through Clew and one without it, on one stage."""

    stage: Stage
    bare: BareConversation

    def clew(self, prompt: str) -> float:
        began = time.perf_counter()
        ask(self.stage, prompt)
        return time.perf_counter() - began


def ask(stage: Stage, prompt: str, *options: str) -> None:
    subprocess.run(
        [str(clew_script()), "ask", "-t", THREAD, *options, prompt],
        cwd=stage.work,
        env=stage.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )


@contextmanager
def conversations() -> Iterator[Pair]:
    """Both are warmed up: the bytecode is written, the binary was probed, and both sessions were resumed once."""
    with tempfile.TemporaryDirectory() as folder, ModelApi() as api:
        stage = Stage(Path(folder), api, real_claude())
        ask(stage, "warm-up 0", "--model", MODEL)
        ask(stage, "warm-up 1")
        launch = stage.launches[-1]
        if launch.resumes is None:
            raise RuntimeError("clew ask did not resume: there is nothing to compare")
        pair = Pair(stage, BareConversation(stage, launch.argv))
        for number in range(2):
            pair.bare.turn(f"warm-up {number}")
        yield pair
        if left := stage.processes():
            raise RuntimeError(f"{len(left)} processes were left running")


def measure(quick: bool) -> Result:
    pairs = 6 if quick else 30
    ours: list[float] = []
    bare: list[float] = []
    with conversations() as pair:
        tell(f"  follow-up: {pairs} pairs of turns with the real CLI, about {pairs * 1.2:.0f} s")
        for number in counted("follow-up", pairs):
            if number % 2:  # they take turns at being first
                ours.append(pair.clew(f"question {number}"))
                bare.append(pair.bare.turn(f"question {number}").took_s)
            else:
                bare.append(pair.bare.turn(f"question {number}").took_s)
                ours.append(pair.clew(f"question {number}"))
        phases = Phases.measured(pair.stage, pair.bare, THREAD, 5 if quick else 20)
    clew, plain = Sample.of(ours), Sample.of(bare)
    ratio = clew.median / plain.median
    spread = ratios(ours, bare).spread(1, ".3f")
    columns = [
        Column("follow-up"),
        Column("n", "d"),
        Column("median ms", ".0f"),
        Column("middle half, ms"),
        Column("× bare", ".3f"),
        Column("middle half of the ratio"),
    ]
    rows = [
        ("bare `claude -p --resume=<id>`", plain.n, plain.median * 1000, plain.spread(1000), 1.0, None),
        ("`clew ask -t NAME`", clew.n, clew.median * 1000, clew.spread(1000), ratio, spread),
    ]
    return Result(
        "overhead",
        [Table("A follow-up, interleaved runs", columns, rows), phases.table(), phases.imports_table()],
        [Check("`clew ask` ÷ bare CLI", ratio, LIMIT, timed=True)],
    )
