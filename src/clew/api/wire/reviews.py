"""Reviews, their rounds and figures. api/reviews.py makes those that need to know why a round failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.failures import Failure
from clew.api.wire.shape import Doc, Money, Shape, Time
from clew.api.wire.usage import Usage
from clew.core.costs.usage import MONEY_DIGITS

if TYPE_CHECKING:
    from clew.core.reviews.review import PathUsage, ReviewMeasures

Scope = Literal["all", "staged", "unstaged"]
RoundStatus = Literal["running", "done", "failed"]
Severity = Literal["critical", "high", "medium", "low", "info"]
FindingState = Literal["open", "fixed", "withdrawn"]


class Finding(Shape):
    id: str
    severity: Severity
    file: str | None
    line: Annotated[int | None, Doc("The line in the file as it was in that round")]
    title: str
    detail: str
    suggestion: str
    round: Annotated[int, Doc("The round that found it")]
    state: FindingState
    state_round: Annotated[int, Doc("The round that gave it this state")]
    note: Annotated[str, Doc("Why it has this state")]


class Verdict(Shape):
    """What a later round says about an earlier finding."""

    id: str
    state: FindingState
    note: str


class FileChange(Shape):
    path: str
    status: Annotated[str, Doc("A added, M modified, D deleted, R renamed, …")]
    added: Annotated[int | None, Doc("The number of lines; null for a binary file")]
    removed: int | None
    old_path: str | None
    left_out: Annotated[str | None, Doc("Why its text was not shown to the reviewer")]


class Round(Shape):
    """One review of the changes, or of what has changed since the round before."""

    id: Annotated[str, Doc("The review's id")]
    round: int
    status: RoundStatus
    agent: str
    model: str | None
    session_resumed: bool
    reason: Annotated[
        str | None, Doc("Why its session was fresh, or why a resumed one was rewound or copied; null: not known yet")
    ]
    fallback: bool
    summary: str | None
    findings: Annotated[list[Finding], Doc("What this round found, in the state of this round")]
    earlier: Annotated[list[Verdict], Doc("What it says about earlier findings")]
    message: str
    base_commit: Annotated[str | None, Doc("The commit that the files were compared with; null: the index")]
    head_commit: str | None
    files: list[FileChange]
    changed_since: Annotated[list[str], Doc("Files that changed since the round before")]
    run_id: Annotated[str | None, Doc("Its newest run: GET /api/runs/{run}/events")]
    runs: Annotated[int, Doc("2: the first answer did not have the required form, so the agent was asked again")]
    usage: Usage
    cost_usd: Money
    prompt_chars: int
    transcript_chars: int
    error: Failure | None
    started_at: Time
    ended_at: Time | None


class ReviewNote(Shape):
    """A review in a list."""

    id: str
    status: Annotated[RoundStatus | None, Doc("The status of its last round; null: it has none")]
    round: Annotated[int, Doc("The number of its last round")]
    cwd: Annotated[str, Doc("The repository's work tree")]
    scope: Scope
    base: str | None
    paths: list[str]
    focus: str
    agent: str
    model: str | None
    thread_id: Annotated[str, Doc("Its conversation")]
    thread: str
    imported_from: str | None
    open: Annotated[int, Doc("How many findings are open")]
    open_by_severity: dict[Severity, int]
    cost_usd: Money
    created_at: Time


class Review(ReviewNote):
    """A review with its findings and rounds."""

    sessions: Annotated[dict[str, str], Doc("By model: the session that its next round would resume")]
    findings: Annotated[list[Finding], Doc("The findings of all rounds, each in its current state")]
    rounds: list[Round]


class ReviewPage(Shape):
    items: list[ReviewNote]
    total: Annotated[int, Doc("The number of items on all pages")]
    version: int


class ImportedReview(Shape):
    """What was imported from a file of another tool."""

    id: str
    rounds: int
    findings: int
    sessions: Annotated[dict[str, bool], Doc("By model: whether its session was adopted")]
    warnings: list[str]
    left_out: list[str]


class AgeAtExpiry(Shape):
    count: int
    median: float | None
    most: float | None


class ModelFigures(Shape):
    follow_ups: int
    resumed: int
    resume_rate: float


class PathFigures(Shape):
    """The averages over follow-up rounds."""

    rounds: int
    usage: Usage
    units_per_round: Annotated[float | None, Doc("Tokens weighted by price")]
    tokens_per_round: Annotated[float | None, Doc("Tokens that the model read, cached or not")]
    cost_usd_per_round: Money | None
    seconds_per_round: float | None


class Measures(Shape):
    """Figures of the rounds that have ended."""

    reviews: int
    rounds: int
    imported: Annotated[int, Doc("Rounds imported from an older tool; only rounds_per_review counts them")]
    follow_ups: Annotated[int, Doc("Rounds after the first, which could resume a session")]
    resumed: int
    resume_rate: float | None
    misses: Annotated[dict[str, int], Doc("Follow-ups that began fresh, by reason")]
    fallbacks: int
    fallback_share: float | None
    failed: int
    age_at_expiry_s: AgeAtExpiry
    rounds_per_review: dict[str, int]
    by_model: dict[str, ModelFigures]
    with_resume: PathFigures
    without_resume: PathFigures


def measures(found: ReviewMeasures) -> Measures:
    ages = sorted(found.expiry_ages_s)
    return Measures.of(
        found,
        misses=dict(found.misses),
        age_at_expiry_s=AgeAtExpiry(len(ages), ages[len(ages) // 2] if ages else None, ages[-1] if ages else None),
        rounds_per_review={str(number): count for number, count in sorted(found.rounds_per_review.items())},
        by_model={
            model: ModelFigures(asked, resumed, resumed / asked)
            for model, (asked, resumed) in sorted(found.by_model.items())
        },
        with_resume=_path_figures(found.with_resume),
        without_resume=_path_figures(found.without_resume),
    )


def _path_figures(path: PathUsage) -> PathFigures:
    def average(total: float, digits: int) -> float | None:
        return round(total / path.rounds, digits) if path.rounds else None

    return PathFigures(
        rounds=path.rounds,
        usage=Usage.of(path.usage),
        units_per_round=average(path.usage.units, 1),
        tokens_per_round=average(path.usage.shown_tokens, 1),
        cost_usd_per_round=average(path.cost_usd, MONEY_DIGITS),
        seconds_per_round=average(path.seconds, 3),
    )
