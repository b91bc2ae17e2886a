"""`clew` on a stage with a resident, to which commands are handed over, or not at all."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import forkserver
from cli.conftest import TIMEOUT_S, Cli, Done, Terminal
from residents import HANDED_OVER, ORDINARY, Resident


class Handed:
    """Commands that the resident carries out, with real clients. An ordinary one does its own work if it must."""

    def __init__(self, cli: Cli, resident: Resident, opened: ExitStack) -> None:
        self.cli = cli
        self.resident = resident
        self._opened = opened

    def environ(self, **more: str) -> dict[str, str]:
        return {**self.resident.environ, **self.cli.environ(), **more}

    def start(self, *args: str, ordinary: bool = False, prepare: Callable[[], None] | None = None, **more: Any) -> Any:
        def before() -> None:
            forkserver.restore_sigint()
            if prepare is not None:
                prepare()

        environ = more.pop("environ", {})
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "bufsize": 0,
            **more,
        }
        process = subprocess.Popen(
            [*(ORDINARY if ordinary else HANDED_OVER), *args],
            env=self.environ(**environ),
            **{"cwd": self.cli.stage.work, **options},
            preexec_fn=before,
        )
        self._opened.callback(_end, process)
        return process

    def run(self, *args: str, stdin: bytes = b"", **more: Any) -> Done:
        process = self.start(*args, stdin=subprocess.PIPE, **more)
        out, err = process.communicate(stdin, timeout=TIMEOUT_S)
        return Done(process.returncode, out.decode(), err.decode())

    def terminal(self, *args: str, shell: str = "") -> Terminal:
        """On a pseudo-terminal: the command, or a shell script in which `clew` is one that is handed over."""
        import shlex

        command = [*HANDED_OVER, *args]
        if shell:
            command = ["bash", "-c", f'clew() {{ {shlex.join(HANDED_OVER)} "$@"; }}\n{shell}']
        environ = self.environ(TERM="xterm-256color")
        terminal = Terminal(command, (), environ, self.cli.stage.work, self.cli.columns)
        self._opened.callback(_end, terminal.process)
        return terminal


def _end(process: Any) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


@pytest.fixture
def handed(cli: Any) -> Iterator[Handed]:
    with ExitStack() as opened, Resident(cli.environ()) as resident:
        yield Handed(cli, resident, opened)
