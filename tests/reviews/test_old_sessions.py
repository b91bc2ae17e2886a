"""Sessions of mcp-claude-reviewer are imported as they are; what is no review is refused, and nothing is stored."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from clew.api import reviews
from clew.core.reviews.review import FindingState, Severity, findings_of
from clew.errors import Conflict, UsageError
from clew.hosts.reviews.imports import files as old_files
from clew.hosts.reviews.imports.fields import MAX_FINDINGS, TEXT_MAX_CHARS
from clew.hosts.reviews.imports.files import read_path
from clew.hosts.reviews.imports.rounds import answers
from clew.hosts.reviews.imports.session import OldReview, read_review
from clew.hosts.reviews.reviews import RoundOptions
from clew.testing.stage import Stage
from reviews.old_sessions import (
    COMMENT,
    DIFF,
    FIRST,
    GENERAL,
    ID,
    NOTES,
    REQUEST,
    SECOND,
    SESSION,
    as_file,
    session_files,
    session_folder,
)
from reviews.reviewer import Reviewer, repository


def read(body: Any) -> OldReview:
    return read_review({"x.json": as_file(body)}, "x.json")


def test_every_part_of_a_session_is_read() -> None:
    old = read_review(session_files(), "the session")

    assert (old.id, old.day, old.number, old.left_out) == (ID, "2025-07-01", 3, ())
    assert old.sessions == {"opus": "22222222-2222-4222-8222-222222222222"}
    assert old.message.splitlines() == [
        "Added a discount to the cart.",
        "Documents: docs/design.md, docs/cart.md",
        "Test command: npm test",
    ]
    assert (old.focus, old.diff, old.created_at) == ("numbers, error handling", DIFF, 1751364000.0)
    assert [(each.number, each.model, each.at) for each in old.rounds] == [
        (1, "opus", 1751364300.0),
        (2, "opus", 1751367600.0),
    ]
    assert old.rounds[0].summary.splitlines() == [
        "Overall assessment: needs changes.",
        "The change does not follow the architecture.",
        "Tests failed: 1 of 12 tests failed",
        "Failing tests: cart › empty",
        "Coverage: 92%",
    ]
    assert old.rounds[1].summary.splitlines() == [
        "Overall assessment: lgtm.",
        "The change follows the architecture.",
        "Tests were not run: No test command was provided",
        f"The author closed the review: merged. {NOTES}",
    ]


def test_comments_violations_and_requirements_are_findings() -> None:
    bug, general, violation, requirement = read(SESSION).rounds[0].findings

    assert (bug.severity, bug.file, bug.line) == (Severity.CRITICAL, "a.py", 2)
    assert bug.title == "It returns the wrong number."
    assert bug.detail == f"{COMMENT['comment']}\n\nCategory: bug."
    assert bug.suggestion == "Return 2."
    assert (general.severity, general.file, general.line) == (Severity.INFO, None, None)
    assert general.title == "Consider a test for an empty cart"
    assert general.detail.endswith("Category: missing feature.")
    assert (violation.severity, violation.title) == (Severity.HIGH, "The cart knows the customer")
    assert (violation.detail, violation.suggestion) == ("The design keeps the two apart.", "Pass the discount in.")
    assert (requirement.severity, requirement.title) == (
        Severity.LOW,
        "Missing requirement: Discounts need an end date",
    )
    assert requirement.detail == "Discounts need an end date\n\nReference: docs/design.md#discounts"


def test_a_later_round_says_what_is_open_and_what_is_settled() -> None:
    first, second = answers(read(SESSION).rounds)

    assert first is not None and second is not None
    assert [each.id for each in first.findings] == ["F1", "F2", "F3", "F4"]
    assert second.findings == (), "the suggestion is F2 again"
    assert {each.id: each.state for each in second.earlier} == {
        "F1": FindingState.FIXED,
        "F2": FindingState.OPEN,
        "F3": FindingState.FIXED,
        "F4": FindingState.FIXED,
    }


def test_a_round_that_does_not_approve_settles_nothing() -> None:
    still = SECOND | {"status": "needs_changes", "overall_assessment": "lgtm_with_suggestions", "comments": []}
    _, second = answers(read(SESSION | {"rounds": [FIRST, still]}).rounds)
    assert second is not None
    assert (second.findings, second.earlier) == ((), ())


def test_a_single_round_is_a_review_of_one_round() -> None:
    old = read(SECOND)
    assert (old.id, len(old.rounds), old.created_at) == (ID, 1, 1751367600.0)
    assert old.sessions == {"opus": "22222222-2222-4222-8222-222222222222"}
    assert old.left_out == ("the other rounds of the session: this file is round 2 alone",)
    assert read(FIRST).left_out == ()


def test_a_round_that_the_session_lacks_is_taken_from_its_own_file() -> None:
    """The tool writes the round first: it may have been killed before it wrote the session."""
    lacks = session_files(rounds=[FIRST])
    assert [each.number for each in read_review(lacks, "x").rounds] == [1, 2]
    without = {name: content for name, content in session_files().items() if name != "session.json"}
    old = read_review(without, "x")
    assert (old.id, [each.number for each in old.rounds], old.message != "") == (ID, [1, 2], True)


def test_a_session_whose_review_never_came_is_imported_with_its_request() -> None:
    old = read({"review_id": ID, "created_at": "2025-07-01T10:00:00.000Z", "rounds": [], "request": REQUEST})
    assert (old.rounds, old.message.splitlines()[0]) == ((), REQUEST["summary"])


def test_fields_that_are_not_known_or_not_readable_are_left_out_by_name() -> None:
    comment = COMMENT | {"line": [7], "severity": "dire", "confidence": 0.9}
    round_ = FIRST | {"comments": [comment, {"type": "general"}], "tokens": 12}
    old = read(SESSION | {"rounds": [round_], "colour": "red", "claudeSessionIds": {"opus": 5}})

    assert old.left_out == (
        "colour, rounds.tokens, rounds.comments.confidence (not known)",
        "rounds.comments.severity, rounds.comments.line, rounds.comments, claudeSessionIds (not readable)",
    )
    assert (old.rounds[0].findings[0].severity, old.rounds[0].findings[0].line) == (Severity.MEDIUM, None)


@pytest.mark.parametrize(
    ("value", "line"), [("42", 42), ("42-50", 42), (0, None), (None, None), (True, None), (-3, None), ("9" * 20, None)]
)
def test_a_line_as_models_write_it(value: Any, line: int | None) -> None:
    old = read(FIRST | {"comments": [COMMENT | {"line": value}]})
    assert old.rounds[0].findings[0].line == line


def test_a_comment_that_is_only_a_text_is_a_finding() -> None:
    old = read(FIRST | {"comments": ["Nobody calls it."], "design_compliance": None, "missing_requirements": None})
    assert [each.title for each in old.rounds[0].findings] == ["Nobody calls it."]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    pytest.param({"review_id": ID}, "nothing in it was understood", id="latest.json"),
    pytest.param({"review_id": ID, "colour": 1}, "nothing in it was understood", id="no known field"),
    pytest.param({"review_id": ID, "rounds": [{"colour": 1}]}, "nothing in it was understood", id="no known round"),
    pytest.param({"review_id": ID, "rounds": []}, "nothing in it was understood", id="no rounds"),
    pytest.param(REQUEST, "no review_id like 2025-07-01-003", id="request.json"),
    pytest.param(SESSION | {"review_id": "../../etc"}, "no review_id like", id="an id that is a path"),
    pytest.param(SESSION | {"review_id": 5}, "no review_id like", id="an id that is a number"),
    pytest.param(SESSION | {"rounds": "nonsense"}, "rounds is not a list", id="rounds of another type"),
    pytest.param(SESSION | {"rounds": [5]}, "rounds is not a list of objects", id="a round of another type"),
    pytest.param(SESSION | {"request": [1]}, "request is not an object", id="a request of another type"),
    pytest.param(FIRST | {"comments": {"a": 1}}, "rounds.comments is not a list", id="comments of another type"),
    pytest.param(FIRST | {"comments": [None]}, "rounds.comments is not a list of objects", id="a comment that is null"),
    pytest.param(FIRST | {"design_compliance": 1}, "rounds.design_compliance is not an object", id="no design"),
    pytest.param(FIRST | {"test_results": "ok"}, "rounds.test_results is not an object", id="no test results"),
    pytest.param(FIRST | {"extra": nested(500)}, "nested more than", id="deep"),
    pytest.param(FIRST | {"comments": [GENERAL] * (MAX_FINDINGS + 1)}, "the limit is 1,000", id="many comments"),
    pytest.param(SESSION | {"rounds": [FIRST] * 1_001}, "the limit is 1,000", id="many rounds"),
    pytest.param(
        FIRST | {"comments": [COMMENT | {"comment": "x" * (TEXT_MAX_CHARS + 1)}]},
        "rounds.comments.comment has 200,001 characters",
        id="a huge text",
    ),
    pytest.param([SESSION], "holds no JSON object", id="a list"),
]


@pytest.mark.parametrize(("body", "words"), HOSTILE)
def test_what_is_no_review_is_refused_in_one_line(body: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(body)
    assert words in refused.value.message
    assert "\n" not in refused.value.message and len(refused.value.message) < 300


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"[" * 100_000, b'{"review_id": 1' + b"0" * 9_000 + b"}"])
def test_what_is_no_json_is_refused(content: bytes) -> None:
    with pytest.raises(UsageError, match=r"x\.json is not a JSON file"):
        read_review({"x.json": content}, "x.json")


def test_a_file_that_is_too_large_is_refused_and_a_large_diff_is_left_out() -> None:
    files = session_files() | {"changes.diff": b"+" * (old_files.DIFF_MAX_BYTES + 1)}
    old = read_review(files, "x")
    assert (old.diff, old.left_out) == ("", ("the diff: it is larger than 20,000,000 bytes",))
    with pytest.raises(UsageError, match="too large for a review"):
        read_review({"x.json": b" " * (old_files.FILE_MAX_BYTES + 1)}, "x.json")


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    folder = session_folder(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(folder / "session.json")
    for name in ("changes.diff", "round-2/review.json", "session.json"):
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        (folder / name).symlink_to("/etc/hostname")
        with pytest.raises(UsageError, match="is a link"):
            read_path(folder)
        (folder / name).unlink()
        (folder / name).write_bytes(kept)
    with pytest.raises(UsageError, match="is a link"):
        read_path(link)
    (folder / "round-3").symlink_to(folder / "round-2")
    with pytest.raises(UsageError, match="is a link"):
        read_path(folder)
    (folder / "round-3").unlink()
    (folder / "final-notes.txt").unlink()
    os.mkfifo(folder / "final-notes.txt")
    with pytest.raises(UsageError, match="not a plain file"):
        read_path(folder)


def test_a_folder_above_the_sessions_is_refused_with_their_place(tmp_path: Path) -> None:
    session_folder(tmp_path)
    for above in (tmp_path, tmp_path / ".reviews"):
        with pytest.raises(UsageError, match=r"has no session\.json") as refused:
            read_path(above)
        assert refused.value.hint == f"Name the sessions in it: {tmp_path}/.reviews/sessions/*"


@pytest.mark.parametrize("named", ["folder", "session.json", "contents"])
async def test_a_session_is_imported_whole_and_continues(scripted: Stage, named: str) -> None:
    repo = repository(scripted.work / "repo")
    folder = session_folder(repo)
    (repo / "a.py").write_text("def a():\n    return 3\n")
    scripted.api.reply = Reviewer()
    async with scripted.open() as client:
        if named == "contents":
            done = await reviews.import_file(client, session_files(), str(repo))
        else:
            done = await reviews.import_file(client, folder if named == "folder" else str(folder / named))
        assert (done.review_id, done.rounds, done.findings, done.left_out) == (ID, 2, 4, ())
        state = await client.reviews.find(ID)
        assert (state.review.top, state.review.focus) == (str(repo), "numbers, error handling")
        assert [each.state for each in findings_of(state.rounds)] == ["fixed", "open", "fixed", "fixed"]
        assert state.rounds[0].message.startswith(REQUEST["summary"])
        assert await client.reviews.diff(ID, 1) == DIFF
        body = reviews.review_shape(state, {}).to_json()
        assert body["created_at"] == "2025-07-01T10:00:00.000Z"
        assert body["rounds"][1]["ended_at"] == SECOND["timestamp"]
        with pytest.raises(Conflict):
            await reviews.import_file(client, session_files(), str(repo))
        after = await (await client.reviews.follow(ID, RoundOptions("Mended."))).finish()
        assert (after.number, after.session_resumed) == (3, False)
        assert "It returns the wrong number." in scripted.prompt, "the earlier rounds are the history"


async def test_nothing_of_a_refused_session_is_stored(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    async with scripted.open() as client:
        for files in (session_files(rounds="x"), {}, {"a.json": b"{}", "b.json": b"{}"}):
            with pytest.raises(UsageError):
                await reviews.import_file(client, files, str(repo))
        with pytest.raises(UsageError, match="cwd is missing"):
            await reviews.import_file(client, session_files())
        assert (await client.reviews.count(), await client.threads()) == (0, [])


async def test_odd_characters_are_kept(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    comment = COMMENT | {"comment": "A half \ud83d and a NUL \0.", "file": "a\u202e.py"}
    body = json.dumps(FIRST | {"comments": [comment]}).encode()
    async with scripted.open() as client:
        done = await reviews.import_file(client, {"review.json": body}, str(repo))
        found = findings_of((await client.reviews.find(done.review_id)).rounds)
        assert (found[0].title, found[0].file) == ("A half \ud83d and a NUL \0.", "a\u202e.py")
