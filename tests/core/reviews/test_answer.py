"""A reviewer's answer is found in whatever the model wrote, or it is said what is wrong; never anything else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from clew.core.reviews.review import FindingState, Severity
from clew.hosts.reviews import answer as review_answer
from clew.hosts.reviews.answer import ReviewAnswer
from clew.hosts.structured_output import SchemaMismatch

FINDING = {"severity": "high", "file": "a.py", "line": 3, "title": "T", "detail": "D", "suggestion": "S"}


def read_answer(text: str, *, already: int, round_number: int) -> ReviewAnswer:
    """In a repository that has `a.py` alone."""
    return review_answer.read_answer(
        text, already=already, round_number=round_number, is_file=lambda path: path == "a.py"
    )


def body(**changes: Any) -> dict[str, Any]:
    return {"summary": "S", "findings": [FINDING], "earlier": [{"id": "F1", "state": "fixed", "note": "N"}]} | changes


def test_a_whole_answer() -> None:
    answer = read_answer(json.dumps(body()), already=1, round_number=2)
    [found] = answer.findings
    assert (found.id, found.round, found.severity, found.file, found.line) == ("F2", 2, Severity.HIGH, "a.py", 3)
    assert [(each.id, each.state, each.note) for each in answer.earlier] == [("F1", FindingState.FIXED, "N")]


@pytest.mark.parametrize(
    ("said", "meant"), [("b/a.py", "a.py"), ("a/a.py", "a.py"), ("./a.py", "a.py"), ("b/c.py", "b/c.py")]
)
def test_a_path_as_the_diff_writes_it_is_the_files(said: str, meant: str) -> None:
    [found] = read_answer(json.dumps(body(findings=[FINDING | {"file": said}])), already=0, round_number=1).findings
    assert found.file == meant


@pytest.mark.parametrize(
    "around",
    ["{}", "\n\n {} \n", "Here it is:\n{}\nThat is all.", "```json\n{}\n```", "```\n{}\n```",
     "So:\n  ```json\n{}\n  ```\n", "[{}]", "```python\nx = {{}}\n```\n```json\n{}\n```"],
)  # fmt: skip
@pytest.mark.parametrize("indent", [None, 2])
def test_it_is_found_where_models_put_it(around: str, indent: int | None) -> None:
    text = around.format(json.dumps(body(), indent=indent))
    assert read_answer(text, already=1, round_number=1).summary == "S"


def test_the_last_block_counts() -> None:
    blocks = "\n".join(f"```json\n{json.dumps(body(summary=each))}\n```" for each in ("draft", "final"))
    assert read_answer(blocks, already=0, round_number=1).summary == "final"


def test_text_with_fences_in_its_strings() -> None:
    held = body(findings=[FINDING | {"suggestion": "```py\nx = {}\n```"}])
    found = read_answer(json.dumps(held), already=0, round_number=1).findings
    assert found[0].suggestion == "```py\nx = {}\n```"


def test_what_may_be_left_out_may_be() -> None:
    bare = {"summary": "", "findings": [{"severity": "info", "title": "T", "detail": "D"}], "more": 1}
    [found] = read_answer(json.dumps(bare), already=0, round_number=1).findings
    assert (found.file, found.line, found.suggestion) == (None, None, "")
    odd = body(findings=[FINDING | {"file": " ./a.py ", "line": 0, "title": "two\nlines", "suggestion": None}])
    [found] = read_answer(json.dumps(odd), already=0, round_number=1).findings
    assert (found.file, found.line, found.title, found.suggestion) == ("a.py", None, "two lines", "")


def test_a_verdict_on_a_finding_that_there_is_not_is_dropped() -> None:
    said = [{"id": id, "state": "open"} for id in ("F1", "F2", "F999999999")]
    assert [each.id for each in read_answer(json.dumps(body(earlier=said)), already=1, round_number=2).earlier] == [
        "F1"
    ]


WRONG = {
    "no words": ("", "no JSON object"),
    "prose": ("Looks good to me!", "no JSON object"),
    "cut off": (json.dumps(body())[:-20], "malformed|truncated|no JSON|Expected|invalid"),
    "a list of two": (json.dumps([body(), body()]), "malformed|trailing"),
    "no findings": ('{"summary": "x"}', "findings"),
    "a severity of its own": (json.dumps(body(findings=[FINDING | {"severity": "awful"}])), "severity"),
    "a line that is no number": (json.dumps(body(findings=[FINDING | {"line": "3"}])), "line"),
    "a line below zero": (json.dumps(body(findings=[FINDING | {"line": -1}])), "line"),
    "a line beyond all files": (json.dumps(body(findings=[FINDING | {"line": 10**400}])), "line|range"),
    "no title": (json.dumps(body(findings=[FINDING | {"title": ""}])), "title"),
    "a detail without end": (json.dumps(body(findings=[FINDING | {"detail": "x" * 20_001}])), "detail"),
    "an id without end": (json.dumps(body(earlier=[{"id": "F" + "9" * 5_000, "state": "open"}])), "id"),
    "a state of its own": (json.dumps(body(earlier=[{"id": "F1", "state": "done"}])), "state"),
    "nested without end": ('{"summary": "x", "findings": [], "more": ' + "[" * 200_000 + "]" * 200_000 + "}", "nested"),
}


@pytest.mark.parametrize(("text", "says"), WRONG.values(), ids=list(WRONG))
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(SchemaMismatch, match=says) as caught:
        read_answer(text, already=1, round_number=1)
    assert len(str(caught.value)) < 500, "it goes back to the model"


@settings(deadline=None)
@given(some.one_of(some.text(), some.text(some.sampled_from('{}[]"`\n:,jsonF1 \\\ud83d\0'), max_size=200)))
def test_no_text_does_anything_else(text: str) -> None:
    with pytest.raises(SchemaMismatch):
        read_answer(text, already=0, round_number=1)


@pytest.mark.parametrize("piece", ["a```\n", "```\n", " ```\n\t", "{", "}", "```json\n{", "```x\n", "\n"])
def test_a_long_answer_is_read_to_its_end(piece: str) -> None:
    """Less than a second; a pattern that looks at places twice would need hours, far more than a test may."""
    with pytest.raises(SchemaMismatch):
        read_answer(piece * 400_000, already=0, round_number=1)
