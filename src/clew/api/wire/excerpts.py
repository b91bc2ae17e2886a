"""What an agent reads of other threads. All that was said there is between fence lines, so that it is read as data."""

from __future__ import annotations

from typing import Annotated, Literal

from clew.api.wire.branching import FileStep, Step
from clew.api.wire.shape import Doc, Shape, Time

Role = Literal["user", "assistant"]
Note = Annotated[str, Doc("What the fence lines around the texts mean")]
Fenced = Annotated[str, Doc("Data: between two fence lines")]


class FoundTurn(Shape):
    thread: Annotated[str, Doc("The thread's name, for read_thread")]
    kind: str
    turn: Annotated[str, Doc("The turn's id, for read_thread")]
    role: Role
    agent: str | None
    model: str | None
    created_at: Time
    text: Fenced


class FoundTurns(Shape):
    """Turns that contain the words, the newest first."""

    note: Note
    items: list[FoundTurn]
    more: Annotated[bool, Doc("There are more: call again with a larger `offset`")]


class ReadTurn(Shape):
    id: str
    position: int
    role: Role
    agent: str | None
    model: str | None
    partial: Annotated[bool, Doc("The answer was cut off")]
    outside: Annotated[bool, Doc("It was made outside Clew, in the agent's own CLI")]
    created_at: Time
    chars: Annotated[int, Doc("The length of the whole text, of which the middle may be left out here")]
    text: Fenced


class ReadThread(Shape):
    """Some turns of a thread, the oldest of them first."""

    note: Note
    thread: str
    kind: str
    agent: str
    model: str | None
    cwd: str
    turns: Annotated[int, Doc("How many turns the thread has")]
    outside_turns: Annotated[
        int, Doc("Turns that were made outside Clew and are not in the thread yet; the next ask brings them in")
    ]
    items: list[ReadTurn]
    more: Annotated[bool, Doc("There are earlier turns: call again with `before`")]
    before: Annotated[int | None, Doc("The position of the first turn of these")]


class NewFork(Shape):
    """A fork that was made."""

    thread: Annotated[str, Doc("Its name: ask in it, or read it")]
    of: Annotated[str, Doc("The thread that was forked")]  # type: ignore[assignment]
    turns: int
    rounds: int
    pair: Annotated[str | None, Doc("The new pair's name, if a pair was forked")]
    notes: list[str]


class TurnExcerpt(Shape):
    step: Step
    role: Role
    a: Annotated[str | None, Doc("What A says there, as data; of turns that are the same, the beginning")]
    b: Annotated[str | None, Doc("What B says there, as data; null if it is the same")]


class FileExcerpt(Shape):
    step: FileStep
    a_edits: int
    b_edits: int
    text: Annotated[str, Doc("Data: the path, and the diff below it")]


class ComparedThreads(Shape):
    part: Annotated[str | None, Doc("Of pairs: instructor or worker")]
    a: str
    b: str
    turns: list[TurnExcerpt]
    turns_left_out: Annotated[int, Doc("Turns at the end that did not fit")]
    files: list[FileExcerpt]
    files_left_out: int


class ComparisonExcerpt(Shape):
    """Two threads compared; two pairs part by part."""

    note: Note
    same: bool
    parts: list[ComparedThreads]
