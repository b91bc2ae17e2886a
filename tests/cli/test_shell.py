"""`clew` in a pipe of a shell, with a user at the terminal."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from clew.testing.model.scripts import Text, ToolUse

ERASED = "\x1b[2K"
TOUCH = '!tool Bash {"command": "touch made"}'


@pytest.mark.rest
def test_the_status_line_does_not_overwrite_what_a_pipe_prints(cli: Any) -> None:
    terminal = cli.shell("clew ask '!slow 20 0.1' | cat")

    terminal.read_until(r"w0 ")
    code, shown = terminal.end()

    assert code == 0
    assert "w19" in shown
    assert ERASED not in shown


@pytest.mark.rest
def test_a_tool_call_after_the_first_words_does_not_show_the_status_line_again(cli: Any) -> None:
    cli.api.script.extend([ToolUse("Bash", {"command": "sleep 1"}, text="Let me look."), Text("Found it.")])
    terminal = cli.shell("clew ask --permissions all go | cat")

    terminal.read_until(r"Let me look\.")
    code, shown = terminal.end()

    assert code == 0
    assert "· Bash sleep 1" in shown
    assert "Found it." in shown
    assert ERASED not in shown


@pytest.mark.rest
def test_with_output_to_a_file_the_status_line_stays(cli: Any) -> None:
    terminal = cli.shell("clew ask '!slow 25 0.1' > out")

    terminal.read_until(r"[1-9]s ")
    assert terminal.end()[0] == 0
    assert (cli.stage.work / "out").read_text().endswith("w24\n")


def test_with_a_prompt_from_a_pipe_the_user_is_still_asked(both: Any) -> None:
    terminal = both.shell(f"printf %s {shlex.quote(TOUCH)} | clew ask")

    terminal.read_until(r"Allow it\? .*: ")
    terminal.type("y\n")

    assert terminal.end()[0] == 0
    assert (both.stage.work / "made").exists()


def test_with_stderr_in_a_file_nobody_is_asked(cli: Any) -> None:
    terminal = cli.shell(f"clew ask {shlex.quote(TOUCH)} 2> err")

    assert terminal.end()[0] == 0
    assert "was declined: nobody was there" in (cli.stage.work / "err").read_text()
