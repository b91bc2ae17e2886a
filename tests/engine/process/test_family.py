"""The family of an attempt: all its processes are found and ended, and no other process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.engine.process.family import MARK, end_family, family, is_alive, started_at

pytestmark = pytest.mark.process

Start = Callable[..., subprocess.Popen[bytes]]
LIMIT_S = 60.0

SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"
# Starts a grandchild in a session of its own, prints its pid when that has started, and then continues or exits.
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True, env=%s)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(%s)
os._exit(0)
"""

# Ends slowly on SIGTERM, and prints at its end whether its child is alive.
SLOW_AGENT = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE)
child.stdout.readline()
def asked(*_):
    time.sleep(0.3)
    open(sys.argv[2], "a").write("agent went: " + ("before its tool" if child.poll() is None else "after its tool"))
    os._exit(0)
signal.signal(signal.SIGTERM, asked)
print(child.pid, flush=True)
time.sleep(600)
"""
POLITE_TOOL = """
import os, signal, sys, time
def asked(*_):
    open(sys.argv[1], "a").write("; tool was asked")
    os._exit(0)
signal.signal(signal.SIGTERM, asked)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def mark() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python code with a mark and waits for its first line. At the end of the test its processes are ended."""
    started: list[subprocess.Popen[bytes]] = []
    strays: list[tuple[int, float | None]] = []

    def run(code: str, *args: str, mark: str | None) -> subprocess.Popen[bytes]:
        environ = {key: value for key, value in os.environ.items() if key != MARK}
        if mark is not None:
            environ[MARK] = mark
        process = subprocess.Popen([sys.executable, "-c", code, *args], env=environ, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        word = process.stdout.readline().strip()
        if word.isdigit():
            process.grandchild = int(word)  # type: ignore[attr-defined]
            strays.append((int(word), started_at(int(word))))
        return process

    yield run
    for pid, began in strays:
        if began is not None and is_alive(pid, began):
            os.kill(pid, signal.SIGKILL)
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def parent(*, environ: str = "None", lives_s: int = 600) -> str:
    return PARENT % (environ, lives_s)


def pids(mark: str, root: int | None = None) -> set[int]:
    return {process.pid for process in family(mark, root)}


async def until(holds: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    async with asyncio.timeout(limit_s):
        while not holds():
            await asyncio.sleep(0.01)


class TestFamily:
    def test_the_marked_process_is_found_and_no_other(self, start: Start, mark: str) -> None:
        ours = start(SLEEPER, mark=mark)
        start(SLEEPER, mark=mark + "0")
        start(SLEEPER, mark=None)
        assert pids(mark) == {ours.pid}

    def test_a_grandchild_in_a_session_of_its_own_is_found(self, start: Start, mark: str) -> None:
        process = start(parent(), SLEEPER, mark=mark)
        assert pids(mark) == {process.pid, process.grandchild}  # type: ignore[attr-defined]

    def test_a_process_that_dropped_the_mark_is_found_by_its_parents(self, start: Start, mark: str) -> None:
        process = start(parent(environ="{}"), SLEEPER, mark=mark)
        assert pids(mark) == {process.pid, process.grandchild}  # type: ignore[attr-defined]

    def test_an_unmarked_root_leads_to_its_children(self, start: Start, mark: str) -> None:
        process = start(parent(), SLEEPER, mark=None)
        assert pids(mark, process.pid) == {process.pid, process.grandchild}  # type: ignore[attr-defined]

    def test_an_orphan_is_found_after_its_parent_has_died(self, start: Start, mark: str) -> None:
        process = start(parent(lives_s=0), SLEEPER, mark=mark)
        process.wait(LIMIT_S)
        assert pids(mark) == {process.grandchild}  # type: ignore[attr-defined]

    def test_dead_processes_do_not_count(self, start: Start, mark: str) -> None:
        process = start(SLEEPER, mark=mark)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped yet
        assert pids(mark) == set()
        assert started_at(process.pid) is None

    def test_no_process_has_an_unknown_mark(self) -> None:
        assert family("no such mark") == []

    def test_our_own_process_is_never_in_the_family(self, start: Start, mark: str) -> None:
        child = start(SLEEPER, mark=None)
        found = pids(mark, os.getpid())
        assert os.getpid() not in found
        assert child.pid in found


class TestIdentity:
    def test_the_start_time_tells_a_reused_pid_from_the_real_one(self, start: Start) -> None:
        process = start(SLEEPER, mark=None)
        began = started_at(process.pid)
        assert began is not None
        assert is_alive(process.pid, began)
        assert is_alive(process.pid, None)
        assert not is_alive(process.pid, began - 1)

    def test_a_process_that_does_not_exist_is_not_alive(self, start: Start) -> None:
        process = start(SLEEPER, mark=None)
        process.kill()
        process.wait()
        assert started_at(process.pid) is None
        assert not is_alive(process.pid, None)

    def test_a_name_with_brackets_and_blanks_is_read(self, start: Start) -> None:
        name = "import ctypes; ctypes.CDLL(None).prctl(15, b') Z 1 (', 0, 0, 0); " + SLEEPER
        process = start(name, mark=None)
        assert started_at(process.pid) is not None


class TestEnding:
    async def test_the_whole_family_ends_even_a_grandchild_that_ignores_sigterm(self, start: Start, mark: str) -> None:
        process = start(parent(), STUBBORN, mark=mark)
        grandchild: int = process.grandchild  # type: ignore[attr-defined]
        assert await end_family(mark, process.pid, grace_s=0.2) == 2
        await until(lambda: not family(mark, process.pid))
        assert started_at(grandchild) is None
        assert process.wait(LIMIT_S) == -signal.SIGTERM

    async def test_the_agent_ends_before_its_tools_so_that_it_cannot_react_to_their_end(
        self, start: Start, mark: str, tmp_path: Path
    ) -> None:
        notes = tmp_path / "notes"
        process = start(SLOW_AGENT, POLITE_TOOL, str(notes), mark=mark)
        await end_family(mark, process.pid, grace_s=30)
        assert notes.read_text() == "agent went: before its tool; tool was asked"

    async def test_an_orphaned_agent_is_killed_at_once_and_its_tools_get_sigterm_first(
        self, start: Start, mark: str, tmp_path: Path
    ) -> None:
        notes = tmp_path / "notes"
        process = start(SLOW_AGENT, POLITE_TOOL, str(notes), mark=mark)
        await end_family(mark, process.pid, grace_s=30, orphaned=True)
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        assert notes.read_text() == "; tool was asked"

    async def test_an_orphan_is_ended_too(self, start: Start, mark: str) -> None:
        process = start(parent(lives_s=0), SLEEPER, mark=mark)
        process.wait(LIMIT_S)
        assert await end_family(mark, process.pid, grace_s=5) == 1
        await until(lambda: not family(mark))

    async def test_a_stopped_process_is_ended_too(self, start: Start, mark: str) -> None:
        process = start(SLEEPER, mark=mark)
        process.send_signal(signal.SIGSTOP)
        await end_family(mark, grace_s=0.1)
        assert process.wait(LIMIT_S) < 0

    async def test_a_process_that_ends_on_sigterm_is_neither_killed_nor_waited_for(
        self, start: Start, mark: str
    ) -> None:
        process = start(SLEEPER, mark=mark)
        async with asyncio.timeout(LIMIT_S):
            await end_family(mark, grace_s=10 * LIMIT_S)
        assert process.wait(LIMIT_S) == -signal.SIGTERM

    async def test_other_processes_are_not_signalled(self, start: Start, mark: str) -> None:
        stranger = start(SLEEPER, mark=mark + "0")
        start(SLEEPER, mark=mark)
        await end_family(mark, grace_s=1)
        assert stranger.poll() is None
        assert is_alive(stranger.pid, None)

    async def test_without_a_family_there_is_nothing_to_do(self, mark: str) -> None:
        assert await end_family(mark, grace_s=5) == 0

    async def test_a_cancelled_end_kills_at_once(self, start: Start, mark: str) -> None:
        process = start(STUBBORN, mark=mark)
        ending = asyncio.create_task(end_family(mark, grace_s=60))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert process.wait(LIMIT_S) == -signal.SIGKILL

    async def test_our_own_process_is_never_signalled(
        self, start: Start, mark: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Clew may itself run below a marked agent, and even be named as the root."""
        start(SLEEPER, mark=mark)
        signalled: list[int] = []
        kill = os.kill

        def note(pid: int, number: int) -> None:
            signalled.append(pid)
            if pid != os.getpid():
                kill(pid, number)

        monkeypatch.setattr(os, "kill", note)
        await end_family(mark, os.getpid(), grace_s=1)
        assert signalled
        assert os.getpid() not in signalled
