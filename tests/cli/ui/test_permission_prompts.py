"""A request for permission on a terminal: the diff of an edit, the whole command, and the five choices."""

from __future__ import annotations

import fcntl
import json
import re
import struct
import termios
from typing import Any

import pytest

from clew.testing.model.scripts import Text, ToolUse
from cli.conftest import TIMEOUT_S

ASKED = r"Allow it\? \(y/a/t/n, \? explains, or why not\): "
HOSTILE = "\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\u202e\r"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def tool(name: str, **given: object) -> str:
    return f"!tool {name} {json.dumps(given)}"


def on_terminal(cli: Any, columns: int, *args: str) -> Any:
    terminal = cli.terminal(*args)
    fcntl.ioctl(terminal._master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    return terminal


def plain(shown: str) -> list[str]:
    return COLOUR.sub("", shown).splitlines()


@pytest.mark.parametrize("columns", [60, 120])
def test_an_edit_is_shown_as_a_coloured_diff_against_the_file(cli: Any, columns: int) -> None:
    file = cli.stage.work / "a.py"
    file.write_text("".join(f"line {number}\n" for number in range(1, 101)))
    edit = {"file_path": str(file), "old_string": "line 50\n", "new_string": "line fifty\nand more\n"}
    cli.api.script.extend([ToolUse("Read", {"file_path": str(file)}), ToolUse("Edit", edit), Text("Done.")])
    terminal = on_terminal(cli, columns, "ask", "-t", "t", "go")

    shown = terminal.read_until(ASKED)
    assert "\x1b[32m+line fifty\x1b[0m" in shown and "\x1b[31m-line 50\x1b[0m" in shown
    lines = plain(shown)
    at = next(at for at, line in enumerate(lines) if line.endswith("Edit asks for permission:"))
    assert lines[at + 1 :] == [
        f"  {file}",
        "  @@ -47,7 +47,8 @@",
        *(f"   line {number}" for number in (47, 48, 49)),
        "  -line 50",
        "  +line fifty",
        "  +and more",
        *(f"   line {number}" for number in (51, 52, 53)),
        "  y  once",
        "  a  all of this run",
        f"  t  always in this thread: Edit in {cli.stage.work}, except hidden files",
        "  n  no",
        "  …  no, and why",
        "Allow it? (y/a/t/n, ? explains, or why not): ",
    ]
    assert len(lines[-1]) < 60
    terminal.type("n\n")
    assert terminal.end()[0] == 0


@pytest.mark.parametrize("columns", [60, 120])
def test_nothing_in_a_request_can_control_the_terminal(cli: Any, columns: int) -> None:
    name = f"a{HOSTILE.replace(chr(13), '')}.txt"
    (cli.stage.work / name).write_text(f"old {HOSTILE}\n")
    calls = [
        ToolUse("Write", {"file_path": name, "content": f"new {HOSTILE}\n", f"odd {HOSTILE}": HOSTILE}),
        ToolUse("Bash", {"command": f"echo {HOSTILE}", "description": f"harmless {HOSTILE}"}),
    ]
    cli.api.script.extend([*calls, Text("Done.")])
    terminal = on_terminal(cli, columns, "ask", "-t", "t", "go")
    for expected in ("+new ␛[2J␛]52;c;aGk=␇�31m�␍", "$ echo ␛[2J"):
        shown = terminal.read_until(r"Allow it\? .*: ")
        assert expected in shown
        assert not any(sequence in shown for sequence in ("\x1b[2J", "\x1b]", "\x9b", "\u202e", "\x07"))
        terminal.type("n\n")
    assert terminal.end()[0] == 0


def test_a_long_diff_is_cut_and_can_be_viewed(cli: Any) -> None:
    terminal = cli.terminal("ask", tool("Write", file_path="a.txt", content="x\n" * 100 + "THE END\n"))
    shown = terminal.read_until(r"v views all, .*: ")
    assert "A new file." in shown and "THE END" not in shown
    assert "… 62 more lines" in shown
    terminal.type("v\n")
    assert "+THE END" in terminal.read_until(r"v views all, .*: ")
    terminal.type("n\n")
    assert terminal.end()[0] == 0


def test_a_command_is_shown_whole_with_what_it_is_for(cli: Any) -> None:
    command = "\n".join(f"echo {number}" for number in range(30))
    terminal = cli.terminal("ask", tool("Bash", command=command, description="Count", timeout=5))
    lines = plain(terminal.read_until(ASKED))
    assert "  $ echo 0" in lines and "    echo 29" in lines
    assert "  description: Count" in lines and "  timeout: 5" in lines
    assert "  t  always in this thread: Bash with exactly this command" in lines
    terminal.type("?\n")
    assert "  t  Allow this, and do not ask for it again in this thread" in terminal.read_until(ASKED)
    terminal.type("n\n")
    assert terminal.end()[0] == 0


def test_always_in_this_thread_is_listed_and_can_be_taken_back(cli: Any) -> None:
    touch = tool("Bash", command="touch made")
    terminal = cli.terminal("ask", "-t", "t", touch)
    terminal.read_until(ASKED)
    terminal.type("t\n")
    assert terminal.end()[0] == 0

    assert cli.run("ask", "-t", "t", touch).code == 0
    assert "always allowed: Bash(touch made)\n" in cli.run("threads", "show", "t").out
    [rule] = cli.run("threads", "show", "t", "--json").json["allowed"]
    assert (rule["tool"], rule["kind"], rule["value"]) == ("Bash", "command", "touch made")

    done = cli.run("threads", "set", "t", "--forget-allowed")
    assert (done.code, done.err.splitlines()[0]) == (0, "not allowed any more: Bash(touch made)")
    assert cli.run("threads", "show", "t", "--json").json["allowed"] == []
    assert "has these settings already" in cli.run("threads", "set", "t", "--forget-allowed").err


def test_what_has_no_rule_is_not_offered_always(cli: Any) -> None:
    terminal = cli.terminal("ask", tool("Bash", command="touch " + "x" * 10_001))
    assert "always in this thread" not in terminal.read_until(r"Allow it\? \(y/a/n, .*: ")
    terminal.type("t\n")
    assert "allowed once, or for all of this run" in terminal.read_until(r"Allow it\? .*: ")
    terminal.type("n\n")
    assert terminal.end()[0] == 0


def test_a_form_shows_its_headers_and_its_progress_and_what_is_sent(cli: Any) -> None:
    options = [{"label": "Left", "description": ""}, {"label": "Right", "description": "the other"}]
    questions = [
        {"question": f"Which {what}?", "header": f"{what} {HOSTILE}", "options": options, "multiSelect": False}
        for what in ("way", "side")
    ]
    terminal = cli.terminal("ask", tool("AskUserQuestion", questions=questions))
    answer = r"Your answer \(a number.*: "
    assert "1 of 2 · way ␛[2J" in terminal.read_until(answer)
    terminal.type("2\n")
    assert "2 of 2 · side ␛[2J" in terminal.read_until(answer)
    terminal.type("my own\n")
    code, shown = terminal.end()
    assert code == 0
    assert re.search(r"  way ␛.*: Right\n  side ␛.*: my own\n", shown)
    assert "\x1b]52" not in shown


@pytest.mark.parametrize(
    ("scope", "said", "asks_again"),
    [
        ("run", "sent: all of this run is allowed", False),
        ("thread", "sent: always allowed in this thread: Bash(touch made)", False),
        ("once", "sent: Bash is allowed", True),
    ],
)
def test_runs_answer_gives_a_scope(cli: Any, scope: str, said: str, asks_again: bool) -> None:
    cli.api.script.extend([ToolUse("Bash", {"command": "touch made"})] * 2 + [Text("Done.")])
    daemon, [run] = cli.daemon("go")
    cli.until(run, "waiting")
    done = cli.run("runs", "answer", run[:8], "--allow", scope)
    assert (done.code, done.err.splitlines()[0]) == (0, said)
    if asks_again:
        cli.api.wait_for_requests(2, main=True)  # the first answer has reached the agent: what waits now is new
        cli.until(run, "waiting")
        assert cli.run("runs", "answer", "--allow", run[:8]).code == 0, "the word may be left out, also before the ID"
    assert daemon.wait(TIMEOUT_S) == 0


def test_scopes_that_do_not_exist_or_fit_are_refused(cli: Any) -> None:
    for args, words in (
        (["x", "--allow", "for ever"], "clew: 'for ever' is not one of once, run, thread."),
        (["x", "--allow", "--deny"], "clew: Give --allow or --deny, not both."),
    ):
        done = cli.run("runs", "answer", *args)
        assert (done.code, done.err.splitlines()[0]) == (2, words)
