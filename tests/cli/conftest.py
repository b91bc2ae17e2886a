"""The command line as a user runs it: in a process of its own, with pipes or on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import forkserver
from clew.testing.stage import MODEL, Stage

COMMAND = [sys.executable, "-m", "clew"]
SMALL_DAEMON = Path(__file__).with_name("small_daemon.py")
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """Runs `clew` on a stage. All processes that it starts are ended with the test."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.api = stage.api
        self.columns = 80  # of terminals
        self._open: list[subprocess.Popen[Any]] = []

    def environ(self, **more: str) -> dict[str, str]:
        return {**self.stage.environ, "CLEW_MODEL": MODEL, **more}

    def run(self, *args: str, stdin: str | bytes = b"", cwd: Path | None = None, **environ: str) -> Done:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        process = self.start(*args, cwd=cwd, stdin=subprocess.PIPE, **environ)
        out, err = process.communicate(given, timeout=TIMEOUT_S)
        return Done(process.returncode, out.decode(), err.decode())

    def start(self, *args: str, cwd: Path | None = None, stdin: int = subprocess.DEVNULL, **environ: str) -> Any:
        """Starts `clew` in the background; `communicate` waits for its end."""
        return self._opened(forkserver.start(args, **self._options(cwd, stdin, **environ)))

    def in_script(self, *args: str) -> Any:
        """Starts a shell script that runs `clew …` in the background and prints its pid, and later its exit status."""
        script = '"$@" & echo $!; wait $!; echo "ended $?"'
        command = ["bash", "-c", script, "script", *COMMAND, *args]
        options = self._options(None, subprocess.DEVNULL)
        return self._opened(subprocess.Popen(command, preexec_fn=forkserver.restore_sigint, **options))

    def daemon(self, *prompts: str, thread: str = "t") -> tuple[Any, list[str]]:
        """Starts another process that runs prompts as a daemon does. Returns the process and the ids of the runs."""
        options = self._options(None, subprocess.DEVNULL)
        process = self._opened(forkserver.start([thread, *prompts], script=SMALL_DAEMON, **options))
        ids = process.stdout.readline().decode().split()
        assert len(ids) == len(prompts), process.stderr.read().decode()
        return process, ids

    def until(self, run: str, status: str) -> dict[str, Any]:
        """The run as `runs show` prints it, once it has that status."""
        deadline = time.monotonic() + TIMEOUT_S
        while (shown := self.run("runs", "show", run, "--json").json)["status"] != status:
            assert time.monotonic() < deadline, shown
        assert isinstance(shown, dict)
        return shown

    def _options(self, cwd: Path | None, stdin: int, **environ: str) -> dict[str, Any]:
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        # Unbuffered, because `communicate` would not see what `readline` has read beyond its line.
        return {"env": self.environ(**environ), "cwd": cwd or self.stage.work, "bufsize": 0, **pipes}

    def _opened(self, process: Any) -> Any:
        self._open.append(process)
        return process

    def terminal(self, *args: str, **environ: str) -> Terminal:
        return self._on_terminal(None, *args, **environ)

    def shell(self, script: str, **environ: str) -> Terminal:
        """Starts a shell command on a terminal, in which `clew` is the one under test."""
        ours = f'clew() {{ {shlex.join(COMMAND)} "$@"; }}'
        return self._on_terminal(["sh", "-c", f"{ours}\n{script}"], **environ)

    def _on_terminal(self, command: list[str] | None, *args: str, **environ: str) -> Terminal:
        environ = self.environ(TERM="xterm-256color", **environ)
        terminal = Terminal(command, args, environ, self.stage.work, self.columns)
        self._open.append(terminal.process)
        return terminal

    def turns(self, thread: str) -> list[dict[str, Any]]:
        shown = self.run("threads", "show", thread, "--json").json["turns"]
        assert isinstance(shown, list)
        return shown

    def close(self) -> None:
        for process in self._open:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture(params=[60, 120])
def columns(request: pytest.FixtureRequest, cli: Cli) -> int:
    """Terminals of two widths."""
    cli.columns = int(request.param)
    return cli.columns


class Terminal:
    """A command, or `clew` with these arguments, on a pseudo-terminal that the test reads from and types on."""

    def __init__(
        self, command: list[str] | None, args: Sequence[str], environ: dict[str, str], cwd: Path, columns: int
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        options: dict[str, Any] = {"env": environ, "cwd": cwd, "stdin": slave, "stdout": slave, "stderr": slave}
        if command is None:
            self.process: subprocess.Popen[Any] = forkserver.on_terminal(args, **options)
        else:
            self.process = subprocess.Popen(
                command, start_new_session=True, preexec_fn=forkserver.own_terminal, **options
            )
        os.close(slave)
        self.seen = ""

    def read_until(self, pattern: str) -> str:
        """Everything that was shown up to and including the pattern."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := re.search(pattern, self.seen)) is None:
            if not self._read(deadline):
                raise AssertionError(f"{pattern!r} was never printed; the terminal shows:\n{self.seen}")
        shown, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return shown

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> tuple[int, str]:
        """Waits for the end. Returns the exit code and the rest of the output."""
        deadline = time.monotonic() + TIMEOUT_S
        while self._read(deadline):
            pass
        code = self.process.wait(TIMEOUT_S)
        os.close(self._master)
        return code, self.seen

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"no more output within the time limit; the terminal shows:\n{self.seen}")
        with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
            piece = os.read(self._master, 65_536)
            self.seen += piece.decode("utf-8", "replace").replace("\r\n", "\n")
            return bool(piece)
        return False


@pytest.fixture(scope="session")
def cli_type() -> type[Cli]:
    """The class, for a fixture that outlives a test and closes what it creates."""
    return Cli


@pytest.fixture
def cli_on() -> Iterator[Callable[[Stage], Cli]]:
    opened: list[Cli] = []

    def make(stage: Stage) -> Cli:
        opened.append(Cli(stage))
        return opened[-1]

    yield make
    for cli in opened:
        cli.close()


@pytest.fixture
def cli(scripted: Stage, cli_on: Callable[[Stage], Cli]) -> Cli:
    """The command line with the scripted agent."""
    return cli_on(scripted)


@pytest.fixture
def both(stage: Stage, cli_on: Callable[[Stage], Cli]) -> Cli:
    """The command line, once with the scripted agent and once with the real one."""
    return cli_on(stage)
