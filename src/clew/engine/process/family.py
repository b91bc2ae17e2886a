"""The family of an attempt: finds and ends all processes that belong to it.

An agent's tools start processes in sessions of their own, so the agent's process group does not contain them. When the
agent dies they become orphans, and no chain of parents leads to them. So every attempt puts a mark into its
environment, which all its processes inherit; and on Linux the parent process of the agent has the mark in its name.
Mark, name and parents together identify the whole family, also for another Clew that cleans up after a crash. Pids are
reused, so each is recorded with the start time of its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from clew.core.hashing import blake2b
from clew.core.record import Record

MARK = "CLEW_ATTEMPT"
POLL_S = 0.02

_PROC = Path("/proc")
_HAS_PROC = (_PROC / "self" / "stat").exists()


class Process(Record):
    pid: int
    parent: int
    started: float  # in units of this machine: only comparisons make sense
    state: str  # "Z": it has ended and waits to be reaped
    name: str = ""
    session: int = 0  # the process session: Ctrl-C and hang-ups reach one session; 0: not known


def started_at(pid: int) -> float | None:
    """When the process started; None: there is no such process."""
    process = _read(pid)
    return None if process is None or process.state == "Z" else process.started


def is_alive(pid: int, started: float | None) -> bool:
    now = started_at(pid)
    return now is not None and (started is None or now == started)


def is_stopped(pid: int, started: float | None) -> bool:
    """Whether the process does not run: it is suspended, has ended, or another one has its pid now."""
    process = _read(pid)
    return process is None or process.state in "TtZX" or (started is not None and process.started != started)


def descendants(top: int) -> list[Process]:
    """The live processes below `top`, without itself."""
    found: list[Process] = []
    above = [top]
    while above:
        below = [process for pid in _children(above.pop()) if (process := _read(pid)) is not None]
        found += [process for process in below if process.state != "Z"]
        above += [process.pid for process in below]
    return found


def rss_bytes(pid: int) -> int:
    """The memory that the process holds, including what it shares with others; 0: there is no such process."""
    if not _HAS_PROC:
        return _rss_elsewhere(pid)
    try:
        return int(_content(pid, "statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def launcher_name(mark: str) -> str:
    """The name of an agent's parent process (launcher.py), which lacks the marked environment. At most 15 bytes."""
    return f"clew-{blake2b(mark.encode(), digest_size=5).hexdigest()}"


def is_parent_of_agent(top: int, started: float, agent: int, mark: str) -> bool:
    """Whether `top` is the process that the launcher made for the agent of that attempt, and is still its parent."""
    above, process = _read(top), _read(agent)
    return (
        above is not None
        and process is not None
        and (above.started, above.name) == (started, launcher_name(mark))
        and process.parent == top
    )


def family(mark: str, root: int | None = None, since: float | None = None) -> list[Process]:
    """Every live process that has the mark, in its environment or its name, or is `root`, and their descendants.

    Older processes come first. `since` is the start time of the first of them: what started earlier is ignored.
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
    """Ends the agent (`root`) first, and then the other processes. Returns how many there were.

    An agent that sees its tool die reports that to the model and keeps working, so the agent ends before its tools. It
    gets a SIGTERM and time (`grace_s`) to save its state. `orphaned`: its owner has died, so it is killed at once,
    before it takes another step. Tools always get a SIGTERM first, because they may hold locks. What is left after
    `grace_s` is killed; if this call is cancelled, it is killed at once.
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
        for _ in range(3):  # a dying shell may have started another process
            left = {process.pid: process for process in (*found, *family(mark, root, since))}
            live = [process for process in left.values() if is_alive(process.pid, process.started)]
            if not live:
                break
            _signal(live, signal.SIGKILL)
    return len(found)


async def _gone(processes: list[Process], limit_s: float) -> None:
    """Waits until the processes have ended, but no longer than `limit_s`."""
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


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(_PROC / str(pid) / "task")  # noqa: PTH208 - twice as fast as Path.iterdir
        return [int(child) for thread in threads for child in _content(pid, f"task/{thread}/children").split()]
    except (FileNotFoundError, ProcessLookupError):  # it has ended; or the kernel was built without these files
        return [process.pid for process in _table() if process.parent == pid]


def _read(pid: int) -> Process | None:
    if not _HAS_PROC:
        return _read_elsewhere(pid)
    try:
        stat = _content(pid, "stat")
    except OSError:
        return None
    name, rest = stat[stat.index(b"(") + 1 :].rsplit(b")", 1)  # the name may contain spaces and brackets
    fields = rest.split()
    text = name.decode("utf-8", "replace")
    return Process(pid, int(fields[1]), float(fields[19]), fields[0].decode(), text, int(fields[3]))


def _content(pid: int, name: str) -> bytes:
    # Every process of the machine is read after every answer. A Path would make that 50% slower.
    with open(f"{_PROC}/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
        return file.read()


def _read_elsewhere(pid: int) -> Process | None:
    import psutil

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state = {psutil.STATUS_ZOMBIE: "Z", psutil.STATUS_STOPPED: "T"}.get(process.status(), "R")
            return Process(pid, process.ppid(), process.create_time(), state, session=os.getsid(pid))
    except (psutil.Error, OSError):
        return None


def _rss_elsewhere(pid: int) -> int:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except (psutil.Error, OSError):
        return 0
