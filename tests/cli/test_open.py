"""`clew open` without a TUI: what it would do, and what it refuses. With one: tests/turns/outside/test_open.py."""

from __future__ import annotations

import time
from typing import Any

import pytest

from clew.testing.stage import MODEL
from cli.conftest import TIMEOUT_S

TURN_FIRST = "A turn would come first, which hands the conversation over."


@pytest.fixture
def talk(cli: Any) -> Any:
    assert cli.run("ask", "-t", "t", "one").code == 0
    return cli


def test_it_needs_a_terminal(talk: Any) -> None:
    done = talk.run("open", "t")
    assert (done.code, done.out) == (2, "")
    assert "clew open needs a terminal." in done.err and "--dry-run" in done.err
    done = talk.run("open", "t", "--json")
    assert done.code == 2 and "--json needs --dry-run" in done.err


def test_a_dry_run_says_which_session_and_command_and_changes_nothing(talk: Any) -> None:
    [session] = talk.run("threads", "show", "t", "--json").json["sessions"]
    before = talk.run("threads", "list", "--json").json
    done = talk.run("open", "--dry-run")
    assert done.out == f"t  claude {MODEL}  {talk.stage.work}\n{session['command']}\n"
    shown = talk.run("open", "t", "--dry-run", "--json").json
    assert (shown["session_id"], shown["needs_turn"], shown["new_session"]) == (session["id"], False, False)
    assert (shown["command"], shown["reason"]) == (session["command"], None)
    assert talk.run("threads", "list", "--json").json == before
    assert talk.run("open", "t", "--explain", "Hello.").out.count("The message would be asked first") == 1


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ([], ["--model", "opus"]),
        (["threads", "edit", "t", "1", "another prompt"], []),
        (["threads", "set", "t", "--instructions", "new.txt"], []),
    ],
    ids=["model", "edit", "instructions"],
)
def test_a_session_that_lacks_something_needs_a_turn_first(talk: Any, change: list[str], options: list[str]) -> None:
    (talk.stage.work / "new.txt").write_text("Be brief.")
    if change:
        assert talk.run(*change).code == 0
    done = talk.run("open", "t", "--dry-run", *options)
    assert TURN_FIRST in done.out and " && " not in done.out
    shown = talk.run("open", "t", "--dry-run", "--json", *options).json
    assert (shown["needs_turn"], shown["session_id"], shown["command"]) == (True, None, None)


def test_what_cannot_be_opened_is_one_clear_line(talk: Any) -> None:
    assert "no thread named nowhere" in talk.run("open", "nowhere", "--dry-run").err
    done = talk.run("open", "t", "--agent", "nobody", "--dry-run")
    assert done.code == 2 and "There is no agent 'nobody'" in done.err
    done = talk.run("open", "t", "--dry-run", PATH="/nowhere", CLEW_AGENTS_CLAUDE_PATH="/no/claude")
    assert (done.code, done.out) == (3, "") and "/no/claude" in done.err

    talk.stage.work.rename(talk.stage.folder / "gone")
    done = talk.run("open", "t", "--dry-run", cwd=talk.stage.folder)
    assert (done.code, done.out) == (2, "")
    assert "is no longer the same directory.\n  clew threads set t --cwd DIR names another." in done.err


def test_a_thread_with_a_run_is_not_opened(talk: Any) -> None:
    process, [run] = talk.daemon("!slow 1000 0.1")
    talk.until(run, "running")
    deadline = time.monotonic() + TIMEOUT_S
    while len(talk.run("threads", "show", "t", "--json").json["turns"]) < 3:  # the prompt of the run is a turn:
        assert time.monotonic() < deadline, run  # the session lacks it, but nobody is asked for a message
    code, shown = talk.terminal("open", "t").end()
    assert code == 8 and "Another run is in progress in t." in shown and "Your message" not in shown
    shown = talk.run("open", "t", "--dry-run").out
    assert "It cannot be opened now. Another run is in progress in t." in shown
    assert talk.run("open", "t", "--dry-run", "--json").json["busy"] == "Another run is in progress in t."
    talk.run("runs", "cancel", run)
    assert process.wait(TIMEOUT_S) == 0
