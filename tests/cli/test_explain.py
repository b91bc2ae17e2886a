"""`clew ask --explain`: the exact prompt on stdout, the decision and the price on stderr, and nothing is run."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any
from unittest.mock import ANY

from clew.core.explanation import Explanation
from clew.testing.model.scripts import Hang
from cli.conftest import TIMEOUT_S


def rows(cli: Any) -> list[str]:
    database = sqlite3.connect(cli.stage.clew_home / "clew.db")
    try:
        return list(database.iterdump())
    finally:
        database.close()


def test_the_prompt_alone_is_on_stdout_and_the_rest_on_stderr(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    before, launches = rows(cli), len(cli.stage.launches)

    done = cli.run("ask", "--explain", "-t", "t", "two  “words”\n")

    assert (done.code, done.out) == (0, "two  “words”\n")
    fields = dict(line.split(maxsplit=1) for line in done.err.splitlines()[:-1])
    assert fields["thread"] == "t"
    assert fields["agent"] == "claude claude-sonnet-4-5"
    assert fields["decision"] == "Resumes the session and sends the new prompt alone."
    assert fields["session"] == cli.run("runs", "list", "--json").json[0]["session_id"]
    assert fields["sent"] == "13 characters: the new prompt"
    assert fields["held"].endswith(" tokens in the session, probably still in the cache")
    assert fields["expected"].startswith("about ") and "new tokens, about $0." in fields["expected"]
    assert fields["expected"].endswith(", without the answer")
    assert fields["instead"].startswith("the whole transcript (")
    assert done.err.endswith("\nNothing was run. Tokens and prices are estimates.\n")
    assert (rows(cli), len(cli.stage.launches)) == (before, launches)


def test_what_is_explained_is_what_is_sent(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    (rubric := cli.stage.work / "rubric.md").write_text("Be brief.")
    how = ("-t", "t", "--instructions", str(rubric), "--fresh-session", "-")

    told = cli.run("ask", "--explain", *how, stdin="from a pipe\n")
    asked = cli.run("ask", *how, stdin="from a pipe\n")

    assert told.out == cli.stage.prompt
    assert "decision   Starts a fresh session: a fresh session was asked for." in told.err
    assert (
        "sent       " in told.err
        and "characters: the instructions, 2 turns as the transcript, the new prompt" in told.err
    )
    assert "instead" not in told.err
    assert asked.code == 0


def test_a_new_thread_is_not_created(cli: Any) -> None:
    for how, name in (((), "hello-there"), (("-t", "named"), "named")):
        done = cli.run("ask", "--explain", *how, "Hello there")
        assert (done.code, done.out) == (0, "Hello there")
        assert done.err.startswith(f"thread     {name} (new)\n")
        assert "first turn of the thread" in done.err
        assert "no price is known" in done.err
    assert cli.run("threads", "list", "--json").json == []
    assert cli.stage.launches == []


def test_json_is_one_object_with_every_field(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    told = cli.run("ask", "--explain", "--json", "-t", "t", "two").json
    assert set(told) == set(Explanation._fields)
    assert (told["prompt"], told["resumes"], told["reason"], told["waits_for"]) == ("two", True, None, None)
    assert set(told["expected"]) == set(told["with_transcript"]) == {"cached_tokens", "new_tokens", "cost_usd"}
    assert told["expected"]["cost_usd"] == round(told["expected"]["cost_usd"], 6)


def test_another_directory_is_explained_and_the_thread_stays(cli: Any, tmp_path: Path) -> None:
    cli.run("ask", "-t", "t", "one")
    (elsewhere := tmp_path / "elsewhere").mkdir()
    before = rows(cli)
    done = cli.run("ask", "--explain", "-t", "t", "--cwd", str(elsewhere), "--permissions", "edits", "two")
    assert "the work directory changed" in done.err
    assert rows(cli) == before


def test_a_live_run_is_waited_for(cli: Any) -> None:
    cli.api.script.append(Hang())
    process, [run] = cli.daemon("one")
    cli.until(run, "running")
    done = cli.run("ask", "--explain", "-t", "t", "two")
    assert done.code == 0
    assert f"The run {run} is ahead: the prompt would wait. The decision is made when it starts." in done.err
    assert cli.run("ask", "--explain", "--no-wait", "-t", "t", "two").code == 8
    cli.run("runs", "cancel", run)
    process.communicate(timeout=TIMEOUT_S)


def test_a_run_that_a_crash_left_is_named_and_not_ended(cli: Any) -> None:
    cli.api.script.append(Hang())
    process, [run] = cli.daemon("one")
    cli.until(run, "running")
    process.kill()
    process.wait(TIMEOUT_S)
    before = rows(cli)
    done = cli.run("ask", "--explain", "--json", "-t", "t", "two")
    assert (done.json["unfinished"], done.json["waits_for"]) == (run, None)
    shown = cli.run("ask", "--explain", "-t", "t", "two")
    assert f"The run {run} was left unfinished. It is ended first" in shown.err
    assert rows(cli) == before
    cli.api.script.clear()  # the agent may have been ended before it asked the model
    assert cli.run("ask", "-t", "t", "two").code == 0, "the next command ends it"


def test_what_ask_refuses_is_refused(cli: Any) -> None:
    cli.run("ask", "-t", "t", "one")
    for code, args in (
        (2, ("-t", "t", " ")),
        (2, ("-t", "t", "--agent", "nobody", "two")),
        (2, ("-t", "t", "--model", "-x", "two")),
        (2, ("-t", "t", "--visibility", "own", "two")),
        (2, ("-t", "no name", "two")),
        (2, ("-t", "t", "-c", "two")),
        (2, ("--cwd", "/no/such/place", "two")),
    ):
        done = cli.run("ask", "--explain", *args)
        assert (done.code, done.out) == (code, ""), args
        assert "Traceback" not in done.err
    refused = cli.run("ask", "--explain", "--json", "-t", "t", " ")
    assert refused.json == {"error": {"code": "usage", "message": "The prompt is empty.", "hint": ANY}}


def test_a_missing_agent_is_named(cli: Any) -> None:
    done = cli.run("ask", "--explain", "one", CLEW_AGENTS_CLAUDE_PATH="/no/such/claude")
    assert (done.code, done.out) == (3, "")
    assert "/no/such/claude" in done.err
