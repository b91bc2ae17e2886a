"""`clew threads sync`: turns that were made outside Clew are reported, and come in when they are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from cli.conftest import TIMEOUT_S
from plain_cli import continue_outside, message_ids

TOOL = '!tool Bash {"command": "echo hi", "description": "greets"}'


@pytest.fixture
def talk(cli: Any) -> Any:
    """Two turns and their answers."""
    cli.run("ask", "-t", "talk", "one")
    cli.run("ask", "-t", "talk", "two")
    return cli


def outside(cli: Any, prompt: str, *flags: str) -> str:
    """Continues the newest session in the plain CLI, and returns its id."""
    session_id = str(cli.run("runs", "list", "--json").json[0]["session_id"])
    continue_outside(cli.stage.binary, session_id, prompt, *flags, environ=cli.environ(), cwd=cli.stage.work)
    return session_id


def texts(cli: Any) -> list[str]:
    return [turn["text"] for turn in cli.turns("talk")]


def test_show_only_reports_outside_turns_and_sync_brings_them_in(talk: Any) -> None:
    outside(talk, "from a terminal")

    shown = talk.run("threads", "show", "talk")
    line = "outside: 2 turns were made outside Clew; the next turn, or clew threads sync talk, brings them in"
    assert f"{line}\nnext turn: Resumes the session" in shown.out
    assert shown.out.count("made outside Clew") == 1
    assert talk.run("threads", "show", "talk", "--json").json["outside_turns"] == 2
    assert texts(talk) == ["one", "ack: one", "two", "ack: two"], "a read changes nothing"

    done = talk.run("threads", "sync", "talk")
    assert (done.code, done.err) == (0, "2 turns were made outside Clew and came into talk\n")
    assert [line.split("  ")[-1] for line in done.out.splitlines()] == ["from a terminal", "ack: from a terminal"]
    assert texts(talk)[4:] == ["from a terminal", "ack: from a terminal"]
    shown = talk.run("threads", "show", "talk")
    assert shown.out.count("(outside)") == 2 and "outside: " not in shown.out
    assert [turn["outside"] for turn in talk.turns("talk")] == [False] * 4 + [True] * 2

    again = talk.run("threads", "sync", "talk")
    assert again.err == "Nothing to bring in: talk has every turn of its session.\n"
    again = talk.run("threads", "sync", "talk", "--json")
    assert again.json == {"thread": "talk", "turns": [], "compacted": False, "branched": []}
    asked = talk.run("ask", "-t", "talk", "three", "--json").json
    assert (asked["session_resumed"], asked["reason"], talk.stage.prompt) == (True, None, "three")


def test_ask_brings_them_in_by_itself_and_says_so(talk: Any) -> None:
    outside(talk, "from a terminal")

    asked = talk.run("ask", "-t", "talk", "three")

    said = "2 turns were made outside Clew in this thread's session, and are in the thread now."
    assert said in asked.err.splitlines(), "it is not a warning: it went as intended"
    assert asked.err.splitlines()[-1].startswith("resumed · ")
    assert texts(talk)[4:] == ["from a terminal", "ack: from a terminal", "three", "ack: three"]


def test_a_dry_run_changes_nothing_and_the_latest_thread_of_the_directory_is_the_default(talk: Any) -> None:
    outside(talk, "from a terminal")

    planned = talk.run("threads", "sync", "--dry-run", "--json").json

    assert [(turn["role"], turn["text"]) for turn in planned["turns"]] == [
        ("user", "from a terminal"),
        ("assistant", "ack: from a terminal"),
    ]
    assert len(texts(talk)) == 4
    done = talk.run("threads", "sync")
    assert "2 turns were made outside Clew and came into talk" in done.err


@pytest.mark.rest
def test_without_a_thread_of_the_directory_one_must_be_named(cli: Any, tmp_path: Any) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    done = cli.run("threads", "sync", "--json", cwd=elsewhere)

    assert (done.code, done.json["error"]["code"]) == (2, "not_found")
    assert done.json["error"]["message"] == "This directory has no threads yet."


def test_tool_calls_and_usage_come_along_and_are_not_counted_as_clews(talk: Any) -> None:
    before = talk.run("stats", "--json").json
    outside(talk, TOOL)

    talk.run("threads", "sync", "talk")

    [run, *_] = talk.run("runs", "list", "--json").json
    assert (run["outside"], run["status"], run["prompt"]) == (True, "answered", TOOL)
    assert run["usage"]["output_tokens"] > 0
    shown = talk.run("runs", "show", run["id"])
    assert "made outside Clew" in shown.out and "echo hi" in shown.out
    assert "outside" in talk.run("runs", "list").out.splitlines()[1]
    assert talk.run("stats", "--json").json == before, "what was done outside Clew is not Clew's"


def test_a_compacted_session_is_said(talk: Any) -> None:
    outside(talk, "/compact")

    done = talk.run("threads", "sync", "talk")

    assert "A session was compacted outside Clew: it holds the earlier turns only as a summary." in done.err
    assert texts(talk) == ["one", "ack: one", "two", "ack: two"], "the thread still has all of them"


def test_a_session_that_branched_off_is_named_and_can_be_adopted(talk: Any) -> None:
    [path] = talk.stage.session_files()
    session_id = outside(talk, "another way", f"--resume-session-at={message_ids(path)[0]}")

    done = talk.run("threads", "sync", "talk")

    assert done.err.startswith(f"The session {session_id} was continued outside Clew from an earlier turn")
    assert f"`clew sessions adopt {session_id}`" in done.err
    assert talk.run("threads", "sync", "talk", "--json").json["branched"] == [session_id]
    adopted = talk.run("sessions", "adopt", session_id, "--json").json[0]
    assert [turn["text"] for turn in talk.turns(adopted["thread"])] == [
        "one",
        "ack: one",
        "another way",
        "ack: another way",
    ]
    assert texts(talk) == ["one", "ack: one", "two", "ack: two"]


@pytest.mark.rest
def test_it_is_refused_while_a_run_is_active(cli: Any) -> None:
    daemon, _ = cli.daemon("!hang text so far")
    cli.api.wait_for_hanging(1)

    done = cli.run("threads", "sync", "t", "--json")

    assert (done.code, done.json["error"]["code"]) == (8, "busy")
    assert cli.run("threads", "sync", "t", "--dry-run").code == 0, "a read is possible at any time"
    cli.api.release()
    assert daemon.wait(TIMEOUT_S) == 0
