"""`clew chat` on a pseudo-terminal of 60 or 120 columns, with the scripted agent."""

from __future__ import annotations

import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

import forkserver
from turns.outside.terminal import TIMEOUT_S, Terminal


class ChatTerminal(Terminal):
    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        return forkserver.on_terminal(command, **options)

    def wait_until_it_takes_keys(self) -> None:
        """A dumb terminal shows the prompt before it takes single keys."""
        deadline = time.monotonic() + TIMEOUT_S
        while termios.tcgetattr(self._master)[3] & termios.ICANON:
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)


@pytest.fixture(params=[60, 120])
def columns(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def chat(cli: Any) -> Iterator[Callable[..., ChatTerminal]]:
    """Starts `clew chat ARGS` on a terminal, and waits for its prompt."""
    with ExitStack() as opened:

        def start(*args: str, columns: int = 120, ready: str = ">", **environ: str) -> ChatTerminal:
            terminal = ChatTerminal(("chat", *args), cli.environ(**environ), cli.stage.work, columns=columns)
            opened.enter_context(terminal)
            terminal.wait_for(ready)
            return terminal

        yield start
