"""`clew ask` that reads a pipe has the thread's agent started meanwhile, and reads as it always did."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from clew.cli.stdin import MAX_INPUT_BYTES
from cli.conftest import TIMEOUT_S

KEEPS = {"CLEW_WARM_KEYS": "true"}  # the stage's agents have an API key in their environment


class Pipe:
    """A pipe to a command that was started, and that has the reading end."""

    def __init__(self, cli: Any, *args: str, **environ: str) -> None:
        self.cli = cli
        reading, self._writing = os.pipe()
        self.process = cli.start(*args, stdin=reading, **{**KEEPS, **environ})
        os.close(reading)
        self._is_open = True

    def write(self, content: bytes) -> None:
        while content:
            content = content[os.write(self._writing, content) :]

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._writing)

    def until_started(self, launches: int) -> None:
        """Waits until so many agents were started."""
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.cli.stage.launches) < launches:
            assert time.monotonic() < deadline and self.process.poll() is None
            time.sleep(0.02)

    def end(self) -> tuple[int, str, str]:
        self.close()
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def thread(cli: Any) -> Iterator[Any]:
    """The command line, with a thread that has a session."""
    assert cli.run("ask", "-t", "t", "one").code == 0
    yield cli
    assert not cli.stage.processes()


@pytest.mark.parametrize("named", [("-t", "t"), ("-c",)])
@pytest.mark.parametrize("prompt", [("two",), ("-",), ()])
def test_the_agent_runs_before_the_pipe_ends_and_answers(thread: Any, named: Any, prompt: Any) -> None:
    pipe = Pipe(thread, "ask", *named, *prompt)
    pipe.write(b"piped ")
    pipe.until_started(2)
    assert len(thread.api.requests) == 1, "nothing was sent to a model"
    pipe.write(b"in\n")
    code, out, err = pipe.end()
    assert (code, "resumed" in err) == (0, True), err
    assert out.startswith("ack: ")
    assert thread.stage.prompt.strip() == ("two\npiped in" if prompt == ("two",) else "piped in")
    assert len(thread.stage.launches) == 2, "the agent that waited has answered"


@pytest.mark.parametrize("options", [("--fresh-session",), ("--no-resume",), ("--permissions", "read-only")])
def test_options_that_change_the_agent_start_it_with_the_prompt(thread: Any, options: Any) -> None:
    pipe = Pipe(thread, "ask", "-t", "t", *options)
    pipe.write(b"two")
    assert pipe.end()[0] == 0
    assert len(thread.stage.launches) == 2


@pytest.mark.parametrize("environ", [{"CLEW_WARM_AHEAD": "false"}, {"CLEW_WARM_KEYS": "false"}])
def test_settings_are_kept(thread: Any, environ: dict[str, str]) -> None:
    silent = Pipe(thread, "ask", "-t", "t", "two", **environ)
    assert silent.process.stderr.readline() == b"waiting for what is piped in\n"
    assert len(thread.stage.launches) == 1, "none is started ahead"
    _, err = silent.process.communicate(timeout=TIMEOUT_S)
    silent.close()
    assert err.decode().count("nothing came on stdin within 3 s: continuing without it") == 1
    assert len(thread.stage.launches) == 2


def test_ctrl_c_while_it_reads_ends_it_at_once(thread: Any) -> None:
    pipe = Pipe(thread, "ask", "-t", "t")
    pipe.write(b"half a prom")
    pipe.until_started(2)
    pipe.process.send_signal(signal.SIGINT)
    _, err = pipe.process.communicate(timeout=TIMEOUT_S)  # although the pipe is open
    assert pipe.process.returncode == 7, err
    assert b"Traceback" not in err
    pipe.close()
    assert len(thread.api.requests) == 1
    assert len(thread.turns("t")) == 2


@pytest.mark.parametrize("prompt", [(), ("two",)])
def test_too_much_is_refused_before_the_pipe_ends(thread: Any, prompt: Any) -> None:
    pipe = Pipe(thread, "ask", "-t", "t", *prompt)
    pipe.until_started(2)
    pipe.write(b"x" * (MAX_INPUT_BYTES + 1))
    _, err = pipe.process.communicate(timeout=TIMEOUT_S)
    assert pipe.process.returncode == 2
    assert b"stdin has more than 50,000,000 bytes; nothing was sent." in err
    pipe.close()
    assert len(thread.api.requests) == 1


def test_a_thread_that_does_not_exist_has_no_agent_yet(cli: Any) -> None:
    pipe = Pipe(cli, "ask", "-t", "new")
    pipe.write(b"hello")
    assert pipe.end()[:2] == (0, "ack: hello\n")
    assert len(cli.stage.launches) == 1
