"""Turns of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.runs import RunSummary, run_summary
from clew.api.wire.shape import Doc, Shape, Time

if TYPE_CHECKING:
    from clew.hosts.chat.chat import Synced
    from clew.store.records import TurnView


class Turn(Shape):
    id: str
    position: int
    role: Literal["user", "assistant"]
    text: str
    typed: Annotated[
        str | None, Doc("What the user typed, if `text` is what it stood for: mentioned files, a command's text")
    ]
    agent: str | None
    model: str | None
    partial: Annotated[bool, Doc("The answer was cut off")]
    outside: Annotated[bool, Doc("It was made outside Clew, in the agent's own CLI, and brought in")]
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


class CompactedSession(Shape):
    session_id: Annotated[str | None, Doc("Null: the next turn would resume no session, so nothing happened")]
    is_compacted: Annotated[bool, Doc("False: the agent found too little in the session")]


class OutsideTurn(Shape):
    """A turn that was made outside Clew."""

    id: Annotated[str, Doc("After a dry run, no turn has it")]
    role: Literal["user", "assistant"]
    text: str
    agent: str | None
    model: str | None
    partial: Annotated[bool, Doc("The answer was cut off")]
    created_at: Time
    run_id: str | None


class SyncedThread(Shape):
    """What was done outside Clew in the sessions of a thread."""

    thread: Annotated[str, Doc("Its name")]
    turns: Annotated[list[OutsideTurn], Doc("The turns that came in, the oldest first")]
    compacted: Annotated[bool, Doc("A session was compacted: it holds the earlier turns only as a summary")]
    branched: Annotated[
        list[str],
        Doc("Sessions that were continued from an earlier turn, so that they are not the thread's any more"),
    ]


def turn(view: TurnView) -> Turn:
    run = None if view.run is None else run_summary(view.run, view.stderr_tail)
    return Turn.of(view.turn, position=view.position, run=run, steps=view.steps)


def synced_thread(done: Synced) -> SyncedThread:
    turns = [OutsideTurn.of(each) for each in done.turns]
    return SyncedThread(done.name, turns, done.is_compacted, list(done.branched))
