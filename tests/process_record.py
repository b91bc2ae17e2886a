"""Which processes a test started, and the end of their output: `failure_report` prints it when the test fails.

All processes are started through `subprocess.Popen` (also by asyncio and `forkserver`), except agents, which the
engine's launcher starts. Nothing is consumed that another reader needs: the output is observed while it is read
(`communicate`, asyncio's stream readers), read from a file, or copied from the pipe without removing it.

A record never keeps a process or its pipes alive. There is no lock, because a fork could copy it while it is held:
adding to a dict, removing from it and copying it are atomic.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import itertools
import os
import re
import shlex
import signal
import subprocess
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.engine.process import agent as agent_process

KEPT_BYTES = 4096  # of each stream
MAX_LINES = 20
LINE_CHARS = 500
WORD_CHARS = 200
COMMAND_CHARS = 1000
STREAMS = ("stdout", "stderr")

_PIPE_BYTES = 1 << 16
_NONBLOCK = 2  # SPLICE_F_NONBLOCK
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # as in /proc/PID/stat


class Tail:
    """The end of a stream's output."""

    def __init__(self) -> None:
        self.data = b""

    def add(self, data: bytes) -> None:
        self.data = (self.data + bytes(data[-KEPT_BYTES:]))[-KEPT_BYTES:]

    def replace(self, data: bytes | str | None) -> None:
        if data:
            end = data[-KEPT_BYTES:]
            self.data = end.encode("utf-8", "replace") if isinstance(end, str) else end


class StartedProcess:
    """A process that a test started. `error`: it could not be started."""

    def __init__(self, words: Sequence[object] | str, pid: int = 0, error: str = "") -> None:
        self.test = _test
        self.words = words
        self.pid = pid
        self.error = error
        self.at = time.clock_gettime(_CLOCK)
        self.exit_status: int | None = None
        self.tails = {stream: Tail() for stream in STREAMS}
        self.files: dict[str, str] = {}
        self.popen: weakref.ref[subprocess.Popen[Any]] | None = None
        _started[next(_numbers)] = self

    @property
    def is_over(self) -> bool:
        """The process has ended, and its exit status was read. A daemon that died unnoticed may matter to a later
        test, so it does not count as over."""
        if self.error or self.exit_status is not None:
            return True
        return (self.popen is None or self.popen() is None) and not self._kernel_state()

    def describe(self, test: str) -> list[str]:
        elsewhere = "" if self.test == test else f" (started in {self.test or 'no test'})"
        lines = [f"{self._state()}: {_command(self.words)}{elsewhere}"]
        for stream in STREAMS:
            path = self.files.get(stream)
            output = file_tail(Path(path)) if path is not None else self.tails[stream].data + self._unread(stream)
            if output:
                lines += [f"  {stream}{'' if path is None else f' ({path})'}:", *last_lines(output)]
        return lines

    def _state(self) -> str:
        if self.error:
            return f"not started ({self.error})"
        if self.exit_status is None:
            kernel = self._kernel_state()
            state = "running" if kernel not in ("", "Z") else "ended, and nobody has read its exit status"
        elif self.exit_status < 0:
            state = f"ended by {_signal_name(-self.exit_status)}"
        else:
            state = f"ended with exit code {self.exit_status}"
        return f"pid {self.pid}, {state}"

    def _kernel_state(self) -> str:
        """A letter, as `ps` shows it; "" if the process no longer exists."""
        try:
            fields = Path(f"/proc/{self.pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return ""
        is_another = int(fields[19]) / os.sysconf("SC_CLK_TCK") > self.at + 1
        return "" if is_another else fields[0]

    def _unread(self, stream: str) -> bytes:
        """What is still in the pipe. It is not removed, so that its reader still finds it."""
        popen = self.popen and self.popen()
        with contextlib.suppress(AttributeError, OSError, ValueError):  # no pipe, closed, or not on Linux
            return _peek(getattr(popen, stream).fileno())
        return b""


_started: dict[int, StartedProcess] = {}
_numbers = itertools.count()
_test = ""


def begin(test: str) -> None:
    """From now on, processes are recorded for this test. Processes of fixtures that still run stay on the list."""
    global _test
    _test = test
    for number, started in list(_started.items()):
        if started.is_over:
            _started.pop(number, None)


def started() -> list[StartedProcess]:
    return list(_started.values())


def follow(reader: asyncio.StreamReader, started: StartedProcess | None, stream: str) -> None:
    """Records what this reader has received so far and will receive as the output of the process."""
    if started is not None:
        started.tails[stream].add(reader._buffer)  # type: ignore[attr-defined]
        reader._clew_tail = started.tails[stream]  # type: ignore[attr-defined]


def record_of(popen: object) -> StartedProcess | None:
    return getattr(popen, "_clew_started", None)


def last_lines(output: bytes) -> list[str]:
    lines = output.decode("utf-8", "replace").splitlines()[-MAX_LINES:]
    return [f"    {printable(line, LINE_CHARS)}" for line in lines]


def file_tail(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - KEPT_BYTES))
            return file.read(KEPT_BYTES)
    except OSError:
        return b""


def printable(text: str, length: int) -> str:
    """On one line, and without lone surrogates, which xdist cannot send."""
    cut = text if len(text) <= length else f"{text[:length]}…"
    return re.sub(r"[\x00-\x08\x0a-\x1f\x7f]", "·", cut.encode("utf-8", "replace").decode())


@functools.cache
def install() -> None:
    """Installs the hooks once, for the rest of the process."""
    _install_popen()
    _install_readers()
    _install_launch()


def _install_popen() -> None:
    init, communicate = subprocess.Popen.__init__, subprocess.Popen.communicate

    @functools.wraps(init)
    def start(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        words = [*getattr(self, "program", ()), *args] if isinstance(args, list | tuple) else args
        try:
            init(self, args, *rest, **options)
        except OSError as error:
            StartedProcess(words, error=str(error))
            raise
        self._clew_started = started = StartedProcess(words, self.pid)
        started.popen = weakref.ref(self)
        for stream in STREAMS:
            if path := _file_path(options.get(stream)):
                started.files[stream] = path

    @functools.wraps(communicate)
    def record_output(self: Any, *args: Any, **options: Any) -> Any:
        outputs: Sequence[bytes | str | None] = (None, None)
        try:
            outputs = communicate(self, *args, **options)
        except subprocess.TimeoutExpired as error:
            outputs = (error.output, error.stderr)
            raise
        finally:
            if (started := record_of(self)) is not None:
                for stream, data in zip(STREAMS, outputs, strict=True):
                    started.tails[stream].replace(data)
        return outputs

    subprocess.Popen.__init__ = start  # type: ignore[method-assign]
    subprocess.Popen.communicate = record_output  # type: ignore[method-assign]
    subprocess.Popen.returncode = _ReturnCode()  # type: ignore[assignment]


class _ReturnCode:
    """Records the exit status when `returncode` is set, which otherwise remains a plain attribute."""

    def __set__(self, popen: Any, status: int | None) -> None:
        popen.__dict__["returncode"] = status
        if (started := record_of(popen)) is not None:
            started.exit_status = status


def _install_readers() -> None:
    feed = asyncio.StreamReader.feed_data
    connect = asyncio.subprocess.SubprocessStreamProtocol.connection_made

    def feed_data(self: Any, data: bytes) -> None:
        if (tail := self.__dict__.get("_clew_tail")) is not None:
            tail.add(data)
        feed(self, data)

    def connection_made(self: Any, transport: Any) -> None:
        connect(self, transport)
        started = record_of(transport.get_extra_info("subprocess"))
        for stream in STREAMS:
            if (reader := getattr(self, stream)) is not None:
                follow(reader, started, stream)

    asyncio.StreamReader.feed_data = feed_data  # type: ignore[method-assign]
    asyncio.subprocess.SubprocessStreamProtocol.connection_made = connection_made  # type: ignore[method-assign]


def _install_launch() -> None:
    original = agent_process.launch

    @functools.wraps(original)
    async def launch(argv: Sequence[str], **options: Any) -> Any:
        try:
            launched = await original(argv, **options)
        except OSError as error:
            StartedProcess(argv, error=str(error))
            raise
        started = StartedProcess(argv, launched.pid)
        follow(launched.stdout, started, "stdout")
        follow(launched.stderr, started, "stderr")
        launched._ended.add_done_callback(functools.partial(_record_end, started))
        return launched

    agent_process.launch = launch


def _record_end(started: StartedProcess, ended: asyncio.Future[int]) -> None:
    if not ended.cancelled() and ended.exception() is None:
        started.exit_status = ended.result()


def _file_path(given: Any) -> str | None:
    """The path of the regular file that a stream is written to."""
    if given is None or (isinstance(given, int) and given < 0):  # inherited, PIPE, DEVNULL or STDOUT
        return None
    try:
        path = os.readlink(f"/proc/self/fd/{given if isinstance(given, int) else given.fileno()}")  # noqa: PTH115 - quick
    except (AttributeError, OSError, ValueError):
        return None
    return path if path.startswith("/") and not path.startswith("/dev/") and os.path.isfile(path) else None  # noqa: PTH113 - quick


def _peek(pipe: int) -> bytes:
    """The content of a pipe. tee(2) copies it to another pipe and leaves it in the original."""
    read, write = os.pipe()
    try:
        count = ctypes.CDLL(None).tee(pipe, write, _PIPE_BYTES, _NONBLOCK)
        return os.read(read, count)[-KEPT_BYTES:] if count > 0 else b""
    finally:
        os.close(read)
        os.close(write)


def _command(words: Any) -> str:
    if not isinstance(words, list | tuple):
        return printable(str(words), COMMAND_CHARS)
    whole = (os.fsdecode(word) if isinstance(word, str | bytes | os.PathLike) else str(word) for word in words)
    return printable(shlex.join(printable(word, WORD_CHARS) for word in whole), COMMAND_CHARS)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
