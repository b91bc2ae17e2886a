"""Forks, comparisons, merges and replays of threads."""

from __future__ import annotations

from typing import Annotated, Literal

from clew.api.wire.operations import Failure, Operation
from clew.api.wire.shape import Doc, Money, Permissions, Shape, Time, Trust, Visibility

Step = Literal["same", "changed", "only_a", "only_b"]
FileStep = Annotated[
    Literal["same", "changed", "both", "only_a", "only_b"],
    Doc("`both`: both threads edited it, and what was written is not recorded"),
]


class NamedThread(Shape):
    id: str
    name: str


class NextTurn(Shape):
    """What the first turn of a fork will do."""

    resumes: Annotated[bool | None, Doc("null: not known, for example because the agent is missing")]
    reason: Annotated[str | None, Doc("Why it does not resume")]
    words: str


class ForkOrigin(Shape):
    how: Literal["fork", "replay", "merge"]
    of: list[NamedThread]  # type: ignore[assignment]  # hides the method `of`, so these shapes are made without it
    round: Annotated[int | None, Doc("The last round that was copied; null: all rounds")]


class ForkedThread(Shape):
    name: str
    id: str
    kind: str
    cwd: str
    agent: str
    model: str | None
    permissions: Permissions
    trust: Trust
    visibility: Visibility
    instructions: str | None
    origin: ForkOrigin | None
    created_at: Time
    updated_at: Time
    next_turn: NextTurn


class Fork(Shape):
    """A new thread with another one's history up to a round; of a pair, another pair."""

    name: str
    id: Annotated[str | None, Doc("null for a pair, which has two threads")]
    of: list[NamedThread]  # type: ignore[assignment]
    pair: Annotated[str | None, Doc("The new pair's name")]
    turns: int
    rounds: int
    notes: list[str]
    threads: list[ForkedThread]


class ComparedTurn(Shape):
    id: str
    role: Literal["user", "assistant"]
    agent: str | None
    model: str | None
    text: str


class TurnDifference(Shape):
    """A turn of one thread, or two turns that are at the same place."""

    step: Step
    a: ComparedTurn | None
    b: ComparedTurn | None


class FileDifference(Shape):
    """A file that an agent of either thread wrote to, as far as the events of the runs say."""

    path: str
    step: FileStep
    a_edits: int
    b_edits: int
    diff: str


class ComparedPart(Shape):
    """The instructors, or the workers, of two pairs."""

    a: NamedThread
    b: NamedThread
    turns: list[TurnDifference]
    files: list[FileDifference]


class Comparison(Shape):
    """What two threads have in common, and where they differ."""

    same: Annotated[bool, Doc("Nothing is known to differ")]
    a: NamedThread
    b: NamedThread
    turns: list[TurnDifference]
    files: list[FileDifference]


class PairComparison(Shape):
    """Two pairs, compared part by part."""

    same: bool
    instructor: ComparedPart
    worker: ComparedPart


class MergedFile(Shape):
    path: str
    step: FileStep


class Merge(Shape):
    """A new thread with the turns of two others."""

    name: str
    id: str
    of: list[NamedThread]  # type: ignore[assignment]
    agent: str
    model: str | None
    cwd: str
    common_turns: Annotated[int, Doc("The turns with which both begin")]
    own_turns: Annotated[list[int], Doc("How many further turns each of the two has")]
    size_chars: int
    files: list[MergedFile]


class MergedPart(Shape):
    """The merged threads of one part of two pairs."""

    common_turns: int
    own_turns: list[int]
    size_chars: int
    files: list[MergedFile]


class PairMerge(Shape):
    """A new pair with the rounds of two others."""

    name: str
    id: str
    of: list[NamedThread]  # type: ignore[assignment]
    agent: str
    instructor_model: str | None
    worker_model: str | None
    cwd: str
    common_rounds: Annotated[int, Doc("The rounds with which both begin")]
    own_rounds: Annotated[list[int], Doc("How many further rounds each of the two has")]
    parts: Annotated[dict[str, MergedPart], Doc("By part: instructor and worker")]


class TokenUsage(Shape):
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int


class ReplayAnswer(Shape):
    agent: str
    model: str | None
    text: str
    partial: Annotated[bool, Doc("The answer was cut off")]
    usage: TokenUsage
    cost_usd: Annotated[Money | None, Doc("null: not known")]
    seconds: Annotated[float | None, Doc("null: not known")]


class ReplayRound(Shape):
    """A prompt, and its answer in the old and in the new thread."""

    number: int
    prompt: str
    before: ReplayAnswer | None
    after: ReplayAnswer | None


class ReplayTotals(Shape):
    """The sums of one thread's answers. Values that are not known are not counted."""

    answers: int
    cut_off: int
    usage: TokenUsage
    cost_usd: Money | None
    unpriced: Annotated[int, Doc("Answers whose cost is not known")]
    seconds: float | None


class Replay(Shape):
    """A new thread in which another model was asked the prompts of an old one."""

    name: str
    id: str
    of: list[NamedThread]  # type: ignore[assignment]
    agent: str
    model: str | None
    permissions: Permissions
    cwd: str
    prompts: Annotated[int, Doc("How many are to be asked in all")]
    rounds: Annotated[list[ReplayRound], Doc("Those that were asked so far, with both answers")]
    before: ReplayTotals
    after: ReplayTotals
    error: Annotated[Failure | None, Doc("Why it ended early")]


class ReplayOperation(Operation):
    """A replay that was started."""

    result: Replay | None  # type: ignore[assignment]  # the same, described in more detail
