"""How long the decision before a turn takes, by the length of the history that the session has absorbed.

`decide` is the pure function alone. The plan is everything that a turn does before its spawn: it reads the outline of
the history and the pins from SQLite, observes the session's file, calls `decide`, and writes prompt turn, attempt, pin
and run in one durable transaction. When the turn ends, the pin is saved with two more turns. For comparison: how long
it takes to read the whole history with its texts, which a plan does only if it sends a transcript.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import Sample, counted, tell
from clew.agents.claude import Claude
from clew.core.decision import Abilities, DecisionCase, DecisionRequest, Policy, Resume, decide
from clew.core.history import Absorbed, History, LongHistory, Role, Turn
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.pins import Mark, Observed, Pin, PinState, Runtime
from clew.core.record import replace
from clew.core.runs.run import Owner
from clew.core.session import SessionState
from clew.core.thread import Thread
from clew.engine.planning.plan import AttemptPlan, Planner
from clew.engine.request import TurnRequest, new_run
from clew.engine.settings import RuntimeContext
from clew.git.command import agent_environment
from clew.store.store import Store, open_store

LENGTHS = (10, 1_000, 10_000)
MODEL = "claude-sonnet-4-5"
OTHER = ThreadId("other")  # a thread whose pin grows
LIMIT_AT = 10_000
LIMITS_MS = {"decide": 5.0, "plan": 15.0}
ABILITIES = Abilities(resume=True, choose_id=True)


@dataclass(frozen=True, slots=True)
class World:
    """A store with one thread of `turns` turns, all of them absorbed by one pinned session."""

    store: Store
    thread: Thread
    runtime: Runtime
    context: RuntimeContext
    history: History
    pin: Pin

    @classmethod
    def of(cls, folder: Path, turns: int) -> World:
        store = open_store(folder / "clew.db")
        thread = Thread(ThreadId("thread"), "bench", str(folder), "claude", MODEL)
        history = tuple(_turn(number) for number in range(turns))
        session = str(uuid.uuid4())
        file = folder / "claude" / "projects" / "any" / f"{session}.jsonl"
        file.parent.mkdir(parents=True)
        file.write_text("{}\n")
        runtime = Runtime("claude", "claude", "Claude Code", True, str(folder / "claude"))
        pin = Pin(
            id=PinId("pin"),
            thread_id=thread.id,
            agent="claude",
            model=MODEL,
            session_id=SessionId(session),
            state=PinState.GOOD,
            work_dir=thread.cwd,
            runtime=runtime,
            absorbed=tuple(Absorbed.of(turn) for turn in history),
            mark=Mark(file.stat().st_size, "entry"),
        )
        with store.transaction():
            store.threads.create(thread)
            for turn in history:
                store.turns.add(thread.id, turn)
            store.pins.save(pin)
            store.threads.create(replace(thread, id=OTHER, name="other"))
            store.pins.save(replace(pin, id=PinId("other"), thread_id=OTHER))
        return cls(store, thread, runtime, RuntimeContext({}, Owner("bench", 1, 1.0), agent_environment), history, pin)

    def decide(self) -> float:
        prompt = _turn(len(self.history))
        request = DecisionRequest("claude", MODEL, self.thread.cwd, self.runtime, prompt)
        observed = Observed(SessionState.SAME, mark=self.pin.mark)
        history = self.store.turns.long_history(self.thread.id)
        assert isinstance(history, LongHistory)
        pins = self.store.pins.of_thread(self.thread.id, standing=history.outline)
        case = DecisionCase(request, history, pins, ABILITIES, observed, Policy(), time.time())
        began = time.perf_counter()
        decision = decide(case)
        took = time.perf_counter() - began
        assert isinstance(decision, Resume) and decision.prompt == prompt.text
        return took

    def pins(self) -> float:
        history = self.store.turns.long_history(self.thread.id)
        assert isinstance(history, LongHistory)
        return _timed(lambda: self.store.pins.of_thread(self.thread.id, standing=history.outline))

    def save(self) -> float:
        """Saves the pin of the other thread as after an answer: with two more turns."""
        [pin] = self.store.pins.of_thread(OTHER)
        grown = replace(pin, absorbed=(*pin.absorbed, *(Absorbed.of(_turn(number)) for number in (0, 1))))
        return _timed(lambda: self.store.pins.save(grown))

    def plan(self) -> tuple[AttemptPlan, float]:
        """Makes one plan and returns its seconds. Afterwards the thread is unchanged."""
        request = TurnRequest(self.thread, "What is next?" * 30)
        run = new_run(request, MODEL, self.context)
        self.store.runs.create(run)
        planner = Planner(
            Claude(),
            ABILITIES,
            self.runtime,
            Policy(),
            self.context,
            request,
            run,
            lambda agent: None,
            lambda store: None,
        )
        began = time.perf_counter()
        plan = planner.first(self.store)
        took = time.perf_counter() - began
        assert isinstance(plan.decision, Resume) and plan.decision.prompt == request.text
        with self.store.transaction():
            self.store.turns.archive(self.thread.id, run.prompt_turn_id, inclusive=True, at=0.0, why="bench")
            self.store.pins.save(replace(plan.pin, pending=None))
        return plan, took


def measure(quick: bool) -> Result:
    rows, checks = [], []
    for turns in LENGTHS:
        tell(f"  a thread of {turns:,} turns")
        with tempfile.TemporaryDirectory() as folder:
            world = World.of(Path(folder), turns)
            samples = _samples(world, 5 if quick else 25)
            world.store.close()
        plan = samples["plan"]
        medians = {name: sample.median * 1000 for name, sample in samples.items()}
        rows.append((turns, plan.n, *medians.values(), plan.spread(1000, ".1f")))
        if turns == LIMIT_AT:
            checks = [
                Check(f"ms of the {name} at {turns:,} turns", medians[name], limit, timed=True)
                for name, limit in LIMITS_MS.items()
            ]
    columns = [
        Column("turns, all absorbed", ",d"),
        Column("n", "d"),
        Column("`decide`, ms", ".3f"),
        Column("outline read, ms", ".2f"),
        Column("pins read, ms", ".2f"),
        Column("pin saved, ms", ".2f"),
        Column("all texts read, ms", ".2f"),
        Column("whole plan, ms", ".1f"),
        Column("plan's middle half, ms"),
    ]
    return Result("decision", [Table("The decision, by the length of the history (medians)", columns, rows)], checks)


def _samples(world: World, number: int) -> dict[str, Sample]:
    names = ("decide", "outline", "pins", "save", "texts", "plan")
    times: dict[str, list[float]] = {name: [] for name in names}
    world.plan()  # warms up the caches
    for _ in counted("plans", number):
        times["decide"].append(world.decide())
        times["outline"].append(_timed(lambda: world.store.turns.long_history(world.thread.id)))
        times["pins"].append(world.pins())
        times["save"].append(world.save())
        times["texts"].append(_timed(lambda: world.store.turns.history(world.thread.id)))
        times["plan"].append(world.plan()[1])
    return {name: Sample.of(values) for name, values in times.items()}


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _turn(number: int) -> Turn:
    """A question of 400 characters, or an answer of 1,500."""
    role = Role.ASSISTANT if number % 2 else Role.USER
    text = f"turn {number} ".ljust(1500 if number % 2 else 400, "x")
    return Turn(TurnId(uuid.uuid4().hex), role, text, "claude", MODEL, created_at=float(number))
