"""Durable operations of the store per second (`synchronous=FULL`): by one process, and by four at once on one file.

The table also has the speed of the disk itself: small writes with fsync to a plain file. Each of the four processes has
its own thread, runs and pins, but all share the thread that turns are added to. Afterwards everything is counted in the
database.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import tell
from clew.core.history import Absorbed, Role, Turn
from clew.core.ids import PinId, RunId, SessionId, ThreadId, TurnId
from clew.core.pins import Pin, PinState, Runtime
from clew.core.record import replace
from clew.core.runs.events import TextStreamed
from clew.core.runs.run import Run, RunStatus
from clew.core.thread import Thread
from clew.errors import ClewError
from clew.store.store import Store, open_store

PROCESSES = 4
ABSORBED = 100  # turns that a pin has absorbed when it is first saved
SAVES = 100  # how often one pin is saved before the next one
BATCH = 50
SHARED = ThreadId("shared")
WORDS = TextStreamed("a piece of an answer, as they come")


class StoreUser:
    """The records of one process, and the operations on them: each call is one operation."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.mark = uuid.uuid4().hex
        self.number = 0
        self.thread = Thread(ThreadId(self.mark), self.mark, "/", "claude", "model")
        self.run = Run(RunId(self.mark), self.thread.id, TurnId("t"), "prompt", "claude", "model", RunStatus.QUEUED)
        self.pin = Pin(
            id=PinId(self.mark),
            thread_id=self.thread.id,
            agent="claude",
            model="model",
            session_id=SessionId(self.mark),
            state=PinState.GOOD,
            work_dir="/",
            runtime=Runtime("claude", "claude", "Claude Code", True, "/"),
            absorbed=tuple(Absorbed(TurnId(f"{self.mark}{n}"), f"{n:024d}") for n in range(ABSORBED)),
        )
        with store.transaction():
            store.threads.create(self.thread)
            store.runs.create(self.run)
            store.pins.save(self.pin)

    def add_turn(self) -> None:
        turn = Turn(TurnId(uuid.uuid4().hex), Role.USER, "x" * 400, "claude", "model", created_at=time.time())
        self.store.turns.add(SHARED, turn)

    def append_event(self) -> None:
        self._append(1)

    def append_events(self) -> None:
        self._append(BATCH)

    def cancel_requested(self) -> None:
        self.store.runs.cancel_requested(self.run.id)

    def save_pin(self) -> None:
        """Two more turns are absorbed, as after a turn. A new pin after `SAVES` calls keeps the list short."""
        self.number += 1
        if self.number % SAVES == 0:
            fresh = f"{self.mark}{self.number}"
            self.pin = replace(self.pin, id=PinId(fresh), absorbed=self.pin.absorbed[:ABSORBED])
        more = (Absorbed(TurnId(f"{self.number}{n}"), f"{self.number:024d}") for n in "ab")
        self.pin = replace(self.pin, absorbed=(*self.pin.absorbed, *more))
        self.store.pins.save(self.pin)

    def update_run(self) -> None:
        self.number += 1
        self.store.runs.update(self.run.id, cost_usd=float(self.number))

    def _append(self, size: int) -> None:
        first = self.number + 1
        self.number += size
        self.store.events.append(self.run.id, [(first + n, 0.0, WORDS) for n in range(size)])


OPERATIONS: dict[str, Callable[[StoreUser], None]] = {
    "`add_turn`": StoreUser.add_turn,
    "`append_events`, 1": StoreUser.append_event,
    f"`append_events`, {BATCH}": StoreUser.append_events,
    "`save_pin`, 100 to 300 absorbed, 2 of them new": StoreUser.save_pin,
    "`update_run`": StoreUser.update_run,
    "`cancel_requested` (reads)": StoreUser.cancel_requested,
}


@dataclass(frozen=True, slots=True)
class Tally:
    done: int
    errors: int
    took_s: float


def measure(quick: bool) -> Result:
    for_s = 0.3 if quick else 1.5
    rows, errors, lost = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        disk = _disk(Path(folder) / "plain", for_s)
        for name in OPERATIONS:
            tell(f"  {name.replace('`', '')}: 1 process, then {PROCESSES}")
            (alone,), missing_alone = _tallies(name, 1, for_s)
            together, missing = _tallies(name, PROCESSES, for_s)
            total = sum(tally.done for tally in together)
            rate_alone = alone.done / alone.took_s
            rate = total / max(tally.took_s for tally in together)
            failed = alone.errors + sum(tally.errors for tally in together)
            errors, lost = errors + failed, lost + missing + missing_alone
            rows.append((name, alone.done, rate_alone, rate_alone / disk, total, rate, rate / rate_alone, failed))
    columns = [
        Column("operation"),
        Column("n, 1 process", ",d"),
        Column("a second", ",.0f"),
        Column("× disk", ".2f"),
        Column(f"n, {PROCESSES} processes", ",d"),
        Column("a second, together", ",.0f"),
        Column("× 1 process", ".2f"),
        Column("errors", "d"),
    ]
    title = f"The store, operations a second (the disk: {disk:,.0f} small writes with fsync a second)"
    checks = [
        Check("errors, all processes", errors, 0, timed=False),
        Check("writes that were reported done and are not there", lost, 0, timed=False),
    ]
    return Result("store", [Table(title, columns, rows)], checks)


def _tallies(name: str, processes: int, for_s: float) -> tuple[list[Tally], int]:
    """What each process did in one new database, and how many of their writes are missing there."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Manager() as manager:
        path = Path(folder) / "clew.db"
        with open_store(path) as store:
            store.threads.create(Thread(SHARED, "shared", "/", "claude", "model"))
        start = manager.Barrier(processes)
        with ProcessPoolExecutor(processes, mp_context=context) as pool:
            jobs = [pool.submit(_worked, path, name, start, for_s) for _ in range(processes)]
            tallies = [job.result() for job in jobs]
        with open_store(path) as store:
            return tallies, _missing(store, name, sum(tally.done for tally in tallies))


def _worked(path: Path, name: str, start: threading.Barrier, for_s: float) -> Tally:
    work = OPERATIONS[name]
    done = errors = 0
    with open_store(path) as store:
        user = StoreUser(store)
        work(user)
        start.wait()
        began = time.perf_counter()
        while time.perf_counter() - began < for_s:
            try:
                work(user)
                done += 1
            except ClewError:
                errors += 1
        return Tally(done, errors, time.perf_counter() - began)


def _missing(store: Store, name: str, done: int) -> int:
    """Counts only operations that add a row with each call. Each process did one more before the start."""
    threads = [thread for thread in store.threads.recent() if thread.id != SHARED]
    if name.startswith("`add_turn`"):
        return done + len(threads) - len(store.turns.history(SHARED))
    if name.startswith("`append_events`"):
        size = BATCH if str(BATCH) in name else 1
        held = sum(len(store.events.of_run(run.id)) for run in store.runs.newest())
        return (done + len(threads)) * size - held
    if name.startswith("`save_pin`"):
        held = sum(len(pin.absorbed) - ABSORBED for thread in threads for pin in store.pins.of_thread(thread.id))
        return (done + len(threads)) * 2 - held
    if name.startswith("`update_run`"):
        return done + len(threads) - round(sum(run.cost_usd for run in store.runs.newest()))
    return 0


def _disk(path: Path, for_s: float) -> float:
    """Small writes with fsync per second."""
    done = 0
    block = b"x" * 4096
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        began = time.perf_counter()
        while time.perf_counter() - began < for_s:
            os.write(handle, block)
            os.fsync(handle)
            done += 1
        return done / (time.perf_counter() - began)
    finally:
        os.close(handle)
