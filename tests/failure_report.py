"""A failed test shows what it started and what else was running. A pytest plugin; `tests/conftest.py` loads it.

The test's report gets a section with: what is still running, namely the tasks of its event loop, each with the lines at
which it waits, and the processes; the agents' attempts from the Clew stores in the test's folders (another process may
have started the agents); every process that the test started (`process_record`), the last one first, because a CI may
cut long output; and PostgreSQL's log. The end of the run lists the tests that were running when one failed, and those
that started but never ended, because a worker crashed or the run was interrupted. SIGTERM counts as an interrupt,
because a run that a CI stops would otherwise print nothing.

Nothing is read or printed as long as no test fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import threading
import time
import urllib.parse
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import process_record
from clew.testing.postgres import PostgresServer
from process_record import file_tail, last_lines, printable

TITLE = "what is running, and the processes that this test started"
MAX_PROCESSES = 100  # the newest
MAX_ATTEMPTS = 5
MAX_EVENTS = 5
EVENT_CHARS = 300
MAX_FOLDERS = 5000  # searched for stores
STORE = "clew.db"
BUSY_TIMEOUT_S = 0.5

_servers: weakref.WeakSet[PostgresServer] = weakref.WeakSet()


def pytest_configure(config: pytest.Config) -> None:
    process_record.install()
    if PostgresServer.start is _start_postgres:
        PostgresServer.start = _start_and_record  # type: ignore[method-assign]
    if not hasattr(config, "workerinput"):  # the controller of xdist's workers, or the only process
        config.pluginmanager.register(RunningTests(config), "running_tests")


_start_postgres = PostgresServer.start


def _start_and_record(self: PostgresServer) -> PostgresServer:
    _servers.add(self)
    return _start_postgres(self)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    process_record.begin(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        try:
            text = describe(item)
        except Exception as error:  # noqa: BLE001 - the failure itself must be reported, whatever happens here
            text = printable(f"This section could not be made: {error!r}", process_record.COMMAND_CHARS)
        report.sections.append((TITLE, text))
    return report


def describe(item: pytest.Item) -> str:
    lines = _tasks()
    started = list(reversed(process_record.started()))
    for one in (one for one in started if not one.is_over):
        lines += one.describe(item.nodeid)
    for path in _stores(_folders(item)):
        lines += _attempts(path)
    lines += _ended([one for one in started if one.is_over], item.nodeid)
    for server in _servers:
        log = server.folder / "log"
        if output := file_tail(log):
            lines += [f"PostgreSQL ({log}):", *last_lines(output)]
    return "\n".join(lines) or "Nothing is running, and the test started no process."


def _ended(started: list[process_record.StartedProcess], test: str) -> list[str]:
    lines = [line for one in started[:MAX_PROCESSES] for line in one.describe(test)]
    left_out = len(started) - MAX_PROCESSES
    return [*lines, f"{left_out} older processes are left out."] if left_out > 0 else lines


def _tasks() -> list[str]:
    """The tasks of the test's event loop, which is stopped by now."""
    # `get_event_loop` would create a loop if there was none, and nobody would close it.
    loop = getattr(getattr(asyncio.get_event_loop_policy(), "_local", None), "_loop", None)
    if loop is None:
        return []
    lines = []
    for task in asyncio.all_tasks(loop):
        lines.append(f"{task.get_name()} waits in:")
        step: Any = task.get_coro()
        while step is not None:
            frame = getattr(step, "cr_frame", None) or getattr(step, "ag_frame", None)
            if frame is not None:
                lines.append(f"    {frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})")
            step = getattr(step, "cr_await", None) or getattr(step, "ag_await", None)
    return lines


def _folders(item: pytest.Item) -> set[Path]:
    """The folders of the test and of its fixtures, below the run's temporary folder only."""
    values: list[Any] = list((getattr(item, "funcargs", None) or {}).values())
    found = [path for value in values for path in (value, getattr(value, "folder", None)) if isinstance(path, Path)]
    base = item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return {path for path in found if path.is_relative_to(base) and path != base}


def _stores(folders: set[Path]) -> list[Path]:
    """The stores in these folders. Only the topmost folders are searched: they contain the others."""
    tops = [folder for folder in folders if not any(folder.is_relative_to(other) for other in folders - {folder})]
    left = MAX_FOLDERS
    found = []
    for top in sorted(tops):
        for folder, _, files in os.walk(top):
            left -= 1
            if left < 0:
                return found
            if STORE in files:
                found.append(Path(folder) / STORE)
    return found


def _attempts(path: Path) -> list[str]:
    """The newest attempts in the store, with the end of what each agent said."""
    lines: list[str] = []
    try:
        with contextlib.closing(_open(path)) as store:
            newest = store.execute(
                "SELECT a.run_id, a.number, a.pid, a.exit_status, a.outcome, a.stderr_tail, r.agent, r.status"
                " FROM attempts a JOIN runs r ON r.id = a.run_id ORDER BY a.started_at DESC LIMIT ?",
                (MAX_ATTEMPTS,),
            ).fetchall()
            for run, number, pid, status, outcome, stderr, agent, run_status in reversed(newest):
                lines.append(
                    f"  attempt {number} of run {run} ({run_status}): {agent}, pid {pid}, exit status {status},"
                    f" outcome {outcome}"
                )
                lines += last_lines(stderr.encode("utf-8", "replace"))
                lines += [
                    f"    event {seq}, {kind}: {printable(body, EVENT_CHARS)}"
                    for seq, kind, body in _events(store, run)
                ]
    except (sqlite3.Error, OSError) as error:
        lines.append(f"  The store cannot be read: {printable(str(error), EVENT_CHARS)}")
    return [f"agents in the store {path}:", *lines] if lines else []


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)


def _events(store: sqlite3.Connection, run: str) -> Iterator[tuple[int, str, str]]:
    newest = store.execute(
        "SELECT seq, kind, body FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT ?", (run, MAX_EVENTS)
    )
    return reversed(newest.fetchall())


class RunningTests:
    """Which tests are running, as seen by the process that reports the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started_at: dict[str, float] = {}
        self._failed: list[str] = []
        self._never_ended: list[str] = []
        self._owner = os.getpid()
        self._is_handling = (
            threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        )
        if self._is_handling:
            signal.signal(signal.SIGTERM, self._interrupt)

    def pytest_unconfigure(self) -> None:
        if self._is_handling:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _interrupt(self, *_: object) -> None:
        if os.getpid() != self._owner:  # in a forked child, SIGTERM ends the process as usual
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        raise KeyboardInterrupt("SIGTERM")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started_at[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._started_at.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        node = getattr(report, "node", None)
        if node is not None:
            self._failed.append(f"{report.nodeid} ({report.when}, {node.gateway.id}); also running:")
            self._failed += self._running(without=report.nodeid) or ["  nothing"]
        if report.when == "???":  # xdist's value for a test whose worker crashed
            self._never_ended.append(f"  {report.nodeid}")
            self._started_at.pop(report.nodeid, None)

    def pytest_keyboard_interrupt(self) -> None:
        """Prints at once: whoever interrupts a run may not wait until all workers have ended."""
        terminal: Any = self._config.pluginmanager.getplugin("terminalreporter")
        self._never_ended += self._running()
        if terminal is None or not self._never_ended:
            return
        self._print_never_ended(terminal)
        for test in {one.test for one in process_record.started()} & self._started_at.keys():  # without xdist's workers
            terminal.write_sep("-", TITLE)
            for one in reversed(process_record.started()):
                for line in one.describe(test):
                    terminal.write_line(line)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._failed:
            terminalreporter.write_sep("=", "what was running when a test failed")
            for line in self._failed:
                terminalreporter.write_line(line)
        if self._never_ended:
            self._print_never_ended(terminalreporter)

    def _print_never_ended(self, terminal: Any) -> None:
        terminal.write_sep("=", "tests that started and never ended")
        for line in self._never_ended:
            terminal.write_line(line)
        self._never_ended = []

    def _running(self, without: str = "") -> list[str]:
        now = time.monotonic()
        return [f"  {test}, for {now - started:.1f} s" for test, started in self._started_at.items() if test != without]
