"""A pair: an instructor plans, a worker does, round by round; and where it stands at every moment.

phase         what is going on                                    may become
instructing   the instructor is asked what to do next             working, done, instructing (a message waits)
working       the worker carries the instruction out              instructing (the next round), done (no rounds left)
done          the instructor said so, or the rounds are used up,  instructing (somebody goes on with it)
              or it is a fork that has not gone on yet

Both have a thread of their own. `asking` is the text that the present phase wants asked, `run_id` the run that asks it:
none yet, or the newest. Both are stored before and after every run, so whoever goes on after a crash knows what is due.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from clew.core.ids import RunId, ThreadId
from clew.core.record import Record
from clew.core.runs.events import Event

PAIR_NAME_CHARS = 60  # the names of its threads are longer


class PairPart(StrEnum):
    INSTRUCTOR = "instructor"
    WORKER = "worker"


class Phase(StrEnum):
    INSTRUCTING = "instructing"
    WORKING = "working"
    DONE = "done"


class PairStatus(StrEnum):
    """What a list shows."""

    RUNNING = "running"
    FINISHED = "finished"  # the instructor said so
    OUT_OF_ROUNDS = "out_of_rounds"
    STOPPED = "stopped"  # by a person or by an error (`error` says which), or at rest: a fork that has not gone on yet
    INTERRUPTED = "interrupted"  # Clew itself died


class Order(Record):
    """The instructor's answer."""

    thinking: str
    instruction: str
    worker_model: str | None
    should_continue: bool
    needs_correction: bool


class PairRound(Record):
    """One round: an order, and what the worker made of it."""

    pair_id: str
    number: int
    message: str = ""  # of the user, told to the instructor in this round
    changed_files: tuple[str, ...] = ()  # by somebody else before it
    order: Order | None = None
    instructor_run_id: RunId | None = None  # the newest
    worker_run_id: RunId | None = None
    worker_model: str | None = None  # who was asked
    result: str | None = None  # the worker's final words
    started_at: float = 0.0
    ended_at: float | None = None


class Pair(Record):
    """One pair, as the store keeps it."""

    id: str
    name: str
    task: str
    cwd: str
    agent: str
    instructor_thread_id: ThreadId
    worker_thread_id: ThreadId
    instructor_model: str | None = None
    worker_model: str | None = None
    models: tuple[str, ...] = ()  # all that were ever named: the instructor may choose one of them for the worker
    thinking: bool = False
    max_rounds: int = 10  # as it was begun; a pair that has used its rounds up gets as many again
    last_round: int = 10  # so far it may go
    number: int = 1  # of the present round
    phase: Phase = Phase.INSTRUCTING
    is_finished: bool = False  # the instructor said so
    asking: str = ""
    asked_at: float = 0.0  # since when `asking` is due
    run_id: RunId | None = None
    asked_again: bool = False  # for an answer that fits
    message: str = ""  # of the user, for the instructor, not told yet
    changed_files: tuple[str, ...] = ()  # likewise
    error: str | None = None  # why it stopped
    hint: str | None = None
    error_code: str | None = None
    imported_from: str | None = None
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def part(self) -> PairPart:
        """Whose turn it is."""
        return PairPart.WORKER if self.phase is Phase.WORKING else PairPart.INSTRUCTOR

    @property
    def rounds_done(self) -> int:
        return self.number if self.phase is Phase.DONE else self.number - 1

    @property
    def rounds_left(self) -> int:
        return max(0, self.last_round - self.rounds_done)

    def thread_of(self, part: PairPart) -> ThreadId:
        return self.instructor_thread_id if part is PairPart.INSTRUCTOR else self.worker_thread_id

    def status(self, *, is_held: bool) -> PairStatus:
        """`is_held`: a process that is alive carries it out."""
        if is_held:
            return PairStatus.RUNNING
        if self.phase is Phase.DONE and self.is_finished:
            return PairStatus.FINISHED
        if self.phase is Phase.DONE and not self.rounds_left:
            return PairStatus.OUT_OF_ROUNDS
        is_at_rest = self.phase is Phase.DONE or self.error_code is not None
        return PairStatus.STOPPED if is_at_rest else PairStatus.INTERRUPTED


def known_models(*names: str | None, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Each once, in the order in which they were named."""
    return tuple(dict.fromkeys([*before, *(name for name in names if name)]))


class PairEvent(Record):
    """One thing that happened in a pair."""

    kind: ClassVar[str] = ""
    round: int


class PairAsked(PairEvent):
    """A run has begun."""

    kind: ClassVar[str] = "asked"
    of: int  # rounds that there may be
    part: PairPart
    run_id: RunId
    model: str | None
    text: str


class PairRunEvent(PairEvent):
    """An event of a run, as it came."""

    kind: ClassVar[str] = "heard"
    part: PairPart
    run_id: RunId
    event: Event


class PairOrdered(PairEvent):
    """The instructor has answered."""

    kind: ClassVar[str] = "ordered"
    order: Order
    run_id: RunId


class PairWorked(PairEvent):
    """The worker has ended."""

    kind: ClassVar[str] = "worked"
    text: str
    run_id: RunId


class PairSaved(PairEvent):
    """The state file was written."""

    kind: ClassVar[str] = "saved"
    path: str


class PairWarned(PairEvent):
    """Something that stops nobody, and that one should know."""

    kind: ClassVar[str] = "warned"
    code: str
    message: str
