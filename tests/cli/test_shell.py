"""In a shell's pipe, with a person at the terminal all the same."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from clew.testing.model.scripts import Text, ToolUse

ERASED = "\x1b[2K"
TOUCH = '!tool Bash {"command": "touch made"}'


@pytest.mark.rest
def test_what_a_pipe_brings_to_the_terminal_is_not_painted_over(cli: Any) -> None:
    terminal = cli.shell("clew ask '!slow 20 0.1' | cat")

    terminal.read_until(r"w0 ")
    code, shown = terminal.end()

    assert code == 0
    assert "w19" in shown
    assert ERASED not in shown


@pytest.mark.rest
def test_a_tool_after_the_first_words_does_not_bring_the_status_back_into_a_pipe(cli: Any) -> None:
    cli.api.script.extend([ToolUse("Bash", {"command": "sleep 1"}, text="Let me look."), Text("Found it.")])
    terminal = cli.shell("clew ask --permissions all go | cat")

    terminal.read_until(r"Let me look\.")
    code, shown = terminal.end()

    assert code == 0
    assert "· Bash sleep 1" in shown
    assert "Found it." in shown
    assert ERASED not in shown


@pytest.mark.rest
def test_into_a_file_the_status_stays(cli: Any) -> None:
    terminal = cli.shell("clew ask '!slow 25 0.1' > out")

    terminal.read_until(r"[1-9]s ")
    assert terminal.end()[0] == 0
    assert (cli.stage.work / "out").read_text().endswith("w24\n")


def test_a_prompt_from_a_pipe_leaves_the_person_to_be_asked(both: Any) -> None:
    terminal = both.shell(f"printf %s {shlex.quote(TOUCH)} | clew ask")

    terminal.read_until(r"Allow it\? .*: ")
    terminal.type("y\n")

    assert terminal.end()[0] == 0
    assert (both.stage.work / "made").exists()


def test_with_stderr_in_a_file_nobody_is_asked(cli: Any) -> None:
    terminal = cli.shell(f"clew ask {shlex.quote(TOUCH)} 2> err")

    assert terminal.end()[0] == 0
    assert "was declined: nobody was there" in (cli.stage.work / "err").read_text()
