"""An answer as a prompt, for a session whose process died with the question open; whatever the question was."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.ids import RunId, ThreadId
from clew.core.permissions import Answer
from clew.core.question import Question, QuestionState, as_message


def asked(tool: str, given: dict[str, Any], *, is_form: bool = False) -> Question:
    return Question("q", RunId("r"), ThreadId("t"), tool, given, is_form, QuestionState.OPEN, 0.0)


def test_answers_come_in_the_order_of_the_form_then_the_others() -> None:
    form = asked("AskUserQuestion", {"questions": [{"question": "One?"}, {"question": "Two?"}]}, is_form=True)
    told = as_message(form, Answer(allow=True, answers={"else": "c", "Two?": "b", "One?": "a"}))
    assert told.splitlines()[-3:] == ["- One?: a", "- Two?: b", "- else: c"]


@pytest.mark.parametrize("questions", [None, 5, "x", {"a": 1}, [], [None], ["x", 5], [{"question": None}], True])
def test_a_malformed_form_still_passes_the_answer_on(questions: Any) -> None:
    form = asked("AskUserQuestion", {"questions": questions}, is_form=True)
    assert as_message(form, Answer(allow=True, answers={"Your questions": "blue"})).endswith("\n- Your questions: blue")
    assert as_message(form, Answer(allow=True)).startswith("The last run was interrupted")
