"""The results of the MCP tools: what an agent needs, with an error as one line."""

from __future__ import annotations

from typing import Annotated

from clew.api.wire.reviews import Finding, RoundStatus, Scope
from clew.api.wire.shape import Doc, Money, Shape
from clew.api.wire.usage import Usage


class RoundResult(Shape):
    review_id: str
    round: int
    status: RoundStatus
    summary: str | None
    findings: Annotated[list[Finding], Doc("Found in this round")]
    still_open: Annotated[list[Finding], Doc("Findings of earlier rounds that are not fixed or withdrawn")]
    files: Annotated[list[str], Doc("The files that were compared")]
    changed_since: Annotated[list[str], Doc("Files that changed since the round before")]
    session_resumed: bool
    reason: Annotated[str | None, Doc("Why the reviewer's session was fresh, or why it was rewound or copied")]
    model: str | None
    usage: Usage
    cost_usd: Money
    error: str | None


class ReviewResult(Shape):
    review_id: str
    cwd: str
    scope: Scope
    base: str | None
    focus: str
    findings: Annotated[list[Finding], Doc("All of them, in their present state")]
    rounds: list[RoundResult]


class ReviewLine(Shape):
    review_id: str
    cwd: str
    rounds: int
    status: Annotated[RoundStatus | None, Doc("Of the last round")]
    open: Annotated[int, Doc("The number of open findings")]
    summary: str | None


class ReviewLines(Shape):
    reviews: list[ReviewLine]
    total: int


class AnswerResult(Shape):
    thread: Annotated[str, Doc("Name it to continue the conversation")]
    text: str
    agent: str
    model: str | None
    session_resumed: bool
    reason: Annotated[str | None, Doc("Why the session was fresh, or why it was rewound or copied")]
    rewound_to: Annotated[int | None, Doc("The number of the turn to which the session was rewound")]
    usage: Usage
    cost_usd: Money
    warnings: Annotated[list[str], Doc("Problems that did not stop the run")]


class ThreadLine(Shape):
    name: str
    kind: str
    agent: str
    model: str | None
    cwd: str


class ThreadLines(Shape):
    threads: list[ThreadLine]
