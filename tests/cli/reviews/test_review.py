"""`clew review`: rounds from the command line, and what is stored."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.core.reviews.prompts import DIFF_MAX_CHARS, FILE_MAX_CHARS, LINE_MAX_CHARS
from clew.hosts.reviews.answer import MAX_FINDINGS, TEXT_MAX_CHARS
from clew.hosts.reviews.reviews import MESSAGE_MAX_CHARS
from clew.testing.model.scripts import FINAL, Fail, Text
from clew.testing.stage import MODEL
from reviews.old_sessions import session_folder
from reviews.reviewer import Reviewer, answer, finding, git, repository

ROOT = Path(__file__).parents[3]
NEEDED = {"id", "round", "session_resumed", "reason", "findings", "usage"}
LOW = finding("No test", file=None, line=None, severity="low", suggestion="", detail="Nothing calls it.")


@pytest.fixture
def repo_cli(cli: Any) -> Any:
    """The command line in a repository with a change in it."""
    changed(cli)
    return cli


def changed(cli: Any) -> Path:
    repo = repository(cli.stage.work)
    (repo / "a.py").write_text("def a():\n    return 3\n")
    return repo


def reviewed(cli: Any, *args: str) -> str:
    """Starts a review and returns its id."""
    done = cli.run("review", "start", "--json", *args)
    assert done.code == 0, done.err
    return str(done.json["id"])


def stored(cli: Any) -> list[dict[str, Any]]:
    found = cli.run("review", "list", "--all", "--json").json
    assert isinstance(found, list)
    return found


def test_a_review_and_its_next_round(both: Any) -> None:
    repo = changed(both)
    both.api.reply = Reviewer(
        answer([LOW, finding()], summary="Two things."),
        answer([finding("Another", severity="medium")], [{"id": "F2", "state": "fixed", "note": "It returns 2."}]),
    )
    first = both.run("review", "start", "--focus", "numbers")

    assert first.code == 0
    (review,) = stored(both)
    assert first.out.splitlines() == [
        "Two things.",
        "",
        "F2 high  a.py:2  It returns the wrong number",
        "    It should be two.",
        "    Suggestion: Return 2.",
        "",
        "F1 low  No test",
        "    Nothing calls it.",
        "",
        "2 findings: 1 high, 1 low.",
    ]
    assert first.err.startswith(f"review {review['id']}, round 1: 1 file, claude {MODEL}\n")
    assert f"round 1 of {review['id']} · fresh: first turn of the thread · " in first.err
    assert " tokens (" in first.err and "$0." in first.err
    assert f"clew review follow {review['id']}" in first.err

    (repo / "a.py").write_text("def a():\n    return 2\n")
    second = both.run("review", "follow", review["id"], "Mended.")
    assert second.code == 0
    assert second.out.splitlines() == [
        "Looked at it.",
        "",
        "F3 medium  a.py:2  Another",
        "    It should be two.",
        "    Suggestion: Return 2.",
        "",
        "Earlier findings:",
        "",
        "F2 fixed  a.py:2  It returns the wrong number",
        "    It returns 2.",
        "",
        "1 new finding: 1 medium; 2 open, 1 fixed.",
    ]
    assert f"round 2 of {review['id']} · resumed · " in second.err
    assert "1 file changed since the last one" in second.err


def test_json_is_one_object_with_every_documented_key(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer(answer([finding()]))
    done = repo_cli.run("review", "start", "--json", "--model", MODEL)

    assert set(done.json) >= NEEDED
    assert (done.json["round"], done.json["session_resumed"], done.json["reason"]) == (1, False, "first_turn")
    assert [each["id"] for each in done.json["findings"]] == ["F1"]
    assert done.json["usage"]["output_tokens"] > 0
    again = repo_cli.run("review", "follow", "latest", "Really?", "--json")
    assert set(again.json) >= NEEDED
    assert (again.json["round"], again.json["session_resumed"]) == (2, True)


@pytest.mark.rest
def test_text_of_a_model_or_a_repository_cannot_control_the_terminal(repo_cli: Any) -> None:
    evil = "\x1b[2Kgone\x07\u202e"
    (repo_cli.stage.work / "a.py").write_text(f"# {evil}\n")
    repo_cli.api.reply = Reviewer(
        answer([finding(f"T{evil}", file=f"a{evil}.py", detail=f"D{evil}", suggestion=f"S{evil}")], summary=evil),
        answer(earlier=[{"id": "F1", "state": "open", "note": evil}]),
    )
    shown = [
        repo_cli.run("review", "start", "--focus", evil),
        repo_cli.run("review", "follow", "latest", evil),
        repo_cli.run("review", "show", "latest"),
        repo_cli.run("review", "show", "latest", "--round", "2"),
        repo_cli.run("review", "export", "latest"),
        repo_cli.run("review", "list"),
    ]
    for done in shown:
        assert done.code == 0
        assert not any(letter in done.out + done.err for letter in "\x1b\x07\u202e")
    assert "␛[2Kgone" in shown[0].out
    terminal = repo_cli.terminal("review", "show", "latest", "--diff")
    code, text = terminal.end()
    assert code == 0
    assert "\x1b" not in text and "␛[2Kgone" in text
    assert "\x1b[2Kgone" in repo_cli.run("review", "show", "latest", "--diff").out, "a pipe gets the diff as it is"


REFUSED = [
    pytest.param(["start", "--base", "nowhere"], 2, "'nowhere' is not a commit of this repository.", id="no such base"),
    pytest.param(["start", "--base=--output=x"], 2, "is not a commit of this repository.", id="an option as base"),
    pytest.param(["start", "--cwd", "/"], 2, "/ is not in a git work tree.", id="no repository"),
    pytest.param(["start", "--cwd", "/nowhere/at/all"], 2, "is not a directory.", id="no directory"),
    pytest.param(["start", "--staged"], 2, "There is nothing to review", id="nothing staged"),
    pytest.param(["start", "b.py"], 2, "There is nothing to review", id="nothing there"),
    pytest.param(["start", "../.."], 2, "is not in the repository", id="outside"),
    pytest.param(["start", "--staged", "--unstaged"], 2, "cannot be given together", id="two scopes"),
    pytest.param(["start", "--unstaged", "--base", "HEAD"], 2, "not with a base", id="unstaged since a base"),
    pytest.param(["start", "--agent", "hal"], 2, "There is no agent 'hal'.", id="unknown agent"),
    pytest.param(["start", "--model", "a\nb"], 2, "cannot be printed", id="a model of two lines"),
    pytest.param(["start", "--timeout", "soon"], 2, "is not a duration", id="bad time-out"),
    pytest.param(["follow", "latest"], 2, "There is no review of ", id="no latest"),
    pytest.param(["follow", "2001-01-01-001", "x"], 2, "'2001-01-01-001' is not a review.", id="no such review"),
    pytest.param(["follow", "", "x"], 2, "'' is not a review.", id="an empty id"),
    pytest.param(["show", "nothing"], 2, "'nothing' is not a review.", id="nothing to show"),
    pytest.param(["export", "nothing"], 2, "'nothing' is not a review.", id="nothing to export"),
    pytest.param(["import", "/nowhere/x.json"], 2, "/nowhere/x.json: No such file", id="no file to import"),
]


@pytest.mark.parametrize(("args", "code", "words"), REFUSED)
def test_bad_options_are_one_line_and_store_nothing(repo_cli: Any, args: list[str], code: int, words: str) -> None:
    done = repo_cli.run("review", *args)

    assert (done.code, done.out) == (code, "")
    (line,) = [line for line in done.err.splitlines() if line.startswith("clew: ")]
    assert words in line
    assert stored(repo_cli) == []
    assert repo_cli.run("threads", "list", "--json").json == []


def test_a_missing_agent_is_3_and_stores_nothing(repo_cli: Any) -> None:
    done = repo_cli.run("review", "start", "--json", CLEW_CLAUDE_PATH="/nowhere/claude")

    assert (done.code, done.json["error"]["code"]) == (3, "agent_missing")
    assert stored(repo_cli) == []


@pytest.mark.parametrize(
    ("status", "kind", "code", "name"),
    [
        (401, "authentication_error", 4, "auth"),
        (429, "rate_limit_error", 5, "usage_limit"),
        (500, "api_error", 1, "failed"),
    ],
)
def test_a_failed_round_exits_with_the_code_of_its_error_and_can_be_repeated(
    repo_cli: Any, status: int, kind: str, code: int, name: str
) -> None:
    repo_cli.api.reply = lambda request: Fail(status, kind, "No.", FINAL)
    done = repo_cli.run("review", "start", "--json")

    assert (done.code, done.json["status"], done.json["error"]["code"]) == (code, "failed", name)
    assert f"clew review follow {done.json['id']} asks again" in done.err
    assert "Traceback" not in done.err
    repo_cli.api.reply = Reviewer(answer([finding()]))
    again = repo_cli.run("review", "follow", done.json["id"])
    assert again.code == 0
    assert "F1 high  a.py:2" in again.out


def test_an_answer_that_stays_invalid_fails_the_round(repo_cli: Any) -> None:
    repo_cli.api.reply = lambda request: Text("Looks good to me!")
    done = repo_cli.run("review", "start")

    assert (done.code, done.out) == (1, "")
    assert "asked twice for a valid answer" in done.err
    assert "clew: The answer does not fit, and neither did the first" in done.err


@pytest.mark.rest
def test_a_reply_from_stdin_and_ids_by_their_beginning(repo_cli: Any) -> None:
    repo_cli.api.reply = reviewer = Reviewer()
    review = reviewed(repo_cli)

    done = repo_cli.run("review", "follow", review[:10], "-", stdin="From a file.\n")
    assert done.code == 0, done.err
    assert "The author says:\nFrom a file.\n" in reviewer.asked[1]
    assert repo_cli.run("review", "show", review, "--round", "2", "--json").json["message"] == "From a file."

    other = reviewed(repo_cli)
    assert other != review
    unclear = repo_cli.run("review", "follow", review[:10], "x")
    assert (unclear.code, unclear.err.splitlines()[0]) == (2, f"clew: '{review[:10]}' names more than one review.")
    assert repo_cli.run("review", "show", "latest", "--json").json["id"] == other
    garbage = repo_cli.run("review", "follow", review, "-", stdin=b"\xff\xfe")
    assert (garbage.code, "stdin is not UTF-8 text" in garbage.err) == (2, True)


def test_a_follow_up_without_changes_or_message_is_refused(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer()
    review = reviewed(repo_cli)
    done = repo_cli.run("review", "follow", review)

    assert done.code == 2
    assert "Nothing has changed since round 1, and there is no message." in done.err
    assert len(repo_cli.run("review", "show", review, "--json").json["rounds"]) == 1


def test_a_missing_session_is_shown_as_the_reason(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer()
    review = reviewed(repo_cli)
    for file in repo_cli.stage.home.rglob("*.jsonl"):
        file.unlink()
    done = repo_cli.run("review", "follow", review, "Again.")

    assert done.code == 0
    assert [line for line in done.err.splitlines() if "fresh" in line] == [
        line for line in done.err.splitlines() if line.startswith(f"round 2 of {review} · fresh: ")
    ]
    shown = repo_cli.run("review", "show", review, "--json").json
    assert shown["rounds"][1]["reason"] == "session_missing"
    no = repo_cli.run("review", "follow", review, "Afresh.", "--no-resume", "--json")
    assert (no.json["session_resumed"], no.json["reason"]) == (False, "disabled")


@pytest.mark.rest
def test_staged_unstaged_paths_and_base_select_what_is_reviewed(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer()
    git(repo_cli.stage.work, "add", "a.py")
    (repo_cli.stage.work / "b.py").write_text("b = 3\n")
    (repo_cli.stage.work / "sub").mkdir()
    (repo_cli.stage.work / "sub" / "new.py").write_text("new = 1\n")

    def files(*args: str, cwd: Path | None = None) -> list[str]:
        done = repo_cli.run("review", "start", "--json", *args, cwd=cwd)
        return sorted(each["path"] for each in done.json["files"])

    assert files() == ["a.py", "b.py", "sub/new.py"]
    assert files("--staged") == ["a.py"]
    assert files("--unstaged") == ["b.py", "sub/new.py"]
    assert files("b.py", "sub") == ["b.py", "sub/new.py"]
    assert files("new.py", cwd=repo_cli.stage.work / "sub") == ["sub/new.py"]
    assert files("--cwd", str(repo_cli.stage.work / "sub"), "new.py", cwd=repo_cli.stage.folder) == ["sub/new.py"]
    git(repo_cli.stage.work, "checkout", "-qb", "topic")
    git(repo_cli.stage.work, "add", "-A")
    git(repo_cli.stage.work, "commit", "-qm", "second")
    assert files("--base", "main") == ["a.py", "b.py", "sub/new.py"]


def test_files_that_are_shown_only_in_part_are_named(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer()
    (repo_cli.stage.work / "long.py").write_text("x = 1\n" * 20_000)
    done = repo_cli.run("review", "start")

    assert done.code == 0
    assert "shown only in part: long.py (cut); the reviewer is asked to read them" in done.err


def test_the_list_is_of_this_repository(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer(answer([finding(), LOW]))
    review = reviewed(repo_cli, "a.py")
    other = repository(repo_cli.stage.folder / "other")

    heading, row = repo_cli.run("review", "list").out.splitlines()
    assert heading.split() == ["REVIEW", "ROUNDS", "STATUS", "OPEN", "MODEL", "STARTED", "COST", "ABOUT"]
    assert row.startswith(f"{review}  1       done    2 of 2  {MODEL}")
    assert row.endswith("all changes in a.py")
    assert "No reviews of this repository yet" in repo_cli.run("review", "list", cwd=other).err
    assert repo_cli.run("review", "list", "--json", cwd=other).json == []
    heading, row = repo_cli.run("review", "list", "--all", cwd=other).out.splitlines()
    assert heading.endswith("  REPOSITORY")
    assert row.endswith(f"  {repo_cli.stage.work}")
    outside = repo_cli.run("review", "list", cwd=repo_cli.stage.folder)
    assert (outside.code, "--all" in outside.err) == (2, True)
    reviewed(repo_cli)
    assert len(repo_cli.run("review", "list", "--limit", "1", "--json").json) == 1


@pytest.mark.rest
def test_a_review_is_shown_with_its_findings_by_state_and_its_rounds(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer(
        answer([finding(), LOW]), answer(earlier=[{"id": "F1", "state": "withdrawn", "note": "You are right."}])
    )
    review = reviewed(repo_cli)
    repo_cli.run("review", "follow", review, "It is meant so.")

    shown = repo_cli.run("review", "show", review).out
    assert "findings   1 open, 1 withdrawn" in shown
    assert f"round 1    claude {MODEL} · done after " in shown
    assert shown.index("Open:\n\nF2 low  No test") < shown.index("Withdrawn:\n\nF1 high  a.py:2")
    assert "    Round 2: You are right." in shown
    whole = repo_cli.run("review", "show", review, "--json").json
    assert [round_["round"] for round_ in whole["rounds"]] == [1, 2]
    assert list(whole["sessions"]) == [MODEL]
    second = repo_cli.run("review", "show", review, "--round", "2").out
    assert second.startswith("> It is meant so.\n\nLooked at it.\n")
    assert "+    return 3" in repo_cli.run("review", "show", review, "--diff").out
    assert "+    return 3" in repo_cli.run("review", "show", review, "--round", "1", "--diff", "--json").json["diff"]
    missing = repo_cli.run("review", "show", review, "--round", "9")
    assert (missing.code, "has no round 9" in missing.err) == (2, True)


def test_an_export_replaces_a_file_only_with_force(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer(answer([finding()]))
    review = reviewed(repo_cli)
    path = repo_cli.stage.folder / "review.md"

    assert repo_cli.run("review", "export", review).out.startswith(f"# Review {review}\n")
    assert repo_cli.run("review", "export", review, "--format", "json").json["id"] == review
    done = repo_cli.run("review", "export", "latest", "--output", str(path))
    assert (done.code, done.out) == (0, "")
    assert "### F1 high: It returns the wrong number" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("mine")
    refused = repo_cli.run("review", "export", review, "--output", str(path))
    assert (refused.code, path.read_text()) == (2, "mine")
    assert "--force" in refused.err
    assert repo_cli.run("review", "export", review, "--output", str(path), "--force", "--format", "json").code == 0
    assert json.loads(path.read_text())["id"] == review
    nowhere = repo_cli.run("review", "export", review, "--output", "/nowhere/at/all.md")
    assert (nowhere.code, "cannot be written" in nowhere.err) == (2, True)


def test_an_export_contains_secrets_only_with_the_option(repo_cli: Any) -> None:
    """The reviewer quotes a secret that it saw in the diff."""
    key = "ghp_" + "x1Y2z3" * 6
    repo_cli.api.reply = Reviewer(answer([finding(detail=f"The token {key} is in the code, and so is abc-value-123.")]))
    review = reviewed(repo_cli)
    for form, count in (("md", 2), ("json", 4), ("sarif", 4)):  # JSON contains each finding twice
        done = repo_cli.run("review", "export", review, "--format", form, MY_TOKEN="abc-value-123")
        assert (done.code, key in done.out, "abc-value-123" in done.out) == (0, False, False)
        assert "The token [redacted: GitHub token] is in the code" in done.out.replace("\\", "")
        assert done.err == f"blanked {count} secrets: GitHub token, value of MY_TOKEN\n"
    assert key in repo_cli.run("review", "export", review, "--with-secrets").out


def test_old_files_are_imported_and_a_bad_one_does_not_stop_the_others(repo_cli: Any) -> None:
    rounds = [{"review": {"summary": "One.", "findings": [{"severity": "major", "message": "It returns 1."}]}}]
    good, bad = repo_cli.stage.folder / "good.json", repo_cli.stage.folder / "bad.json"
    good.write_text(json.dumps({"reviewId": "2025-07-01-003", "claudeSessionId": "gone", "rounds": rounds}))
    bad.write_text("[]")

    done = repo_cli.run("review", "import", str(bad), str(good))
    assert done.code == 2
    assert done.out == "2025-07-01-003  1 round, 1 finding, no session: the next round starts fresh\n"
    assert "bad.json is not a review" in done.err
    again = repo_cli.run("review", "import", str(good), "--cwd", ".", "--json")
    assert (again.code, again.json[0]["error"]["code"]) == (2, "conflict")
    shown = repo_cli.run("review", "show", "2025-07-01-003")
    assert "F1 high  It returns 1." in shown.out
    assert "round 1    claude · done" in shown.out
    printed = repo_cli.run("stats", "reviews").out.splitlines()
    assert printed == ["1 review, 0 rounds, 1 imported", "       1  with 1 round", "no follow-up rounds yet"]


def test_a_session_of_the_public_tool_is_imported_and_what_is_left_out_is_named(repo_cli: Any) -> None:
    folder = session_folder(repo_cli.stage.work, claudeSessionIds={}, colour="red")
    latest = folder.parents[1] / "latest.json"

    done = repo_cli.run("review", "import", str(latest), str(folder))
    assert done.code == 2
    assert done.out == f"{folder.name}  2 rounds, 4 findings, no session: the next round starts fresh\n"
    assert f"clew: {latest} is not a review: nothing in it was understood." in done.err
    assert "  left out: colour (not known)\n" in done.err
    shown = repo_cli.run("review", "show", folder.name).out
    assert "F2 info  Consider a test for an empty cart" in shown and "F1 critical  a.py:2" in shown
    assert "+    return 3" in repo_cli.run("review", "show", folder.name, "--round", "1", "--diff").out
    again = repo_cli.run("review", "import", str(folder), "--json")
    assert (again.code, again.json[0]["error"]["code"]) == (2, "conflict")


@pytest.mark.rest
def test_the_measures_of_reviews(repo_cli: Any) -> None:
    assert repo_cli.run("stats", "reviews").err == "No reviews yet.\n"
    repo_cli.api.reply = Reviewer()
    review = reviewed(repo_cli)
    assert "no follow-up rounds yet" in repo_cli.run("stats", "reviews").out
    repo_cli.run("review", "follow", review, "one")
    repo_cli.run("review", "follow", review, "two", "--model", "claude-haiku-4-5")

    measures = repo_cli.run("stats", "reviews", "--json").json
    assert (measures["follow_ups"], measures["resumed"], measures["misses"]) == (2, 1, {"no_pin": 1})
    lines = repo_cli.run("stats", "reviews", "--since", "7d").out.splitlines()
    assert lines[:2] == ["1 review, 3 rounds", "       1  with 3 rounds"]
    assert lines[2] == "2 follow-up rounds (50% resumed)"
    assert any(line.endswith("(no_pin)") and line.split()[0] == "1" for line in lines)
    assert f"  {MODEL}: 1 of 1 resumed (100%)" in lines
    assert "  claude-haiku-4-5: 0 of 1 resumed (0%)" in lines
    assert lines[-3].split() == ["ROUNDS", "TOKENS", "READ", "BY", "PRICE", "TIME", "COST"]
    assert [line.split()[:2] for line in lines[-2:]] == [["resumed", "1"], ["fresh", "1"]]
    assert repo_cli.run("stats", "--json").json["runs"] == 3, "the plain stats are as they were"
    misplaced = repo_cli.run("stats", "--json", "reviews")
    assert (misplaced.code, misplaced.json["error"]["code"]) == (2, "usage")
    assert repo_cli.run("stats", "reviews", "--since", "soon").code == 2


CART = """\
import json


def load(path):
    with open(path) as file:
        return json.load(file)


def total(items):
    return sum(item["price"] for item in items)
"""
WITH_DISCOUNT = (
    CART.replace("total(items):\n    return", "total(items, discount=0):\n    return -discount +")
    + """

def checkout(items, discount):
    return total(items, discount) - discount
"""
)


def test_the_example_of_the_page_is_what_is_printed(cli: Any) -> None:
    page = (ROOT / "docs" / "reviews.md").read_text("utf-8")
    repo = repository(cli.stage.work, {"cart.py": CART})
    (repo / "cart.py").write_text(WITH_DISCOUNT)
    cli.api.reply = Reviewer(
        answer(
            [
                finding(
                    "The discount is taken off twice",
                    file="cart.py",
                    line=14,
                    detail="`total` subtracts it already, and `checkout` does so again: an order of 100 with 10 off "
                    "costs 80.",
                    suggestion="Take it off in `total` only.",
                ),
                finding(
                    "A price that is missing ends the program",
                    file="cart.py",
                    line=10,
                    severity="medium",
                    detail='`item["price"]` raises KeyError for a gift card, which has none.',
                    suggestion='Use item.get("price", 0).',
                ),
            ],
            summary="Two things are wrong with the discount.",
        ),
        answer(
            earlier=[
                {"id": "F1", "state": "fixed", "note": "checkout no longer subtracts it."},
                {"id": "F2", "state": "withdrawn", "note": "Gift cards are no items here, as the author says."},
            ],
            summary="The discount is right now.",
        ),
    )
    first = cli.run("review", "start")
    (repo / "cart.py").write_text(WITH_DISCOUNT.replace("discount) - discount", "discount)"))
    reply = "F1 is fixed. F2: gift cards are no items, they never get here."
    assert f'"{reply}"' in page
    second = cli.run("review", "follow", "latest", reply)

    for done in (first, second):
        (named,) = {each["id"] for each in stored(cli)}
        begun, closing, further = done.err.replace(named, "2026-11-15-001").splitlines()
        assert f"\n{begun}\n{done.out}{closing.split(' · ')[0]}" in page
        assert further in page
    for line in cli.run("stats", "reviews").out.splitlines()[:-1]:
        assert line in page


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "reviews.md").read_text("utf-8")
    rows = [line.split(" | ") for line in page.split("| limit |")[1].split("\n\n")[0].splitlines()[2:]]
    limits = [[int(number) for number in re.findall(r"[0-9]+", row[1].replace(",", ""))] for row in rows]
    answer = [MAX_FINDINGS, TEXT_MAX_CHARS]
    assert limits == [[LINE_MAX_CHARS], [FILE_MAX_CHARS], [DIFF_MAX_CHARS], answer, [MESSAGE_MAX_CHARS]]


def test_the_shell_completes_ids(repo_cli: Any) -> None:
    repo_cli.api.reply = Reviewer()

    def complete(words: str) -> list[str]:
        done = repo_cli.run(_CLEW_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split()) - 1))
        return [line.partition(",")[2] for line in done.out.splitlines() if line]

    assert complete("clew review show 20") == []
    review = reviewed(repo_cli)
    assert complete("clew review show 20") == [review]
    assert complete("clew review follow l") == ["latest"]


@pytest.mark.process
@pytest.mark.parametrize("args", [["--help"], ["review", "--help"], ["review", "start", "--help"], ["stats", "--help"]])
def test_the_help_of_review_loads_only_the_commands(args: list[str]) -> None:
    code = f"import sys; from clew.cli.main import main; main({args!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    loaded = set(done.stderr.split())
    assert not loaded & {
        "asyncio",
        "rich",
        "sqlite3",
        "msgspec",
        "clew.api.client",
        "clew.api.reviews",
        "clew.hosts.reviews.reviews",
    }
    assert args != ["--help"] or not any(name.startswith("clew.cli.reviews.review") for name in loaded)
