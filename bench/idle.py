"""What a daemon costs while nobody uses it: its memory and its CPU time, without threads and with 20,000.

Both daemons are measured during the same time. Each has answered the page's list of threads before, so that what only
the first request loads or reads is not missing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.delivery import Daemon, serving
from bench.report import Column, Result, Table
from bench.threads import TURNS, filled
from bench.timing import tell
from clew.testing import scripted_agent
from clew.testing.model.api import ModelApi
from clew.testing.stage import Stage

THREADS = 20_000


@dataclass(frozen=True, slots=True)
class Use:
    """What a process and everything that it has started use."""

    processes: int
    memory_bytes: int  # resident
    cpu_s: float  # since their start

    @classmethod
    def of(cls, pid: int) -> Use:
        family = _family(pid)
        pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in family)
        ticks = sum(sum(map(int, _fields(each)[11:13])) for each in family)
        return cls(len(family), pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK"))


def measure(quick: bool) -> Result:
    seconds, settled_s, threads = (10.0, 1.0, 1_000) if quick else (60.0, 5.0, THREADS)
    with _daemon(0) as empty, _daemon(threads) as full:
        daemons = {0: empty, threads: full}
        for daemon in daemons.values():
            daemon.get("/api/threads")
        time.sleep(settled_s)
        tell(f"  idle for {seconds:.0f} s")
        before, began = [Use.of(daemon.pid) for daemon in daemons.values()], time.monotonic()
        time.sleep(seconds)
        after, took_s = [Use.of(daemon.pid) for daemon in daemons.values()], time.monotonic() - began
    rows = [
        (count, now.processes, now.memory_bytes / 1e6, (now.cpu_s - then.cpu_s) / took_s * 60)
        for count, then, now in zip(daemons, before, after, strict=True)
    ]
    columns = (
        Column("threads", ","),
        Column("processes", "d"),
        Column("memory, MB", ".0f"),
        Column("CPU, seconds a minute", ".2f"),
    )
    return Result("idle", [Table(f"An idle `clew serve`, for {seconds:.0f} s, {TURNS} turns a thread", columns, rows)])


@contextmanager
def _daemon(threads: int) -> Iterator[Daemon]:
    with tempfile.TemporaryDirectory() as folder, ModelApi() as api:
        stage = Stage(Path(folder), api, scripted_agent.install(Path(folder) / "agent"))
        stage.clew_home.mkdir(mode=0o700)
        if threads:
            tell(f"  {threads:,} threads")
            filled(stage.clew_home / "clew.db", threads).close()
        with serving(stage) as daemon:
            yield daemon


def _family(pid: int) -> list[int]:
    """The process and its descendants."""
    parents = {each: int(_fields(each)[1]) for each in _processes()}
    found = [pid]
    for parent in found:  # it grows meanwhile
        found += [each for each, of in parents.items() if of == parent]
    return found


def _processes() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _fields(pid: int) -> list[str]:
    """What `/proc/PID/stat` has behind the name: the second is the parent; 12 and 13 are the CPU time, in ticks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # it has ended since it was listed
        return ["0"] * 50
