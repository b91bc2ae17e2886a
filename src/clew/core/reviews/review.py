"""A review: rounds over a diff, each with findings; and what became of the findings.

A review has a thread. Every round adds a user turn (the diff, or what changed since the last round) and the agent's
answer, which must fit `ReviewAnswer`. The state of a finding is not stored: it follows from the answers in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.ids import RunId, ThreadId
from clew.core.record import Record, replace
from clew.core.runs.run import Owner

T = TypeVar("T")


class Severity(StrEnum):
    CRITICAL = "critical"  # data lost, a hole in security, nothing works
    HIGH = "high"  # wrong in ordinary use
    MEDIUM = "medium"  # wrong at the edges, or hard to live with
    LOW = "low"  # small, or a matter of care
    INFO = "info"  # worth knowing, nothing to do


class FindingState(StrEnum):
    """What became of a finding."""

    OPEN = "open"
    FIXED = "fixed"
    WITHDRAWN = "withdrawn"  # it was none, or the author's reply convinced the reviewer


class Scope(StrEnum):
    """Which changes are looked at."""

    ALL = "all"  # all that is not committed: staged, unstaged and new files; with a base, what is committed since too
    STAGED = "staged"
    UNSTAGED = "unstaged"  # and new files


class RoundStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Finding(Record):
    """One thing that the reviewer found. Ids (`F1`, `F2`, …) count through the review."""

    id: str
    severity: Severity
    file: str | None
    line: int | None  # in the file as it was in that round
    title: str
    detail: str
    suggestion: str = ""
    round: int = 1
    state: FindingState = FindingState.OPEN
    state_round: int = 1  # which round said so
    note: str = ""  # why


class FindingVerdict(Record):
    """What a later round says of an earlier finding."""

    id: str
    state: FindingState
    note: str = ""


class ReviewAnswer(Record):
    """What a round's answer came to."""

    summary: str
    findings: tuple[Finding, ...] = ()
    earlier: tuple[FindingVerdict, ...] = ()


class FileChange(Record):
    """A file in a diff, and how much of it changed."""

    path: str
    status: str  # A added, M modified, D deleted, R renamed, T another type, …
    added: int | None  # lines; None: binary
    removed: int | None
    old_path: str | None = None  # of a renamed one
    left_out: str | None = None  # why its text is not in the prompt


class ReviewRound(Record):
    """One round, as the store keeps it; the diff and the files' contents are kept beside it."""

    review_id: str
    number: int
    status: RoundStatus
    agent: str
    model: str | None
    owner: Owner  # who carries it out
    message: str = ""  # the author's reply
    base_commit: str | None = None  # what the files were compared with
    head_commit: str | None = None
    changes: tuple[FileChange, ...] = ()
    changed_since: tuple[str, ...] = ()  # files that are not as they were in the round before
    run_id: RunId | None = None  # the newest: a second one asked again for an answer that fits
    first_run_id: RunId | None = None  # the one that showed it
    runs: int = 0
    session_resumed: bool = False
    reason: str | None = None  # why fresh
    fallback: bool = False
    session_age_s: float | None = None  # since the model's session had last been used; None: there was none
    usage: Usage = NO_USAGE  # of all its runs
    cost_usd: float = 0.0
    prompt_chars: int = 0
    transcript_chars: int = 0
    answer: ReviewAnswer | None = None
    error: str | None = None
    hint: str | None = None
    error_code: str | None = None
    started_at: float = 0.0
    ended_at: float | None = None


class Review(Record):
    """What is reviewed, and where."""

    id: str  # YYYY-MM-DD-NNN
    thread_id: ThreadId
    top: str  # the repository's work tree
    scope: Scope = Scope.ALL
    base: str | None = None  # as it was given
    paths: tuple[str, ...] = ()  # relative to `top`; none: everything
    focus: str = ""
    imported_from: str | None = None  # an older tool's file
    created_at: float = 0.0


def findings_of(rounds: Sequence[ReviewRound]) -> tuple[Finding, ...]:
    """All findings of a review, oldest first, each in the state that the last word on it gave it."""
    found: dict[str, Finding] = {}
    for round_ in rounds:
        if round_.answer is None:
            continue
        for verdict in round_.answer.earlier:
            if verdict.id in found:
                found[verdict.id] = replace(
                    found[verdict.id], state=verdict.state, state_round=round_.number, note=verdict.note
                )
        for finding in round_.answer.findings:
            found[finding.id] = finding
    return tuple(found.values())


def numbered(findings: Sequence[Finding], already: int, round_number: int) -> tuple[Finding, ...]:
    """Fresh findings with their ids and their round."""
    return tuple(
        replace(finding, id=f"F{already + place}", round=round_number, state_round=round_number)
        for place, finding in enumerate(findings, start=1)
    )


class PathUsage(Record):
    """What rounds of one kind took."""

    rounds: int = 0
    usage: Usage = NO_USAGE
    units: float = 0.0  # tokens weighted by price
    cost_usd: float = 0.0
    seconds: float = 0.0


class ReviewMeasures(Record):
    """What all reviews came to. Only rounds that got as far as an agent, and are over, count; of imported ones it is
    only known that they were."""

    reviews: int = 0
    rounds: int = 0
    imported: int = 0  # rounds that an older tool had carried out
    follow_ups: int = 0  # rounds after the first: those that could resume
    resumed: int = 0
    fallbacks: int = 0  # begun in a session, and ended in a fresh one
    failed: int = 0
    misses: Mapping[str, int] = MappingProxyType({})  # follow-ups that began fresh, by reason
    expiry_ages_s: tuple[float, ...] = ()  # how old sessions were when they had expired
    rounds_per_review: Mapping[int, int] = MappingProxyType({})  # so many reviews have so many rounds
    by_model: Mapping[str, tuple[int, int]] = MappingProxyType({})  # follow-ups, and how many of them resumed
    with_resume: PathUsage = PathUsage()  # follow-ups only: first rounds have nothing to resume
    without_resume: PathUsage = PathUsage()

    @property
    def resume_rate(self) -> float | None:
        return self.resumed / self.follow_ups if self.follow_ups else None

    @property
    def fallback_share(self) -> float | None:
        return self.fallbacks / self.follow_ups if self.follow_ups else None


def measure(rounds: Sequence[ReviewRound]) -> ReviewMeasures:
    ran = [each for each in rounds if each.runs and each.status is not RoundStatus.RUNNING]
    follow_ups = [each for each in ran if each.number > 1]
    resumed = [each for each in follow_ups if each.session_resumed]
    fresh = [each for each in follow_ups if not each.session_resumed]
    imported = [each for each in rounds if not each.runs and each.status is RoundStatus.DONE]
    per_review: dict[str, int] = {}
    for each in (*ran, *imported):
        per_review[each.review_id] = per_review.get(each.review_id, 0) + 1
    by_model: dict[str, tuple[int, int]] = {}
    for each in follow_ups:
        asked, went_on = by_model.get(each.model or "default", (0, 0))
        by_model[each.model or "default"] = (asked + 1, went_on + each.session_resumed)
    return ReviewMeasures(
        reviews=len(per_review),
        rounds=len(ran),
        imported=len(imported),
        follow_ups=len(follow_ups),
        resumed=len(resumed),
        fallbacks=sum(each.fallback for each in follow_ups),
        failed=sum(each.status is RoundStatus.FAILED for each in ran),
        misses=_counted([each.reason or "unknown" for each in fresh]),
        expiry_ages_s=tuple(
            each.session_age_s for each in fresh if each.reason == "expired" and each.session_age_s is not None
        ),
        rounds_per_review=_counted(list(per_review.values())),
        by_model=by_model,
        with_resume=_path(resumed),
        without_resume=_path(fresh),
    )


def _counted(values: Sequence[T]) -> dict[T, int]:
    counts: dict[T, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return counts


def _path(rounds: Sequence[ReviewRound]) -> PathUsage:
    usage = sum((each.usage for each in rounds), NO_USAGE)
    return PathUsage(
        rounds=len(rounds),
        usage=usage,
        units=usage.units,
        cost_usd=sum(each.cost_usd for each in rounds),
        seconds=sum((each.ended_at or each.started_at) - each.started_at for each in rounds),
    )
