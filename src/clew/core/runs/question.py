"""An agent's question as the store keeps it, so that it survives the process that asked it.

open        it waits for an answer; or its run died with Clew, and an answer is sent to the resumed session as a prompt
answered    the agent has received the answer
withdrawn   the agent withdrew it, its run ended normally, or the person sent another prompt instead
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from clew.core.ids import RunId, ThreadId
from clew.core.record import Record
from clew.core.runs.permissions import Answer
from clew.core.runs.tool_rules import ToolRule

SHOWN_CHARS = 400  # of a tool's input, in a message to the agent


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
    tool_rule: ToolRule | None = None  # what "always in this thread" would allow
    reply: Answer | None = None  # the stored answer; while the state is `open`, the agent has not received it yet

    @property
    def is_open(self) -> bool:
        """An answer would still be accepted."""
        return self.state is QuestionState.OPEN and self.reply is None


def as_message(question: Question, answer: Answer) -> str:
    """The answer as a prompt, for a session whose process died while the question was open."""
    from clew.core.continuation import PERMISSION_ANSWERED, QUESTIONS_ANSWERED  # here, because few turns need them

    asked = f"{QUESTIONS_ANSWERED}Here are the answers; go on with them."
    if question.is_form and answer.allow:
        return f"{asked}\n\n{_answers(question, answer)}"
    if question.is_form:
        return f"{asked} They were left open. {answer.message}".strip()
    what = f"{question.tool} {json.dumps(dict(question.input), ensure_ascii=False)}"
    what = what if len(what) <= SHOWN_CHARS else f"{what[:SHOWN_CHARS]}…"
    if answer.allow:
        return f"{PERMISSION_ANSWERED}{what}. It is given: go on."
    from clew.core.runs.choices import reason_in

    words = f" {reason_in(answer.message)}" if answer.message else ""
    return f"{PERMISSION_ANSWERED}{what}. It was declined.{words}"


def _answers(question: Question, answer: Answer) -> str:
    given = answer.answers or {}
    items = question.input.get("questions")  # an agent may have sent anything
    known = items if isinstance(items, list | tuple) else ()
    asked = [str(item.get("question", "")) for item in known if isinstance(item, Mapping)]
    ordered = [*(text for text in asked if text in given), *(text for text in given if text not in asked)]
    return "\n".join(f"- {text}: {given[text]}" for text in ordered)
