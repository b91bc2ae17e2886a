"""Turns of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.runs import RunSummary, run_summary
from clew.api.wire.shape import Doc, Shape, Time

if TYPE_CHECKING:
    from clew.store.records import TurnView


class Turn(Shape):
    id: str
    position: int
    role: Literal["user", "assistant"]
    text: str
    agent: str | None
    model: str | None
    partial: Annotated[bool, Doc("The answer was cut off")]
    revision: Annotated[int, Doc("The number of edits")]
    created_at: Time
    run_id: str | None
    run: Annotated[
        RunSummary | None,
        Doc("The run that gave this answer; for a user's turn, the run that ended without an answer"),
    ]
    steps: Annotated[int, Doc("The number of tools that the run started")]


class ArchivedTurns(Shape):
    archived: int


def turn(view: TurnView) -> Turn:
    run = None if view.run is None else run_summary(view.run, view.stderr_tail)
    return Turn.of(view.turn, position=view.position, run=run, steps=view.steps)
