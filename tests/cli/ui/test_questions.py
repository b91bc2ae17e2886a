"""How the command line shows a question: completely, without control characters, even if it is malformed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.cli.ui.agent_questions import (
    UNREAD,
    UNREADABLE,
    answer_from,
    form_questions,
    how_to_answer,
    is_readable,
    question_lines,
)
from clew.core.ids import RunId, ThreadId
from clew.core.runs.question import Question, QuestionState

MALFORMED = [None, 5, "x", {"a": 1}, [], [None], ["x"], [{}], [{"question": None}], [{"question": " "}], True]


def permission(tool: str, given: dict[str, Any]) -> Question:
    return Question("q", RunId("run"), ThreadId("t"), tool, given, False, QuestionState.OPEN, 0.0)


def form(questions: Any) -> Question:
    given = {"questions": questions}
    return Question("q", RunId("run"), ThreadId("t"), "AskUserQuestion", given, True, QuestionState.OPEN, 0.0)


def test_a_permission_shows_every_field_of_the_input() -> None:
    shown = question_lines(
        permission("mcp__db__execute", {"description": "List the tables", "sql": "DROP TABLE users"})
    )
    assert shown == ["mcp__db__execute wants permission: List the tables", "  sql: DROP TABLE users"]
    shown = question_lines(permission("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}))
    assert shown == ["Bash wants permission: ls", "  dangerouslyDisableSandbox: true"]
    assert question_lines(permission("Bash", {"command": "ls"})) == ["Bash wants permission: ls"]
    assert question_lines(permission("odd", {"n": 5})) == ['odd wants permission: {"n": 5}']
    assert question_lines(permission("odd", {})) == ["odd wants permission"]


def test_long_values_follow_on_further_lines_and_say_if_they_are_cut() -> None:
    hidden = question_lines(permission("Bash", {"command": f"ls {'x' * 80}\nrm -rf ~"}))
    assert hidden[0].endswith("…")
    assert hidden[1:] == ["  command:", f"    ls {'x' * 80}", "    rm -rf ~"]
    longer = question_lines(permission("Bash", {"command": "x" * 5000, "after": 1}))
    assert longer[-2:] == ["  … 3,509 more characters", "  after: 1"]
    many = question_lines(permission("odd", {f"f{n}": n for n in range(100)}))
    assert (len(many), many[-1]) == (42, "  … 60 more fields")


def test_control_characters_are_made_visible() -> None:
    shown = "\n".join(
        question_lines(permission("Ba\u202esh", {"command": "a\u202eb\x1b[2K\u200b", "x\u2028y": "\u2066\r"}))
    )
    assert not set(shown) & set("\u202e\x1b\u200b\u2028\u2066\r")
    label = {"label": "fine\n2. Other\u200f", "description": "\u202e"}
    assert question_lines(form([{"question": "a\u202e?", "options": [label]}])) == ["a�?", "  1. fine 2. Other�: �"]


@pytest.mark.parametrize("questions", MALFORMED)
def test_a_malformed_form_is_shown_unchanged_and_answered_in_words(questions: Any) -> None:
    question = form(questions)
    assert not is_readable(question.input)
    assert question_lines(question)[0] == UNREAD
    raw = questions if isinstance(questions, str) else json.dumps(questions)
    assert question_lines(question)[1:] == [f"  questions: {raw}", UNREADABLE]
    assert f"--answer '{UNREADABLE}=…'" in how_to_answer(question)
    assert answer_from(question, allow=None, message=None, answers=["blue"]).answers == {UNREADABLE: "blue"}


def test_the_readable_part_of_a_form_is_asked() -> None:
    question = form([None, {"question": "Which?", "options": [None, "a", 5, {"label": None}, {"label": "b"}]}])
    assert not is_readable(question.input)
    [item] = form_questions(question.input)
    assert (item.text, item.labels) == ("Which?", ("a", "5", "b"))
    assert question_lines(question)[-4:] == ["Which?", "  1. a", "  2. 5", "  3. b"]
    assert not is_readable(form([{"question": "x", "options": 5}]).input)
    assert is_readable(form([{"question": "x"}]).input)
