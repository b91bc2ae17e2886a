"""On a terminal: the user is asked questions, and a status line shows what the agent does."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

import pytest

from clew.cli.ui.printing import print_json
from clew.testing.model.scripts import Text, ToolUse
from cli.conftest import TIMEOUT_S

ASKED = r"Allow it\? \(y/a/t/n, \? explains, or why not\): "
TOUCH = '!tool Bash {"command": "touch made"}'
FORM = {
    "questions": [
        {
            "question": "Which database?",
            "header": "DB",
            "options": [{"label": "Postgres", "description": "big"}, {"label": "SQLite", "description": "small"}],
            "multiSelect": False,
        },
        {
            "question": "Which parts?",
            "header": "Parts",
            "options": [{"label": "API", "description": ""}, {"label": "Page", "description": ""}],
            "multiSelect": True,
        },
    ]
}


def test_a_permission_is_asked_and_given(both: Any) -> None:
    terminal = both.terminal("ask", "-t", "t", TOUCH)

    shown = terminal.read_until(ASKED)
    assert "Bash asks for permission:" in shown
    assert "$ touch made" in shown
    terminal.type("y\n")
    code, _ = terminal.end()

    assert code == 0
    assert (both.stage.work / "made").exists()


def test_a_permission_is_declined_with_a_sentence(both: Any) -> None:
    terminal = both.terminal("ask", "-t", "t", TOUCH)
    terminal.read_until(ASKED)
    terminal.type("use the other folder\n")
    code, _ = terminal.end()

    assert code == 0
    assert not (both.stage.work / "made").exists()
    assert "use the other folder" in str(both.api.main_requests[-1].body)


def test_an_empty_line_is_no_answer_and_n_declines(cli: Any) -> None:
    terminal = cli.terminal("ask", TOUCH)
    terminal.read_until(ASKED)
    for nothing in ("\n", "?\n"):
        terminal.type(nothing)
        assert "anything else  Decline, and tell the agent why" in terminal.read_until(ASKED)
    terminal.type("n\n")

    assert terminal.end()[0] == 0
    assert not (cli.stage.work / "made").exists()


@pytest.mark.parametrize("word", ["yes", "OK", "Sure"])
def test_words_that_mean_yes_are_not_a_refusal(cli: Any, word: str) -> None:
    terminal = cli.terminal("ask", TOUCH)
    terminal.read_until(ASKED)
    terminal.type(f"{word}\n")

    assert terminal.end()[0] == 0
    assert (cli.stage.work / "made").exists()


@pytest.mark.rest
def test_all_allows_the_rest_of_the_run_but_answers_no_form(both: Any) -> None:
    both.api.script.extend(
        [
            ToolUse("Bash", {"command": "touch made"}),
            ToolUse("Bash", {"command": "touch more"}),
            ToolUse("AskUserQuestion", {"questions": FORM["questions"][:1]}),
            Text("Done."),
        ]
    )
    terminal = both.terminal("ask", "-t", "t", "go")
    terminal.read_until(ASKED)
    terminal.type("a\n")
    assert "Allow it?" not in terminal.read_until(r"Your answer \(a number.*: ")
    terminal.type("1\n")

    assert terminal.end()[0] == 0
    assert (both.stage.work / "more").exists()
    again = both.terminal("ask", "-t", "t", TOUCH)
    again.read_until(ASKED)
    again.type("n\n")
    assert again.end()[0] == 0


def test_every_tool_leaves_a_line(both: Any) -> None:
    fails = '!tool Bash {"command": "ls /nowhere/at/all"}'
    code, shown = both.terminal("ask", "-t", "t", "--permissions", "all", fails).end()
    assert code == 0
    assert "\x1b[2m· Bash ls /nowhere/at/all  failed\x1b[0m" in shown

    terminal = both.terminal("ask", "-t", "t", "--permissions", "ask", TOUCH)
    terminal.read_until(ASKED)
    terminal.type("n\n")
    assert "· Bash touch made  declined" in terminal.end()[1]

    terminal = both.terminal("ask", "-t", "t", TOUCH)
    terminal.read_until(ASKED)
    terminal.type("y\n")
    assert "· Bash touch made\x1b" in terminal.end()[1]


def test_a_form_is_answered_by_numbers_and_by_own_words(both: Any) -> None:
    terminal = both.terminal("ask", f"!tool AskUserQuestion {json.dumps(FORM)}")

    shown = terminal.read_until(r"Your answer \(a number.*: ")
    assert "Which database?" in shown
    assert "2. SQLite: small" in shown
    terminal.type("7\n")
    terminal.read_until(r"There are 2 options")
    terminal.type("2\n")
    terminal.read_until(r"Your answer \(numbers.*: ")
    terminal.type("1, 2\n")
    code, _ = terminal.end()

    assert code == 0
    printed = str(both.api.main_requests[-1].body)
    assert "SQLite" in printed
    assert "API, Page" in printed


def test_text_of_the_agent_cannot_overwrite_the_question(cli: Any) -> None:
    hidden = json.dumps({"command": "touch made\x1b[2K\x1b[1Aecho harmless"})
    terminal = cli.terminal("ask", f"!tool Bash {hidden}")

    shown = terminal.read_until(ASKED)
    assert "touch made␛[2K␛[1Aecho harmless" in shown
    terminal.type("n\n")
    assert terminal.end()[0] == 0


def test_a_long_input_is_cut_and_can_be_viewed(cli: Any) -> None:
    command = "echo " + "x" * 30_000 + " && touch made"
    terminal = cli.terminal("ask", f"!tool Bash {json.dumps({'command': command})}")

    shown = terminal.read_until(r"v views all, .*: ")
    assert "more characters" in shown
    assert "touch made" not in shown
    terminal.type("v\n")
    assert "touch made" in terminal.read_until(r"v views all, .*: ")
    terminal.type("n\n")
    assert terminal.end()[0] == 0


def test_ctrl_c_at_a_question_cancels_the_run(cli: Any) -> None:
    terminal = cli.terminal("ask", "-t", "t", TOUCH)
    terminal.read_until(ASKED)
    terminal.type("\x03")
    code, shown = terminal.end()

    assert code == 7
    assert "^C\nstopping…" in shown
    assert not (cli.stage.work / "made").exists()


def test_the_end_of_input_at_a_question_declines(cli: Any) -> None:
    terminal = cli.terminal("ask", TOUCH)
    terminal.read_until(ASKED)
    terminal.type("\x04")

    code, shown = terminal.end()
    assert code == 0
    assert "\n(nobody answered: declined)\n" in shown
    assert "Nobody is there" in str(cli.api.main_requests[-1].body)


@pytest.mark.rest
def test_the_status_line_shows_what_the_agent_does_and_does_not_overwrite_the_answer(cli: Any) -> None:
    gate = cli.stage.work / "gate"
    os.mkfifo(gate)
    terminal = cli.terminal("ask", "--permissions", "all", '!tool Bash {"command": "cat gate"}')

    terminal.read_until(r"running Bash: cat gate")
    gate.write_text("open\n")
    code, shown = terminal.end()
    assert code == 0
    assert "done: " in shown
    assert shown.rstrip().splitlines()[-1].startswith("fresh: first turn of the thread · ")


def test_waiting_for_the_thread_shows_on_a_terminal_too(cli: Any) -> None:
    first = cli.start("ask", "-t", "t", "!hang start")
    cli.api.wait_for_hanging(1)
    terminal = cli.terminal("ask", "-t", "t", "second")
    terminal.read_until(r"waiting for the thread: run ")
    cli.api.release()
    first.communicate(timeout=TIMEOUT_S)

    code, shown = terminal.end()
    assert code == 0
    assert "ack: second" in shown


@pytest.mark.parametrize(
    ("args", "missing", "how"),
    [
        (["ask"], "There is no prompt.", 'clew ask "…"'),
        (["jobs", "submit"], "There is no prompt.", 'clew jobs submit "…"'),
        (["threads", "edit", "t", "1f", "-"], "There is no text.", 'clew threads edit t 1f "…"'),
        (["runs", "edit", "1f", "-"], "There is no text.", 'clew runs edit 1f "…"'),
        (["ask", "--instructions", "-", "x"], "There are no instructions", "--instructions FILE"),
    ],
)
def test_a_command_without_a_text_says_on_a_terminal_how_to_give_one(
    cli: Any, args: list[str], missing: str, how: str
) -> None:
    code, shown = cli.terminal(*args).end()

    assert code == 2
    assert missing in shown
    assert how in shown


@pytest.mark.rest
def test_delete_asks_on_a_terminal(cli: Any) -> None:
    cli.run("ask", "-t", "t", "hello")

    terminal = cli.terminal("threads", "delete", "t")
    terminal.read_until(r"Delete 1 thread\? \[y/N\]: ")
    terminal.type("n\n")
    assert terminal.end()[0] == 7
    terminal = cli.terminal("threads", "delete", "t")
    terminal.read_until(r"Delete 1 thread\? \[y/N\]: ")
    terminal.type("y\n")
    assert terminal.end()[0] == 0
    assert cli.run("threads", "list", "--json").json == []


class Screen(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("in_line", [False, True])
def test_json_on_a_terminal_cannot_control_it_and_is_the_same_value(
    monkeypatch: pytest.MonkeyPatch, in_line: bool
) -> None:
    controls = [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F)]
    driving = "".join(map(chr, [*controls, *range(0x2066, 0x206A), 0xFEFF]))
    value = {f"key {driving}": [f"{driving} ä 👩\u200d🚀"], "plain": "ä 👩\u200d🚀 \u202e"}
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    print_json({"plain": value["plain"]}, in_line=in_line)
    assert "ä 👩\u200d🚀 \\u202e" in screen.getvalue(), "what is harmless stays readable"
    screen.truncate(0)
    screen.seek(0)
    print_json(value, in_line=in_line)
    assert json.loads(screen.getvalue()) == value
    assert not set(screen.getvalue()) & set(driving.replace("\n", ""))
