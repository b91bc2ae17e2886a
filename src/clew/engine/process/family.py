"""Which processes belong to an attempt, and ending all of them.

An agent's tools start processes in sessions of their own, so the agent's process group does not hold them, and when the
agent dies they become orphans that no parent leads to. So every attempt carries a mark in its environment, which all
that it starts inherit, and on Linux there is a process above it that bears the mark in its name; together with the tree
of parents that finds the whole family, also after Clew itself died and another Clew cleans up. A pid alone proves
nothing (they are reused): its start time is recorded beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clew.core.record import Record

MARK = "CLEW_ATTEMPT"
POLL_S = 0.02

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self" / "stat").exists()


class Process(Record):
    pid: int
    parent: int
    started: float  # in units of this machine; only ever compared for equality
    state: str  # "Z": dead already, waiting to be reaped
    name: str = ""


def started_at(pid: int) -> float | None:
    """When the process began, or None when there is none."""
    process = _read(pid)
    return None if process is None or process.state == "Z" else process.started


def is_alive(pid: int, started: float | None) -> bool:
    now = started_at(pid)
    return now is not None and (started is None or now == started)


def launcher_name(mark: str) -> str:
    """Of the process above an agent, which has not the agent's environment (launcher.py). As long as Linux allows."""
    return f"clew-{hashlib.blake2b(mark.encode(), digest_size=5).hexdigest()}"


def family(mark: str, root: int | None = None, since: float | None = None) -> list[Process]:
    """Every live process that carries the mark or descends from one that does (or from `root`), parents first.

    `since` is when the first of them started: older ones need no second look.
    """
    table = {
        process.pid: process
        for process in _table()
        if process.state != "Z" and (since is None or process.started >= since)
    }
    above = launcher_name(mark)
    members = {pid for pid, each in table.items() if pid == root or each.name == above or _carries(pid, mark)}
    grown = True
    while grown:
        more = {pid for pid, process in table.items() if process.parent in members and pid not in members}
        members |= more
        grown = bool(more)
    members.discard(os.getpid())
    return sorted((table[pid] for pid in members if pid in table), key=lambda process: (process.started, process.pid))


async def end_family(
    mark: str, root: int | None = None, since: float | None = None, *, grace_s: float, orphaned: bool = False
) -> int:
    """Ends all of them: the agent (`root`) first, and the others when it is gone. Returns how many there were.

    An agent that sees its tool die tells the model, and is told what to do next: so it goes before its tools. Its owner
    gives it a TERM and the grace, to write down what it knows. `orphaned`: nobody owns it, its owner died, and not one
    more step of it is wanted, so it is killed at once. Tools are always asked first, they may hold locks. What is left
    after the grace is killed; cancelled, there is no grace.
    """
    found = family(mark, root, since)
    agent = [process for process in found if process.pid == root]
    try:
        if agent:
            _signal(agent, signal.SIGKILL if orphaned else signal.SIGTERM)
            await _gone(agent, grace_s)
            _signal(agent, signal.SIGKILL)
        _signal(found, signal.SIGTERM)
        await _gone(found, grace_s)
    finally:
        for _ in range(3):  # a dying shell may have started one more
            left = {process.pid: process for process in (*found, *family(mark, root, since))}
            live = [process for process in left.values() if is_alive(process.pid, process.started)]
            if not live:
                break
            _signal(live, signal.SIGKILL)
    return len(found)


async def ended(process: asyncio.subprocess.Process) -> None:
    """Waits for a process that was killed, and closes its pipes first.

    `Process.wait` also waits until its pipes end, and asyncio stops reading a pipe when nobody takes what it has read.
    """
    transport: Any = getattr(process, "_transport", None)  # asyncio has no public way to the pipes
    for number in (0, 1, 2) if transport is not None else ():
        pipe = transport.get_pipe_transport(number)
        if pipe is not None and not pipe.is_closing():
            pipe.close()
    await process.wait()


async def _gone(processes: list[Process], limit_s: float) -> None:
    """Waits for it, so long at most."""
    waited = 0.0
    while waited < limit_s and any(is_alive(process.pid, process.started) for process in processes):
        await asyncio.sleep(POLL_S)
        waited += POLL_S


def _signal(processes: list[Process], number: signal.Signals) -> None:
    for process in processes:
        if is_alive(process.pid, process.started):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, number)


def _carries(pid: int, mark: str) -> bool:
    wanted = f"{MARK}={mark}"
    if _HAS_PROC:
        try:
            return wanted.encode() in _content(pid, "environ").split(b"\0")
        except OSError:
            return False
    import psutil

    try:
        return bool(psutil.Process(pid).environ().get(MARK) == mark)
    except (psutil.Error, OSError):
        return False


def _table() -> Iterator[Process]:
    if _HAS_PROC:
        pids = [int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit()]
    else:
        import psutil

        pids = psutil.pids()
    for pid in pids:
        process = _read(pid)
        if process is not None:
            yield process


def _read(pid: int) -> Process | None:
    if not _HAS_PROC:
        return _read_elsewhere(pid)
    try:
        stat = _content(pid, "stat")
    except OSError:
        return None
    name, rest = stat[stat.index(b"(") + 1 :].rsplit(b")", 1)  # the name may hold anything
    fields = rest.split()
    return Process(pid, int(fields[1]), float(fields[19]), fields[0].decode(), name.decode("utf-8", "replace"))


def _content(pid: int, name: str) -> bytes:
    # All of the machine's processes are read after every answer, and a Path takes half as long again.
    with open(f"{_PROC}/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def _read_elsewhere(pid: int) -> Process | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state = "Z" if process.status() == psutil.STATUS_ZOMBIE else "R"
            return Process(pid, process.ppid(), process.create_time(), state)
    except (psutil.Error, OSError):
        return None
