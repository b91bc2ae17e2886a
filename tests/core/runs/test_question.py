"""An answer as a prompt, for a session whose process died while the question was open."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.ids import RunId, ThreadId
from clew.core.runs.permissions import Answer
from clew.core.runs.question import Question, QuestionState, as_message


def asked(tool: str, given: dict[str, Any], *, is_form: bool = False) -> Question:
    return Question("q", RunId("r"), ThreadId("t"), tool, given, is_form, QuestionState.OPEN, 0.0)


def test_answers_come_in_the_order_of_the_form_then_the_others() -> None:
    form = asked("AskUserQuestion", {"questions": [{"question": "One?"}, {"question": "Two?"}]}, is_form=True)
    message = as_message(form, Answer(allow=True, answers={"else": "c", "Two?": "b", "One?": "a"}))
    assert message.splitlines()[-3:] == ["- One?: a", "- Two?: b", "- else: c"]


@pytest.mark.parametrize("questions", [None, 5, "x", {"a": 1}, [], [None], ["x", 5], [{"question": None}], True])
def test_the_answer_to_a_malformed_form_is_still_sent(questions: Any) -> None:
    form = asked("AskUserQuestion", {"questions": questions}, is_form=True)
    assert as_message(form, Answer(allow=True, answers={"Your questions": "blue"})).endswith("\n- Your questions: blue")
    assert as_message(form, Answer(allow=True)).startswith("The last run was interrupted")
