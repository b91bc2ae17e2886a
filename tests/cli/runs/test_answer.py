"""`clew runs answer`: answers the question of a run in another process, even if that process has died."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import clew
from cli.conftest import TIMEOUT_S

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
ASK_FORM = f"!tool AskUserQuestion {json.dumps(FORM)}"
ASK_ONE = f"!tool AskUserQuestion {json.dumps({'questions': FORM['questions'][:1]})}"
ASKED = r"Allow it\? \(y/a/t/n, \? explains, or why not\): "


def waiting(cli: Any, prompt: str, thread: str = "t") -> tuple[Any, str]:
    """A process whose run waits for an answer."""
    daemon, [run] = cli.daemon(prompt, thread=thread)
    cli.until(run, "waiting")
    return daemon, run


@pytest.mark.rest
def test_a_permission_is_given_to_a_run_of_another_process(both: Any) -> None:
    daemon, run = waiting(both, TOUCH)

    done = both.run("runs", "answer", run[:8], "--allow")

    assert done.code == 0, done.err
    assert f"answered; run {run[:8]} continues" in done.err
    assert daemon.wait(TIMEOUT_S) == 0
    assert (both.stage.work / "made").exists()
    assert both.run("runs", "show", run, "--json").json["questions"] == []


def test_a_permission_is_declined_with_a_sentence_for_the_agent(cli: Any) -> None:
    daemon, _ = waiting(cli, TOUCH)

    done = cli.run("runs", "answer", "--deny", "--message", "Leave it alone.", "--json")

    assert done.code == 0
    assert done.json["follow_up"] is None
    assert (done.json["question"]["tool"], done.json["question"]["live"]) == ("Bash", True)
    assert daemon.wait(TIMEOUT_S) == 0
    assert not (cli.stage.work / "made").exists()
    assert "Leave it alone." in str(cli.api.main_requests[-1].body)


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        (["Which database?=SQLite", "Which parts?=API, Page"], ["SQLite", "API, Page"]),
        (["1=2", "2=1 2"], ["SQLite", "API, Page"]),
        (["DB=1", "Parts=my own = words"], ["Postgres", "my own = words"]),
    ],
)
def test_a_form_is_answered_by_text_by_number_and_by_own_words(cli: Any, given: list[str], printed: list[str]) -> None:
    daemon, run = waiting(cli, ASK_FORM)

    done = cli.run("runs", "answer", run, *[part for each in given for part in ("--answer", each)])

    assert done.code == 0, done.err
    assert daemon.wait(TIMEOUT_S) == 0
    shown = str(cli.api.main_requests[-1].body)
    assert all(words in shown for words in printed), shown


@pytest.mark.rest
def test_the_only_question_of_a_form_needs_no_name_and_a_form_can_be_declined(cli: Any) -> None:
    daemon, run = waiting(cli, ASK_ONE)
    assert cli.run("runs", "answer", run, "--answer", "Whatever fits").code == 0
    assert daemon.wait(TIMEOUT_S) == 0
    assert "Whatever fits" in str(cli.api.main_requests[-1].body)

    daemon, run = waiting(cli, ASK_ONE)
    assert cli.run("runs", "answer", run, "--deny").code == 0
    assert daemon.wait(TIMEOUT_S) == 0
    assert "did not answer the questions" in str(cli.api.main_requests[-1].body)


@pytest.mark.parametrize("given", ["Which datbase?=whatever fits", "Colour=SQLite", "colour = sqlite", "db=mine"])
def test_a_typing_error_in_the_name_of_the_only_question_is_not_an_answer(cli: Any, given: str) -> None:
    daemon, run = waiting(cli, ASK_ONE)

    done = cli.run("runs", "answer", run, "--answer", given)

    assert done.code == 2
    assert "names none of the questions" in done.err
    assert "1. Which database?" in done.err
    done = cli.run("runs", "answer", run, "--answer", f"1={given}")
    assert done.code == 0, "named, it may be any words"
    assert f"sent: Which database? {given}\n" in done.err
    assert daemon.wait(TIMEOUT_S) == 0
    assert given in str(cli.api.main_requests[-1].body)


@pytest.mark.rest
def test_the_answer_that_was_sent_is_printed(cli: Any) -> None:
    daemon, run = waiting(cli, ASK_ONE)
    assert "sent: Which database? SQLite\n" in cli.run("runs", "answer", run, "--answer", "2").err
    assert daemon.wait(TIMEOUT_S) == 0
    daemon, run = waiting(cli, ASK_ONE)
    assert "sent: Which database? x=y\n" in cli.run("runs", "answer", run, "--answer", "x=y").err
    assert daemon.wait(TIMEOUT_S) == 0
    daemon, run = waiting(cli, TOUCH)
    assert "sent: declined: Not now.\n" in cli.run("runs", "answer", run, "--deny", "--message", "Not now.").err
    assert daemon.wait(TIMEOUT_S) == 0


@pytest.mark.rest
def test_options_that_do_not_fit_are_refused_and_the_question_stays_open(cli: Any) -> None:
    _, form = waiting(cli, ASK_FORM, thread="form")
    _, permission = waiting(cli, TOUCH, thread="permission")

    for run, args, words in (
        (form, ["--allow"], "This question is not answered: Which database?"),
        (form, ["--answer", "1=1"], "This question is not answered: Which parts?"),
        (form, ["--answer", "Which colour?=red"], "'Which colour?=red' names none of the questions."),
        (form, ["--answer", "1=7", "--answer", "2=1"], "'7' does not answer the question Which database?"),
        (form, ["--answer", "1=1", "--deny"], "--deny leaves a form unanswered."),
        (permission, ["--answer", "yes"], "Bash wants a permission, not answers."),
        (permission, ["--allow", "--message", "x"], "--message needs --deny."),
        (permission, ["--message", "x"], "--message needs --deny."),
    ):
        done = cli.run("runs", "answer", run, *args)
        assert (done.code, done.err.splitlines()[0]) == (2, f"clew: {words}")
    for run in (form, permission):
        assert len(cli.run("runs", "show", run, "--json").json["questions"]) == 1
        cli.run("runs", "cancel", run)


def test_the_suggested_command_is_quoted_for_the_shell(cli: Any) -> None:
    tricky = [{"question": "Is $(touch oops) `it`?", "header": "x", "options": [{"label": "y'; touch oops"}, "no"]}]
    daemon, _ = waiting(cli, f"!tool AskUserQuestion {json.dumps({'questions': tricky})}")

    hint = cli.run("runs", "answer").err.splitlines()[1]
    command = hint.partition("Give the answer as options: clew ")[2].partition(", or --deny")[0]
    code, _ = cli.shell(f"clew {command}").end()

    assert code == 0
    assert daemon.wait(TIMEOUT_S) == 0
    assert not (cli.stage.work / "oops").exists()
    assert "y'; touch oops" in cli.api.main_requests[-1].body["messages"][-1]["content"][0]["content"]


def test_without_a_terminal_it_prints_the_question_and_the_options_that_answer_it(cli: Any) -> None:
    _, form = waiting(cli, ASK_ONE)

    done = cli.run("runs", "answer")

    assert done.code == 2
    assert "Which database? 1. Postgres: big 2. SQLite: small" in done.err
    assert f"clew runs answer {form[:8]} --answer 'Which database?=Postgres', or --deny" in done.err
    assert len(done.err.splitlines()) == 2
    assert cli.run("runs", "answer", "--json").json["error"]["code"] == "usage"
    cli.run("runs", "cancel", form)


def test_on_a_terminal_it_asks_as_ask_does(cli: Any) -> None:
    daemon, _ = waiting(cli, TOUCH)
    terminal = cli.terminal("runs", "answer")
    assert "$ touch made" in terminal.read_until(ASKED)
    terminal.type("leave it\n")

    code, shown = terminal.end()

    assert code == 0
    assert "answered; run " in shown
    assert daemon.wait(TIMEOUT_S) == 0
    assert not (cli.stage.work / "made").exists()
    assert "The user declined, and says: leave it" in str(cli.api.main_requests[-1].body)


@pytest.mark.usefixtures("columns")
def test_a_form_is_filled_in_on_a_terminal(cli: Any) -> None:
    daemon, run = waiting(cli, ASK_ONE)
    terminal = cli.terminal("runs", "answer", run)
    assert "2. SQLite: small" in terminal.read_until(r"Your answer \(a number.*: ")
    terminal.type("2\n")

    assert terminal.end()[0] == 0
    assert daemon.wait(TIMEOUT_S) == 0
    assert "SQLite" in str(cli.api.main_requests[-1].body)


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_leaving_the_terminal_leaves_the_question_open(cli: Any, key: str) -> None:
    _, run = waiting(cli, TOUCH)
    terminal = cli.terminal("runs", "answer")
    terminal.read_until(ASKED)
    terminal.type(key)

    assert terminal.end()[0] == 7
    shown = cli.run("runs", "show", run, "--json").json
    assert (shown["status"], len(shown["questions"])) == ("waiting", 1)
    cli.run("runs", "cancel", run)


def test_a_question_in_another_terminal_can_be_answered_here(cli: Any) -> None:
    terminal = cli.terminal("ask", "-t", "t", TOUCH)
    terminal.read_until(r"Allow it\?.*: ")

    assert cli.run("runs", "answer", "--allow").code == 0

    code, shown = terminal.end()
    assert code == 0
    assert shown.startswith("\n"), "what follows begins a line"
    assert "· Bash touch made" in shown
    assert (cli.stage.work / "made").exists()


@pytest.mark.rest
def test_one_of_several_questions_must_be_named(cli: Any) -> None:
    _, one = waiting(cli, TOUCH, thread="one")
    _, two = waiting(cli, ASK_ONE, thread="two")

    done = cli.run("runs", "answer", "--allow")

    assert done.code == 2
    assert "clew: 2 questions are open." in done.err
    rows = {line.split()[0]: line for line in done.err.splitlines()[:3]}
    assert "Bash wants permission: touch made" in rows[one[:8]]
    assert "Which database?" in rows[two[:8]]
    [asked] = cli.run("runs", "show", one, "--json").json["questions"]
    assert cli.run("runs", "answer", "--question", asked["id"], "--allow").code == 0
    cli.run("runs", "cancel", two)


@pytest.mark.rest
def test_a_question_that_is_not_open_cannot_be_answered(cli: Any) -> None:
    assert cli.run("runs", "answer", "--allow").err.startswith("clew: No question is open.\n")
    quiet = cli.run("ask", "-t", "t", "hello", "--json").json["run"]
    done = cli.run("runs", "answer", quiet, "--allow")
    assert (done.code, done.err.splitlines()[0]) == (2, f"clew: Run {quiet[:8]} has not asked anything.")
    daemon, run = waiting(cli, TOUCH)
    unknown = cli.run("runs", "answer", run, "--question", "nonsense", "--allow", "--json")
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "not_found")
    [asked] = cli.run("runs", "show", run, "--json").json["questions"]
    assert cli.run("runs", "answer", run, "--deny").code == 0
    assert daemon.wait(TIMEOUT_S) == 0

    for args in ([run], [run, "--question", asked["id"]]):
        again = cli.run("runs", "answer", *args, "--allow", "--json")
        assert (again.code, again.json["error"]["code"]) == (2, "conflict")
        assert "is already answered" in again.json["error"]["message"]
    assert not (cli.stage.work / "made").exists()


@pytest.mark.rest
def test_the_question_of_a_killed_process_is_answered_by_a_message_to_its_session(both: Any) -> None:
    first = both.run("ask", "-t", "t", "first question", "--json").json
    daemon, run = waiting(both, ASK_ONE)
    daemon.kill()
    daemon.wait()

    done = both.run("runs", "answer", run[:8], "--answer", "1=Postgres")

    assert done.code == 0, done.err
    assert f"run {run[:8]} has ended: the answer goes to its session as a message" in done.err
    assert done.err.splitlines()[-1].startswith("resumed · ")
    assert both.stage.launches[-1].resumes == first["session_id"]
    assert "Which database?: Postgres" in both.stage.prompt
    assert done.out.strip() == both.turns("t")[-1]["text"]
    assert both.run("runs", "list", "--json").json[0]["prompt"] == both.turns("t")[-2]["text"]
    assert both.run("runs", "answer", run, "--answer", "2", "--json").json["error"]["code"] == "conflict"


def test_the_follow_up_of_a_killed_process_is_one_object_in_json(cli: Any) -> None:
    daemon, run = waiting(cli, TOUCH)
    daemon.kill()
    daemon.wait()
    shown = cli.run("runs", "list")
    assert "waiting, its process is gone, asks you" in shown.out
    assert "asks you" in cli.run("threads", "list").out

    done = cli.run("runs", "answer", "--deny", "--message", "Leave it.", "--json")

    assert done.code == 0
    assert (done.json["question"]["run_id"], done.json["question"]["live"]) == (run, False)
    assert (done.json["follow_up"]["status"], done.json["follow_up"]["session_resumed"]) == ("answered", True)
    assert "It was declined. Leave it." in cli.stage.prompt


async def test_an_answer_to_a_killed_process_is_passed_on_once(cli: Any) -> None:
    """The process that gave the answer and a daemon that finds it undelivered may both try."""
    daemon, run = waiting(cli, TOUCH)
    daemon.kill()
    daemon.wait()
    async with cli.stage.open() as one, cli.stage.open() as other:
        [asked] = await one.views.questions()
        answer = clew.Answer(allow=False, message="Leave it.")
        await one.engine.store.call(lambda store: store.questions.reply(run, asked.id, answer, 0.0))

        tried = await asyncio.gather(one.take_up(), other.take_up(), return_exceptions=True)

        started = [each for each in tried if isinstance(each, list) and each]
        assert len(started) == 1, tried
        assert all(isinstance(each, clew.Conflict) for each in tried if isinstance(each, BaseException))
        assert [each.prompt for each in await one.runs()].count(started[0][0].prompt) == 1


def test_the_next_ask_withdraws_the_question_of_a_killed_process(cli: Any) -> None:
    daemon, run = waiting(cli, TOUCH)
    daemon.kill()
    daemon.wait()

    assert cli.run("ask", "-t", "t", "go on").code == 0

    done = cli.run("runs", "answer", run, "--allow", "--json")
    assert (done.code, done.json["error"]["code"]) == (2, "conflict")
    assert "is already withdrawn" in done.json["error"]["message"]


def test_open_questions_are_shown_for_runs_of_any_process(cli: Any) -> None:
    _, run = waiting(cli, ASK_ONE)

    text = cli.run("runs", "show", run).out
    assert "question   Which database?\n             1. Postgres: big\n             2. SQLite: small\n" in text
    assert f"clew runs answer {run[:8]} --answer 'Which database?=Postgres', or --deny" in text
    assert "status     waiting for you\n" in text
    [line] = [line for line in text.splitlines() if line.startswith("tools")]
    assert "AskUserQuestion" in line and line.endswith("  waiting for you")
    [tool] = cli.run("runs", "show", run, "--json").json["tools"]
    assert (tool["name"], tool["status"]) == ("AskUserQuestion", "waiting")
    [asked] = cli.run("runs", "show", run, "--json").json["questions"]
    assert set(asked) == {
        *("id", "run_id", "thread_id", "tool", "input", "is_form", "state", "asked_at", "answered_at", "allowed"),
        *("live", "choices", "rule"),
    }
    listed = cli.run("runs", "list")
    assert "waiting for you" in listed.out
    assert "clew runs answer ID" in listed.err
    assert cli.run("runs", "list", "--json").json[0]["questions"] == [asked]
    thread = cli.run("threads", "show", "t")
    assert "asked:\n  Which database?\n" in thread.out
    assert cli.run("threads", "show", "t", "--json").json["questions"] == [asked]
    assert "waiting for you" in cli.run("threads", "list").out
    cli.run("runs", "cancel", run)
