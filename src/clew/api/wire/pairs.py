"""Pairs and their rounds. api/pairs.py makes those that need the state file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.failures import Failure
from clew.api.wire.operations import Operation
from clew.api.wire.shape import Doc, Money, Permissions, Shape, Time
from clew.api.wire.usage import Usage

if TYPE_CHECKING:
    from clew.core.pairs.pair import PairRound as PairRoundRecord


class Order(Shape):
    """The instructor's answer."""

    thinking: str
    instruction: str
    worker_model: str | None
    should_continue: bool
    needs_correction: bool


class PairRound(Shape):
    round: int
    message: Annotated[str, Doc("From the user to the instructor, sent in this round")]
    changed_files: Annotated[list[str], Doc("Files that somebody else changed before this round")]
    order: Order | None
    worker_model: Annotated[str | None, Doc("The model that was asked")]
    result: Annotated[str | None, Doc("The worker's report")]
    instructor_run: Annotated[str | None, Doc("The newest")]
    worker_run: str | None
    started_at: Time
    ended_at: Time | None


class PairThreads(Shape):
    instructor: str
    worker: str


class PairNote(Shape):
    """A pair in a list."""

    type: Literal["pair"]
    id: str
    name: str
    status: Literal["running", "finished", "out_of_rounds", "stopped", "interrupted"]
    phase: Literal["instructing", "working", "done"]
    round: Annotated[int, Doc("The number of the present round")]
    rounds_left: int
    max_rounds: Annotated[int, Doc("As given at the start; a pair that has used up its rounds gets this many more")]
    task: str
    cwd: str
    agent: str
    instructor_model: str | None
    worker_model: str | None
    permissions: Permissions
    thinking: bool
    threads: Annotated[PairThreads, Doc("The ids of their conversations")]
    sessions: Annotated[dict[str, dict[str, str]], Doc("By part and model")]
    usage: Usage
    cost_usd: Money
    file: Annotated[str | None, Doc("The state file; null: there is none")]
    imported_from: str | None
    imported_round: Annotated[int | None, Doc("The round in which an imported pair continues")]
    stop_requested: Annotated[bool, Doc("It runs, and stops soon")]
    error: Annotated[Failure | None, Doc("Why it stopped")]
    created_at: Time
    updated_at: Time


class Pair(PairNote):
    """An instructor that plans and a worker that carries out, with their rounds."""

    rounds: list[PairRound]


class ResumedPair(Pair):
    """A pair that was resumed."""

    warnings: list[str]


class PairList(Shape):
    items: list[PairNote]
    version: Annotated[int, Doc("The version of the store that this is part of")]


class CleanedPair(PairNote):
    """A pair that was removed; in a dry run: that would be."""

    archive: Annotated[str | None, Doc("The file with both threads; null: it was not removed")]
    kept_because: Annotated[str | None, Doc("Why it is not removed")]


class CleanedPairs(Shape):
    items: list[CleanedPair]


class ReplayedPair(Shape):
    id: str
    name: str


class PairReplay(Shape):
    """A new pair with the task and the messages of another one, and with other models."""

    name: str
    id: str
    of: list[ReplayedPair]  # type: ignore[assignment]  # hides the method `of`
    agent: str
    instructor_model: str | None
    worker_model: str | None
    permissions: Permissions
    cwd: str
    before: Pair
    after: Pair
    error: Failure | None


class PairReplayOperation(Operation):
    """A replay of a pair that was started."""

    result: Annotated[PairReplay | None, Doc("Also if it failed or was cancelled")]  # type: ignore[assignment]


def pair_round(record: PairRoundRecord) -> PairRound:
    return PairRound.of(
        record,
        round=record.number,
        order=None if record.order is None else Order.of(record.order),
        instructor_run=record.instructor_run_id,
        worker_run=record.worker_run_id,
    )
