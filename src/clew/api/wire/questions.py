"""Questions of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from clew.api.wire.shape import Doc, Shape, Time
from clew.core.runs.question import QuestionState

if TYPE_CHECKING:
    from clew.core.runs.question import Question as QuestionRecord


class Question(Shape):
    """A question of an agent that waits for a person."""

    id: str
    run_id: str
    thread_id: str
    tool: str
    input: dict[str, Any]
    is_form: Annotated[bool, Doc("It asks for answers, not for permission")]
    state: Literal["open", "answered", "withdrawn"]
    asked_at: Time
    answered_at: Time | None
    allowed: bool | None
    live: Annotated[bool, Doc("False: its run has ended, and a message to the resumed session carries the answer")]


class AnsweredQuestion(Question):
    follow_up_run_id: Annotated[str | None, Doc("The run that carries the answer, if the run that asked has ended")]


def question(record: QuestionRecord, *, live: bool) -> Question:
    """A question with a reply counts as answered, also before its agent got the reply."""
    reply = None if record.state is not QuestionState.OPEN else record.reply
    return Question.of(
        record,
        input=dict(record.input),
        state=record.state if reply is None else QuestionState.ANSWERED,
        allowed=record.allowed if reply is None else reply.allow,
        live=live,
    )


def answered_question(record: QuestionRecord, follow_up_run_id: str | None) -> AnsweredQuestion:
    return AnsweredQuestion.of(question(record, live=follow_up_run_id is None), follow_up_run_id=follow_up_run_id)
