"""A program in the foreground of the terminal: keys, signals, suspension, and the terminal's modes afterwards."""

from __future__ import annotations

import signal
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from turns.outside.terminal import CTRL_C, Terminal

SCRIPT = """
import asyncio, os, sys
from clew.cli.foreground_program import run_in_foreground
from clew.cli.ui.safe_stream import guarded

sys.stderr = guarded(sys.stderr)

async def began(pid):
    print(f"began {pid} in {os.getpgid(pid)} of {os.tcgetpgrp(0)}", flush=True)

status = asyncio.run(run_in_foreground(sys.argv[1:], cwd=".", environ=dict(os.environ), began=began))
print(f"status {status}, ours: {os.tcgetpgrp(0) == os.getpgrp()}", flush=True)
"""
pytestmark = pytest.mark.process
CTRL_Z = "\x1a"
LONG = "for each in $(seq 200); do sleep 0.1; done"  # ends by itself, whatever becomes of the test


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return f"{sys.executable} {path}"


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    """A shell with job control."""
    environ = {"PATH": "/usr/bin:/bin", "PS1": "ready> ", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    with Terminal(["bash", "--norc", "--noprofile", "-i"], environ, tmp_path) as terminal:
        terminal.wait_for("ready>")
        yield terminal


def test_ctrl_c_reaches_the_program_alone_and_the_terminal_is_given_back(shell: Terminal, script: str) -> None:
    program = "trap 'echo c$((1))1' INT; echo s$((1))1; read -r line; stty -echo raw; exit 7"
    shell.type(f'{script} sh -c "{program}"\r')
    shell.wait_for(r"began (\d+) in \1 of \1")
    shell.wait_for(r"(?s)(?=.*began)(?=.*s11)")
    shell.type(CTRL_C)
    shell.wait_for("c11")
    shell.type("go on\r")
    shell.wait_for("status 7, ours: True")
    shell.type("stty -a\r")
    shell.wait_for(r"(?s)status 7.* icanon .* echo ")


def test_a_suspended_program_suspends_both_and_fg_continues_both(shell: Terminal, script: str) -> None:
    shell.type(f"{script} sh -c 'echo s$((1))1; read -r line; echo got $line'\r")
    shell.wait_for(r"(?s)(?=.*began)(?=.*s11)")
    shell.type(CTRL_Z)
    shell.wait_for(r"Stopped")
    shell.type("echo the shell $((20 + 1))\r")
    shell.wait_for("the shell 21")
    shell.type("fg\r")
    shell.wait_for(r"(?s)the shell 21.*fg\n.*script.py")
    shell.type("a line\r")
    shell.wait_for(r"(?s)got a line\n.*status 0, ours: True")


def test_a_signal_is_passed_on_and_a_killed_program_is_reported(shell: Terminal, script: str) -> None:
    shell.type(f"{script} sh -c 'trap \"echo told; exit 3\" TERM; kill -TERM $PPID; {LONG}'\r")
    shell.wait_for(r"(?s)told\n.*status 3, ours: True")
    shell.type(f"{script} sh -c 'kill -KILL $$'\r")
    shell.wait_for(f"status -{int(signal.SIGKILL)}, ours: True")
    assert "␛" not in shell.text, "the terminal was given what resets it"


def test_a_program_that_ignores_a_signal_is_killed_by_the_second_one(shell: Terminal, script: str) -> None:
    signals = "trap '' TERM HUP; kill -TERM $PPID; kill -HUP $PPID"
    shell.type(f'{script} sh -c "{signals.replace("$", chr(92) + "$")}; sleep 20"\r')
    shell.wait_for(f"status -{int(signal.SIGKILL)}, ours: True")


def test_the_modes_of_the_terminal_are_restored(tmp_path: Path, script: str) -> None:
    with Terminal([*script.split(), "stty", "raw", "-echo"], {"PATH": "/usr/bin:/bin"}, tmp_path) as terminal:
        before = termios.tcgetattr(terminal._master)[3]
        assert before & termios.ECHO and before & termios.ICANON
        terminal.wait_for("status 0")
        assert termios.tcgetattr(terminal._master)[3] == before
        assert terminal.ended() == 0


def test_a_program_that_is_missing_is_reported(tmp_path: Path, script: str) -> None:
    with Terminal([*script.split(), "/no/such/program"], {"PATH": "/usr/bin:/bin"}, tmp_path) as terminal:
        terminal.wait_for("AgentMissing: /no/such/program is gone")
        assert terminal.ended() == 1
