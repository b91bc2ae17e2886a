"""A pair: an instructor plans and a worker carries out, in rounds. The record always says what comes next.

phase         what happens                                        the next phase
instructing   the instructor is asked what to do next             working, done, instructing (a message waits)
working       the worker carries the instruction out              instructing (the next round), done (no rounds left)
done          the instructor said so, or the rounds are used up,  instructing (a user continues the pair)
              or it is a fork that nobody has continued yet

The instructor and the worker have a thread each. `asking` is the prompt of the present phase, and `run_id` is the
newest run that asks it (None: no run yet). Both are stored before and after every run, so after a crash the store says
which prompt is next.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from clew.core.ids import RunId, ThreadId
from clew.core.record import Record
from clew.core.runs.events import Event

PAIR_NAME_CHARS = 60  # shorter than a thread's name may be: the names of its threads are made from it


class PairPart(StrEnum):
    INSTRUCTOR = "instructor"
    WORKER = "worker"


class Phase(StrEnum):
    INSTRUCTING = "instructing"
    WORKING = "working"
    DONE = "done"


class PairStatus(StrEnum):
    """The state of a pair, as lists show it."""

    RUNNING = "running"
    FINISHED = "finished"  # the instructor said so
    OUT_OF_ROUNDS = "out_of_rounds"
    STOPPED = "stopped"  # by a user or an error (`error` says which); or it is a fork that nobody has continued yet
    INTERRUPTED = "interrupted"  # Clew crashed or was killed


class Order(Record):
    """The instructor's answer."""

    thinking: str
    instruction: str
    worker_model: str | None
    should_continue: bool
    needs_correction: bool


class PairRound(Record):
    """One round: the instructor's order and the worker's report."""

    pair_id: str
    number: int
    message: str = ""  # from the user to the instructor, sent in this round
    changed_files: tuple[str, ...] = ()  # files that somebody else changed before this round
    order: Order | None = None
    instructor_run_id: RunId | None = None  # the newest
    worker_run_id: RunId | None = None
    worker_model: str | None = None  # the model that was asked
    result: str | None = None  # the worker's report
    started_at: float = 0.0
    ended_at: float | None = None


class PlannedMessage(Record):
    """A user's message that a replay gives to the instructor in that round, or in the next one if it ends before."""

    round: int
    text: str


class Pair(Record):
    """A pair, as it is stored."""

    id: str
    name: str
    task: str
    cwd: str
    agent: str
    instructor_thread_id: ThreadId
    worker_thread_id: ThreadId
    instructor_model: str | None = None
    worker_model: str | None = None
    models: tuple[str, ...] = ()  # every model that the user has named: the instructor may choose one for the worker
    thinking: bool = False
    max_rounds: int = 10  # as given at the start; a pair that has used up its rounds gets this many more
    last_round: int = 10  # the number of the last round that it may have
    number: int = 1  # of the present round
    phase: Phase = Phase.INSTRUCTING
    is_finished: bool = False  # the instructor said so
    asking: str = ""  # the prompt of the present phase
    asked_at: float = 0.0  # when `asking` was set
    run_id: RunId | None = None  # the newest run that asks it
    asked_again: bool = False  # the instructor's answer was invalid, and is asked for once more
    message: str = ""  # from the user to the instructor, not sent yet
    changed_files: tuple[str, ...] = ()  # changed by somebody else, and not reported to the instructor yet
    error: str | None = None  # why it stopped
    hint: str | None = None
    error_code: str | None = None
    imported_from: str | None = None
    imported_round: int | None = None  # the round in which it was when it was imported
    stop_requested: bool = False  # somebody asked the process that runs it to stop
    fresh_parts: tuple[PairPart, ...] = ()  # the parts whose next run starts a fresh session
    planned_messages: tuple[PlannedMessage, ...] = ()  # of a replay, not sent yet
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def part(self) -> PairPart:
        """The part whose turn it is."""
        return PairPart.WORKER if self.phase is Phase.WORKING else PairPart.INSTRUCTOR

    @property
    def rounds_done(self) -> int:
        return self.number if self.phase is Phase.DONE else self.number - 1

    @property
    def rounds_left(self) -> int:
        return max(0, self.last_round - self.rounds_done)

    def thread_of(self, part: PairPart) -> ThreadId:
        return self.instructor_thread_id if part is PairPart.INSTRUCTOR else self.worker_thread_id

    def model_of(self, part: PairPart) -> str | None:
        return self.instructor_model if part is PairPart.INSTRUCTOR else self.worker_model

    def status(self, *, is_held: bool) -> PairStatus:
        """`is_held`: a live process runs the pair."""
        if is_held:
            return PairStatus.RUNNING
        if self.phase is Phase.DONE and self.is_finished:
            return PairStatus.FINISHED
        if self.phase is Phase.DONE and not self.rounds_left:
            return PairStatus.OUT_OF_ROUNDS
        was_stopped = self.phase is Phase.DONE or self.error_code is not None
        return PairStatus.STOPPED if was_stopped else PairStatus.INTERRUPTED


def known_models(*names: str | None, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Each model once, in the order in which they were named. `before`: the models that were known already."""
    return tuple(dict.fromkeys([*before, *(name for name in names if name)]))


class PairEvent(Record):
    """Something that happened in a pair."""

    kind: ClassVar[str] = ""
    round: int


class PairRoundOpened(PairEvent):
    """A round has begun. Only `follow` yields it."""

    kind: ClassVar[str] = "opened"
    of: int  # the number of the last round
    message: str  # from the user to the instructor, sent in this round
    changed_files: tuple[str, ...]


class PairRoundEnded(PairEvent):
    """A round has ended: the worker has reported, or the instructor has finished the task. Only `follow` yields it."""

    kind: ClassVar[str] = "ended"
    is_finished: bool  # the instructor said that the task is done


class PairAsked(PairEvent):
    """A run has begun."""

    kind: ClassVar[str] = "asked"
    of: int  # the number of the last round
    part: PairPart
    run_id: RunId
    model: str | None
    text: str


class PairRunEvent(PairEvent):
    """An event of a run, passed on unchanged."""

    kind: ClassVar[str] = "heard"
    part: PairPart
    run_id: RunId
    event: Event


class PairOrdered(PairEvent):
    """The instructor has answered."""

    kind: ClassVar[str] = "ordered"
    order: Order
    run_id: RunId | None  # None: the round was imported, or copied from another pair


class PairWorked(PairEvent):
    """The worker has reported."""

    kind: ClassVar[str] = "worked"
    text: str
    run_id: RunId | None  # None: as for an order


class PairSaved(PairEvent):
    """The state file was written."""

    kind: ClassVar[str] = "saved"
    path: str


class PairWarned(PairEvent):
    """Something the user should know that does not stop the pair."""

    kind: ClassVar[str] = "warned"
    code: str
    message: str
