"""How long each phase of a `clew ask` takes, beside the same phases of a bare turn.

The times come from `traced.py`, which records when the turn reaches each of the engine's named points. Imports are
timed separately, in a child process that does nothing else, and are subtracted from the phase in which they happen. The
times by package come from `-X importtime`, whose own cost makes them too high: they show the order, not the sum. The
CPU column is about Clew's own process: a busy machine changes it far less than the wall clock.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.bare import BareConversation, BareTurn
from bench.report import Column, Table
from bench.timing import Sample, counted
from clew.testing.stage import Stage

TRACED = Path(__file__).parent / "traced.py"
PACKAGES_SHOWN = 10

_IMPORT_LINE = re.compile(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)")
_IMPORT_ALL = (
    "import sys, time\n"
    "names = sys.argv[1].split(',')\n"
    "sys.modules.update(dict.fromkeys({'ssl'} - set(names)))\n"  # asyncio is loaded without it
    "began, cpu = time.perf_counter(), time.process_time()\n"
    "for name in names:\n"
    "    __import__(name)\n"
    "print(time.perf_counter() - began, time.process_time() - cpu)\n"
)

AGENT, AGENT_EXIT = "agent: spawn to result, its first event durable", "agent: result to exit, its family looked for"

# Each phase is the time from one point of a turn to the next. The middle two have a counterpart in a bare turn.
STEPS = (
    ("interpreter start", "called", "began"),
    ("open the store, find the thread, prompt durable (imports taken out)", "began", "prompt_stored"),
    ("leases, decision and provisional pin durable", "prompt_stored", "decided"),
    ("command and environment, for which git reads its settings", "decided", "spawning"),
    (AGENT, "spawning", "result_read"),
    (AGENT_EXIT, "result_read", "process_ended"),
    ("answer, pin and last events durable", "process_ended", "outcome_stored"),
    ("leases given back, store and loop closed", "outcome_stored", "returned"),
    ("interpreter exit", "returned", "gone"),
)
WITH_IMPORTS = 1  # the phase in which the imports happen


# By point: wall clock and CPU time. `called` and `gone` are measured from outside.
Points = dict[str, tuple[float, float]]
Row = tuple[str, float, float | None, float, float, float]


@dataclass(frozen=True, slots=True)
class Phases:
    ours: list[Points]
    bare: list[BareTurn]
    imports: list[tuple[float, float]]  # seconds of wall clock and of CPU
    modules: int
    packages: list[tuple[str, int, float]]  # name, modules, milliseconds of its own

    @classmethod
    def measured(cls, stage: Stage, bare: BareConversation, thread: str, number: int) -> Phases:
        ours, plain, imports = [], [], []
        modules: list[str] = []
        _traced(stage, thread, "warm-up of the trace")
        for turn in counted("phases", number):
            points, modules = _traced(stage, thread, f"traced question {turn}")
            ours.append(points)
            plain.append(bare.turn(f"traced question {turn}"))
            imports.append(_import_time(stage, modules))
        return cls(ours, plain, imports, len(modules), _packages(stage, thread))

    def table(self) -> Table:
        """The median of each phase. So their sum is close to the difference of the medians, but not equal to it."""
        bare_of = {
            AGENT: Sample.of(turn.result - turn.began for turn in self.bare).median,
            AGENT_EXIT: Sample.of(turn.exited - turn.result for turn in self.bare).median,
        }
        whole_bare = Sample.of(turn.took_s for turn in self.bare).median
        import_s, import_cpu_s = (Sample.of(values).median for values in zip(*self.imports, strict=True))
        rows: list[Row] = []
        for step, (name, begin, end) in enumerate(STEPS):
            took, cpu = self._between(begin, end, 0), self._between(begin, end, 1)
            if step == WITH_IMPORTS:
                rows.append(_row(f"imports ({self.modules} modules)", import_s, import_cpu_s, 0.0, whole_bare))
                took, cpu = took - import_s, cpu - import_cpu_s
            rows.append(_row(name, took, None if end == "gone" else cpu, bare_of.get(name, 0.0), whole_bare))
        rows.append(_row("all", self._between("called", "gone", 0), None, whole_bare, whole_bare))
        columns = [
            Column("phase"),
            Column("clew, ms", ".1f"),
            Column("its CPU, ms", ".1f"),
            Column("bare, ms", ".1f"),
            Column("difference, ms", "+.1f"),
            Column("of a bare turn", "+.1%"),
        ]
        return Table(f"What the difference is (medians of {len(self.ours)} traced pairs)", columns, rows)

    def _between(self, begin: str, end: str, clock: int) -> float:
        return Sample.of(points[end][clock] - points[begin][clock] for points in self.ours).median

    def imports_table(self) -> Table:
        columns = [Column("package"), Column("modules", "d"), Column("ms of its own, traced", ".1f")]
        return Table("What is imported before the spawn, by `-X importtime`", columns, self.packages[:PACKAGES_SHOWN])


def _row(name: str, ours_s: float, cpu_s: float | None, bare_s: float, whole_s: float) -> Row:
    cpu_ms = None if cpu_s is None else cpu_s * 1000
    return name, ours_s * 1000, cpu_ms, bare_s * 1000, (ours_s - bare_s) * 1000, (ours_s - bare_s) / whole_s


def _traced(stage: Stage, thread: str, prompt: str, *options: str) -> tuple[Points, list[str]]:
    out = stage.folder / "trace.json"
    called = time.time()
    done = subprocess.run(
        [sys.executable, *options, str(TRACED), str(out), "ask", "-t", thread, prompt],
        cwd=stage.work,
        env=stage.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    gone = time.time()
    trace = json.loads(out.read_text())
    if options:
        stage.folder.joinpath("importtime.txt").write_text(done.stderr)
    points = {name: (wall, cpu) for name, (wall, cpu) in trace["points"].items()}
    return {**points, "called": (called, 0.0), "gone": (gone, 0.0)}, trace["modules"]


def _import_time(stage: Stage, modules: list[str]) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL, ",".join(modules)],
        env=stage.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def _packages(stage: Stage, thread: str) -> list[tuple[str, int, float]]:
    """The import time by package, the slowest first: medians of three traces."""
    traces: list[dict[str, list[float]]] = []
    for number in range(3):
        _, modules = _traced(stage, thread, f"import question {number}", "-X", "importtime")
        wanted = set(modules)
        spent: dict[str, list[float]] = defaultdict(list)
        for own_us, name in _IMPORT_LINE.findall(stage.folder.joinpath("importtime.txt").read_text()):
            if name in wanted:
                spent[name.partition(".")[0]].append(int(own_us) / 1000)
        traces.append(spent)
    names = {name for trace in traces for name in trace}
    rows = [
        (f"`{name}`", len(traces[0].get(name, ())), Sample.of(sum(trace.get(name, ())) for trace in traces).median)
        for name in names
    ]
    return sorted(rows, key=lambda row: -row[2])
