"""Sessions by key: Clew's table compared with a JSON file that is rewritten on each change (temporary file, rename).

The first part measures the speed by size: one process sets the sessions of existing keys. The second part counts how
many writes survive when eight processes write at once, each with its own keys. Both are durable: the file and its
folder are synced, as the store is.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bench.report import Check, Column, Result, Table
from bench.timing import tell
from clew.core.hooks.hook import session_key
from clew.core.ids import ThreadId
from clew.core.thread import Thread
from clew.store.rows.hooks import HookKey
from clew.store.store import Store, open_store

SIZES = (1_000, 10_000, 100_000)
PROCESSES = 8
WRITES = 50  # by each process
REPO = "charles/peon"


def key_of(number: int) -> str:
    return session_key("boss", REPO, number + 1)


def rewrite(path: Path, key: str, value: str) -> None:
    """Reads the file, changes it, writes a temporary file beside it, and renames that."""
    entries = json.loads(path.read_bytes()) if path.exists() else {}
    entries[key] = value
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    with beside.open("w") as handle:
        handle.write(json.dumps(entries))
        handle.flush()
        os.fsync(handle.fileno())
    beside.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def save(store: Store, number: int, thread: str) -> None:
    store.hooks.save_key(HookKey(key_of(number), "boss", REPO, number + 1, None, thread, None, 0.0, time.time()))


def measure(quick: bool) -> Result:
    for_s, sizes = (0.3, SIZES[:2]) if quick else (3.0, SIZES)
    rows = [_by_size(size, for_s) for size in sizes]
    kept_file, file_s = _at_once(_write_file)
    kept_store, store_s = _at_once(_write_store)
    asked = PROCESSES * WRITES
    speed = Table(
        "Setting one session, by how many there are (one process, each durable)",
        [
            Column("sessions", ",d"),
            Column("file, a second", ",.1f"),
            Column("table, a second", ",.0f"),
            Column("table ÷ file", ",.0f"),
        ],
        rows,
    )
    left = Table(
        f"{asked} sets from {PROCESSES} processes at once, each of a key of its own",
        [Column("way"), Column("there afterwards", "d"), Column("lost", "d"), Column("took, s", ".2f")],
        [("file", kept_file, asked - kept_file, file_s), ("table", kept_store, asked - kept_store, store_s)],
    )
    return Result("sessions", [speed, left], [Check("sets that the table lost", asked - kept_store, 0, timed=False)])


def _by_size(size: int, for_s: float) -> tuple[object, ...]:
    tell(f"  {size:,} sessions")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.json"
        path.write_text(json.dumps({key_of(n): f"{n:032x}" for n in range(size)}))
        by_file = _rate(lambda n: rewrite(path, key_of(n % size), f"{n:032x}"), for_s)
        with open_store(Path(folder) / "clew.db") as store:
            with store.transaction():
                store.threads.create(Thread(ThreadId("t"), "t", "/", "claude", "model"))
                for number in range(size):
                    save(store, number, "t")
            by_table = _rate(lambda n: save(store, n % size, "t"), for_s)
    return size, by_file, by_table, by_table / by_file


def _rate(work: Callable[[int], None], for_s: float) -> float:
    done, began = 0, time.perf_counter()
    while done < 2 or time.perf_counter() - began < for_s:
        work(done * 7919)
        done += 1
    return done / (time.perf_counter() - began)


def _at_once(write: Callable[[Path, int, threading.Barrier], None]) -> tuple[int, float]:
    """How many writes are there afterwards, and how long they took."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name, context.Manager() as manager:
        folder = Path(name)
        with open_store(folder / "clew.db") as store:
            store.threads.create(Thread(ThreadId("t"), "t", "/", "claude", "model"))
        start = manager.Barrier(PROCESSES)
        began = time.perf_counter()
        with ProcessPoolExecutor(PROCESSES, mp_context=context) as pool:
            for job in [pool.submit(write, folder, number, start) for number in range(PROCESSES)]:
                job.result()
        took = time.perf_counter() - began
        if write is _write_file:
            return len(json.loads((folder / "sessions.json").read_bytes())), took
        with open_store(folder / "clew.db") as store:
            return len(store.hooks.keys()), took


def _write_file(folder: Path, number: int, start: threading.Barrier) -> None:
    start.wait()
    for place in range(WRITES):
        rewrite(folder / "sessions.json", key_of(number * WRITES + place), "session")


def _write_store(folder: Path, number: int, start: threading.Barrier) -> None:
    with open_store(folder / "clew.db") as store:
        start.wait()
        for place in range(WRITES):
            save(store, number * WRITES + place, "t")
