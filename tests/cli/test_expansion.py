"""`@path` and `/command` in what is typed for `clew ask`, and in the arguments of other commands."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def desk(cli: Any) -> Any:
    (cli.stage.work / "a.txt").write_text("one\ntwo\n")
    commands = cli.stage.home / ".claude/commands"
    commands.mkdir(parents=True)
    (commands / "plan.md").write_text("Plan $ARGUMENTS well.\n")
    return cli


def test_what_was_typed_is_shown_and_what_it_stands_for_is_sent(desk: Any) -> None:
    done = desk.run("ask", "-t", "t", "/plan it with @a.txt#L2", stdin="@a.txt piped")
    assert done.code == 0, done.err
    prompt = desk.stage.prompt
    assert prompt.startswith("Plan it with @a.txt#L2 well.\n\nThe files") and "2\ttwo" in prompt
    assert prompt.endswith("\n@a.txt piped") and "1\tone" not in prompt
    assert "@a.txt piped" in desk.run("threads", "show", "t").out
    [turn, _] = desk.run("threads", "show", "t", "--json").json["turns"]
    assert (turn["typed"], turn["text"]) == (None, prompt), "so that an edit begins with all of it"
    desk.run("ask", "-t", "u", "/plan it")
    assert "/plan it" in desk.run("threads", "show", "u").out


def test_a_prompt_that_is_refused_makes_no_thread(desk: Any) -> None:
    for prompt, says in (
        ("/plann", "There is no command /plann (did you mean plan?)."),
        ("/model opus", "Clew has no /model"),
        ("see @/etc/passwd", "is outside the work directory"),
        ("/clear", "/clear needs a thread that exists."),
    ):
        done = desk.run("ask", "-t", "t", prompt)
        assert (done.code, done.out) == (2, "") and says in done.err and "Traceback" not in done.err
    assert desk.run("threads", "list", "--json").json == []
    assert desk.run("ask", "-t", "t", " /plann").code == 0


def test_clear_and_compact_act_on_the_thread(desk: Any) -> None:
    desk.run("ask", "-t", "t", "my name is Ada")
    done = desk.run("ask", "-t", "t", "/clear", stdin="piped")
    assert done.code == 2 and "/clear asks the agent nothing" in done.err
    done = desk.run("ask", "-t", "t", "/clear")
    assert (done.code, done.err) == (0, "t begins anew: 2 turns archived, nothing deleted\n")
    done = desk.run("ask", "-t", "t", "/compact")
    assert (done.code, done.err) == (0, "the next turn of t would resume no session: there is nothing to compact\n")
    assert "fresh" in desk.run("ask", "-t", "t", "hello").err


def test_explain_shows_the_expanded_prompt(desk: Any) -> None:
    assert "Plan this well." in desk.run("ask", "--explain", "/plan this").out


def test_jobs_and_reviews_expand_what_was_typed(desk: Any) -> None:
    desk.run("jobs", "submit", "/plan it")
    assert desk.run("jobs", "list", "--json").json[0]["prompt"] == "Plan it well."
    done = desk.run("review", "start", "--focus", "/nosuch")
    assert done.code == 2 and "There is no command /nosuch" in done.err


def test_a_mention_is_allowed_once_because_there_is_no_run_yet(desk: Any) -> None:
    (desk.stage.folder / "notes.txt").write_text("FROM OUTSIDE\n")
    terminal = desk.terminal("ask", "-t", "t", "see @../notes.txt")
    terminal.read_until(r"Allow it\? \(y/n.*: ")
    terminal.type("a\n")
    terminal.read_until("can be allowed once only")
    terminal.type("y\n")
    ended, shown = terminal.end()
    assert ended == 0 and "all of this run" not in shown


@pytest.mark.parametrize(("typed", "code", "is_sent"), [("y\n", 0, True), ("n\n", 2, False)])
def test_a_file_outside_is_read_after_the_person_allowed_it(desk: Any, typed: str, code: int, is_sent: bool) -> None:
    (desk.stage.folder / "notes.txt").write_text("FROM OUTSIDE\n")
    terminal = desk.terminal("ask", "-t", "t", "see @../notes.txt")
    terminal.read_until(r"notes\.txt")
    terminal.read_until(r"Allow it\? .*: ")
    terminal.type(typed)
    ended, shown = terminal.end()
    assert ended == code, shown
    assert any("FROM OUTSIDE" in str(request.body) for request in desk.api.main_requests) is is_sent
