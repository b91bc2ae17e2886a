"""The results of the tools; their output schemas are generated from these classes."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, Field

from clew.api.reply import Reply
from clew.api.reviews import ReviewState, error_of
from clew.api.thread import Thread
from clew.core.costs.usage import MONEY_DIGITS
from clew.core.record import Record
from clew.core.reviews.review import Finding, FindingState, ReviewRound, RoundStatus, findings_of


class FindingShape(BaseModel):
    id: str
    severity: str = Field(description="critical, high, medium, low or info")
    file: str | None
    line: int | None
    title: str
    detail: str
    suggestion: str
    round: int = Field(description="the round that found it")
    state: str = Field(description="open, fixed or withdrawn")
    note: str = Field(description="why it is in that state")


class UsageShape(BaseModel):
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int


class RoundShape(BaseModel):
    review_id: str
    round: int
    status: str = Field(description="running, done or failed")
    summary: str | None
    findings: list[FindingShape] = Field(description="found in this round")
    still_open: list[FindingShape] = Field(description="findings of earlier rounds that are not fixed or withdrawn")
    files: list[str] = Field(description="the files that were compared")
    changed_since: list[str] = Field(description="files that changed since the round before")
    session_resumed: bool
    reason: str | None = Field(description="why the reviewer's session was fresh")
    model: str | None
    usage: UsageShape
    cost_usd: float
    error: str | None


class ReviewShape(BaseModel):
    review_id: str
    cwd: str
    scope: str
    base: str | None
    focus: str
    findings: list[FindingShape] = Field(description="all of them, in their present state")
    rounds: list[RoundShape]


class ReviewSummaryShape(BaseModel):
    review_id: str
    cwd: str
    rounds: int
    status: str | None = Field(description="of the last round")
    open: int = Field(description="the number of open findings")
    summary: str | None


class ReviewList(BaseModel):
    reviews: list[ReviewSummaryShape]
    total: int


class AnswerShape(BaseModel):
    thread: str = Field(description="name it to continue the conversation")
    text: str
    agent: str
    model: str | None
    session_resumed: bool
    reason: str | None
    usage: UsageShape
    cost_usd: float
    warnings: list[str] = Field(description="problems that did not stop the run")


class ThreadShape(BaseModel):
    name: str
    kind: str
    agent: str
    model: str | None
    cwd: str


class ThreadList(BaseModel):
    threads: list[ThreadShape]


S = TypeVar("S", bound=BaseModel)


def _shape(kind: type[S], record: Record, **others: Any) -> S:
    """A shape whose fields are those of the record with the same names, and `others`."""
    return kind(**{name: value for name, value in record.as_dict().items() if name in kind.model_fields} | others)


def finding_shape(finding: Finding) -> FindingShape:
    return _shape(FindingShape, finding)


def round_shape(state: ReviewState, round_: ReviewRound) -> RoundShape:
    error = error_of(round_)
    answer = round_.answer
    found = findings_of(state.rounds)
    return _shape(
        RoundShape,
        round_,
        round=round_.number,
        status=round_.status.value,
        summary=answer.summary if answer else None,
        findings=[finding_shape(each) for each in found if each.round == round_.number],
        still_open=[
            finding_shape(each) for each in found if each.round < round_.number and each.state is FindingState.OPEN
        ],
        files=[change.path for change in round_.changes],
        cost_usd=round(round_.cost_usd, MONEY_DIGITS),
        error=error.message if error is not None else None,
    )


def review_shape(state: ReviewState) -> ReviewShape:
    review = state.review
    return ReviewShape(
        review_id=review.id,
        cwd=review.top,
        scope=review.scope.value,
        base=review.base,
        focus=review.focus,
        findings=[finding_shape(each) for each in findings_of(state.rounds)],
        rounds=[round_shape(state, round_) for round_ in state.rounds],
    )


def review_summary_shape(state: ReviewState) -> ReviewSummaryShape:
    last = state.last
    done = [round_ for round_ in state.rounds if round_.status is RoundStatus.DONE and round_.answer is not None]
    return ReviewSummaryShape(
        review_id=state.review.id,
        cwd=state.review.top,
        rounds=len(state.rounds),
        status=last.status.value if last is not None else None,
        open=sum(each.state is FindingState.OPEN for each in findings_of(state.rounds)),
        summary=done[-1].answer.summary if done and done[-1].answer else None,
    )


def answer_shape(reply: Reply) -> AnswerShape:
    return _shape(AnswerShape, reply, cost_usd=round(reply.cost_usd, MONEY_DIGITS))


def thread_shape(thread: Thread) -> ThreadShape:
    return _shape(ThreadShape, thread.record)
