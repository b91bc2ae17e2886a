"""A command that was handed over, at a terminal: questions, job control, and what the shell sees of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from clew.api import daemons

TOUCH = '!tool Bash {"command": "touch made"}'
PROMPT = r"t\x1b\[0m>"  # of a chat
STOPPED = 128 + 20  # as shells report SIGTSTP


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def pids(handed: Any) -> tuple[int, ...]:
    found = daemons.resident(handed.resident.environ, handed.cli.stage.clew_home)
    assert found is not None
    return found.commands


def test_a_question_is_asked_and_answered(handed: Any) -> None:
    terminal = handed.terminal("ask", "-t", "t", TOUCH)
    terminal.read_until(r"Allow it\? .*: ")
    terminal.type("y\n")
    assert terminal.end()[0] == 0
    assert (handed.cli.stage.work / "made").exists()


def test_with_a_prompt_from_a_pipe_the_user_is_still_asked(handed: Any) -> None:
    terminal = handed.terminal(shell=f"printf %s {shlex.quote(TOUCH)} | clew ask -t t")
    terminal.read_until(r"Allow it\? .*: ")
    terminal.type("y\n")
    assert terminal.end()[0] == 0
    assert (handed.cli.stage.work / "made").exists()


def test_ctrl_c_stops_it(handed: Any) -> None:
    terminal = handed.terminal("ask", "-t", "t", "!hang text so far")
    handed.cli.api.wait_for_hanging(1)
    terminal.type("\x03")
    terminal.read_until("stopping")
    assert terminal.end()[0] == 7


def test_ctrl_z_suspends_it_and_fg_continues_it(handed: Any) -> None:
    script = 'set -m; clew ask -t t "!hang text so far"; echo "status $?"; read go; fg; echo "ended $?"'
    terminal = handed.terminal(shell=script)
    handed.cli.api.wait_for_hanging(1)
    terminal.type("\x1a")
    terminal.read_until(f"status {STOPPED}")
    [pid] = pids(handed)
    assert state_of(pid) == "T"
    terminal.type("\n")
    terminal.read_until("handed_over.py|clew ask")  # what `fg` prints
    handed.cli.api.release()
    terminal.read_until("ended 0")
    terminal.end()


def test_a_background_job_is_not_handed_over(handed: Any) -> None:
    """Its own process must be stopped when it reads from the terminal."""
    terminal = handed.terminal(shell='set -m; clew ask -t t hello & wait $!; echo "ended $?"')
    terminal.read_until("ended 99")
    terminal.end()


def test_in_the_background_it_does_not_take_what_is_typed_for_the_shell(handed: Any) -> None:
    script = f'set -m; clew ask -t t {shlex.quote(TOUCH)}; bg; read line; echo "shell got $line"; fg; echo "ended $?"'
    terminal = handed.terminal(shell=script)
    terminal.read_until(r"Allow it\? .*: ")
    terminal.type("\x1a")
    terminal.read_until("&")
    terminal.type("n\n")
    terminal.read_until("shell got n")
    terminal.type("y\n")
    terminal.read_until("ended 0")
    terminal.end()
    assert (handed.cli.stage.work / "made").exists()


def test_a_chat(handed: Any) -> None:
    terminal = handed.terminal(shell='set -m; clew chat t; echo "status $?"; read go; fg; echo "ended $?"')
    terminal.read_until(PROMPT)
    terminal.type("hello\r")
    terminal.read_until("ack: hello")
    terminal.read_until(PROMPT)
    terminal.type("\x1a")
    terminal.read_until(f"status {STOPPED}")
    assert state_of(pids(handed)[0]) == "T"
    terminal.type("\n")
    terminal.read_until(PROMPT)
    terminal.type("more\r")
    terminal.read_until("ack: more")
    terminal.read_until(PROMPT)
    terminal.type("\x04")
    terminal.read_until("ended 0")
    terminal.end()
