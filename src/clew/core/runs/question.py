"""A question of an agent's as the store keeps it, so that it outlives the process that was asked.

open        it waits; or its run died with Clew, and the answer will go to the resumed session as a message
answered    the agent has been told
withdrawn   the agent took it back, its run ended in order, or the person went on with another prompt
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from clew.core.ids import RunId, ThreadId
from clew.core.permissions import Answer
from clew.core.record import Record

SHOWN_CHARS = 400  # of a tool's input in a message to its agent


class QuestionState(StrEnum):
    OPEN = "open"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"


class Question(Record):
    id: str
    run_id: RunId
    thread_id: ThreadId
    tool: str
    input: Mapping[str, Any]
    is_form: bool
    state: QuestionState
    asked_at: float
    answered_at: float | None = None
    allowed: bool | None = None
    reply: Answer | None = None  # given, and on its way to the agent

    @property
    def is_open(self) -> bool:
        """An answer would count."""
        return self.state is QuestionState.OPEN and self.reply is None


def as_message(question: Question, answer: Answer) -> str:
    """The answer as a prompt, for a session whose process died with the question open."""
    if question.is_form and answer.allow:
        return f"{_ASKED}\n\n{_answers(question, answer)}"
    if question.is_form:
        return f"{_ASKED} They were left open. {answer.message}".strip()
    what = f"{question.tool} {json.dumps(dict(question.input), ensure_ascii=False)}"
    what = what if len(what) <= SHOWN_CHARS else f"{what[:SHOWN_CHARS]}…"
    if answer.allow:
        return f"The last run was interrupted while it waited for permission for {what}. It is given: go on."
    words = f" {answer.message}" if answer.message else ""
    return f"The last run was interrupted while it waited for permission for {what}. It was declined.{words}"


_ASKED = "The last run was interrupted while your questions were open. Here are the answers; go on with them."


def _answers(question: Question, answer: Answer) -> str:
    given = answer.answers or {}
    items = question.input.get("questions")  # an agent may have sent anything
    known = items if isinstance(items, list | tuple) else ()
    asked = [str(item.get("question", "")) for item in known if isinstance(item, Mapping)]
    ordered = [*(text for text in asked if text in given), *(text for text in given if text not in asked)]
    return "\n".join(f"- {text}: {given[text]}" for text in ordered)
