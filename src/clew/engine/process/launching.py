"""Starts an agent: below a parent of its own if that is possible (see launcher.py), else directly."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew.engine.process.family import MARK, POLL_S, end_family, launcher_name
from clew.engine.process.launched import Launched, attach
from clew.system.forks import closed_in_forks

_SCRIPT = Path(__file__).with_name("launcher.py")
_FOR_PYTHON = "LD_"  # the prefix of environment variables that this Python may need to start


async def launch(argv: Sequence[str], *, cwd: str, environ: Mapping[str, str]) -> Launched:
    """Raises OSError if the agent cannot be started. If this call is cancelled, no process is left."""
    if not is_possible():
        return await _launch_directly(argv, cwd, environ)
    with contextlib.ExitStack() as theirs:
        launched, reports, given = await _pipes(theirs)
        word, numbers = "", list[str]()
        try:
            _Launcher.ask((*given, _request(theirs, argv, cwd, environ)))
            theirs.close()
            while word in ("", "launching"):
                word, *numbers = (await reports.readline()).decode().split() or ["lost"]
        finally:
            if word != "started":
                await _give_up(launched, environ.get(MARK, ""))
    if word != "started":
        code = int(numbers[0]) if word == "failed" else 0
        raise OSError(code, os.strerror(code) if code else "its launcher was ended")
    launched.watch_reports(*map(int, numbers))
    return launched


def prepare() -> None:
    """Starts the launcher early, so that the first agent need not wait for it."""
    if is_possible():
        with contextlib.suppress(OSError):  # `launch` meets the same error and raises it
            _Launcher.prepare()


async def _give_up(launched: Launched, mark: str) -> None:
    """Ends a parent whose agent did not start.

    A parent that has not reported "launching" yet ends when it finds the pipes closed; after that report it is
    found by its mark.
    """
    launched.close()
    try:
        await asyncio.sleep(0)  # lets the event loop close the pipes
    finally:
        await end_family(mark, grace_s=0)


async def _pipes(theirs: contextlib.ExitStack) -> tuple[Launched, asyncio.StreamReader, list[int]]:
    """Our ends of the pipes, the reader of reports, and the agent's ends, which `theirs` closes."""
    ours, its_stdin = socket.socketpair()  # as asyncio does: a pipe does not tell the writer that its reader has gone
    theirs.callback(its_stdin.close)
    given, reading = [its_stdin.fileno()], list[io.FileIO]()
    try:
        for _ in ("stdout", "stderr", "report"):
            read, write = os.pipe()
            reading.append(io.FileIO(read, "rb"))
            theirs.callback(os.close, write)
            given.append(write)
    except BaseException:
        ours.close()
        for file in reading:
            file.close()
        raise
    launched, reports = await attach(ours, reading)
    return launched, reports, given


def _request(theirs: contextlib.ExitStack, argv: Sequence[str], cwd: str, environ: Mapping[str, str]) -> int:
    """A file in memory with the words that the launcher reads, separated by zero bytes."""
    name = launcher_name(environ.get(MARK, ""))
    words = [name, cwd, str(len(argv)), *argv, *(f"{variable}={value}" for variable, value in environ.items())]
    if any("\0" in word for word in words):
        raise ValueError("embedded null byte")
    file = os.memfd_create("request")
    theirs.callback(os.close, file)
    with open(file, "wb", closefd=False) as writing:
        writing.write(b"\0".join(os.fsencode(word) for word in words))
    os.lseek(file, 0, os.SEEK_SET)
    return file


class _Launcher:
    """The launcher of this process. It ends with this process."""

    _lock = threading.Lock()
    _one: _Launcher | None = None

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        closed_in_forks(self.socket)  # a fork starts a launcher of its own
        self.owner = os.getpid()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SCRIPT), str(theirs.fileno())],
                cwd="/",
                env={name: value for name, value in os.environ.items() if name.startswith(_FOR_PYTHON)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        atexit.register(self.end)

    @classmethod
    def prepare(cls) -> None:
        with cls._lock:
            cls._ready()

    @classmethod
    def ask(cls, descriptors: Sequence[int]) -> None:
        with cls._lock:
            launcher = cls._ready()
            try:
                socket.send_fds(launcher.socket, [b"."], descriptors)
            except OSError:  # the launcher was killed
                atexit.unregister(launcher.end)
                launcher.end()
                cls._one = None
                socket.send_fds(cls._ready().socket, [b"."], descriptors)

    @classmethod
    def _ready(cls) -> _Launcher:
        if cls._one is None or cls._one.owner != os.getpid():  # a fork has no launcher of its own yet
            cls._one = cls()
        return cls._one

    def end(self) -> None:
        """Ends the launcher, but not the parents that it has forked."""
        self.socket.close()
        if self.owner == os.getpid():  # only the process that started the launcher can wait for its end
            self._process.kill()
            self._process.wait()


async def _launch_directly(argv: Sequence[str], cwd: str, environ: Mapping[str, str]) -> Launched:
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=dict(environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    transport = getattr(process, "_transport", None)
    launched = Launched(process.stdin, process.stdout, process.stderr, [transport] if transport is not None else [])
    launched.pid = launched.top = process.pid
    launched.watch(asyncio.create_task(_exit_status(process)))
    return launched


async def _exit_status(process: asyncio.subprocess.Process) -> int:
    """Waits for the process alone. `Process.wait` would also wait for every process that holds its output open."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio has no event for it alone
        await asyncio.sleep(POLL_S)
    return process.returncode


def is_possible() -> bool:
    """Whether this is Linux, and this process runs a Python interpreter that can be started again."""
    name = Path(sys.executable or "").name
    return sys.platform == "linux" and name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
