"""A review: rounds over a diff, and the findings of each round with their states.

A review has a thread. Every round adds a user turn (the diff, or what changed since the last round) and the agent's
answer, which must have the form of `ReviewAnswer`. The state of a finding is not stored: it follows from the answers
in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.ids import RunId, ThreadId
from clew.core.record import Record, replace
from clew.core.runs.run import Owner


class Severity(StrEnum):
    CRITICAL = "critical"  # data loss, a vulnerability, or nothing works
    HIGH = "high"  # wrong in ordinary use
    MEDIUM = "medium"  # wrong in edge cases, or hard to maintain
    LOW = "low"  # a small fault
    INFO = "info"  # worth knowing; nothing needs to be done

    @property
    def rank(self) -> int:
        """0 is the most severe."""
        return list(Severity).index(self)


class FindingState(StrEnum):
    OPEN = "open"
    FIXED = "fixed"
    WITHDRAWN = "withdrawn"  # it was no fault, or the author's reply convinced the reviewer


class Scope(StrEnum):
    """Which changes are reviewed."""

    ALL = "all"  # staged, unstaged and new files; with a base, also the commits since then
    STAGED = "staged"
    UNSTAGED = "unstaged"  # also new files


class RoundStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class Finding(Record):
    """One fault that the reviewer found. Its id (`F1`, `F2`, …) is counted over the whole review."""

    id: str
    severity: Severity
    file: str | None
    line: int | None  # in the file as it was in `round`
    title: str
    detail: str
    suggestion: str = ""
    round: int = 1
    state: FindingState = FindingState.OPEN
    state_round: int = 1  # the round that set the state
    note: str = ""  # the reason for the state


class FindingVerdict(Record):
    """What a later round says about an earlier finding."""

    id: str
    state: FindingState
    note: str = ""


class ReviewAnswer(Record):
    """The reviewer's answer in one round."""

    summary: str
    findings: tuple[Finding, ...] = ()
    earlier: tuple[FindingVerdict, ...] = ()


class FileChange(Record):
    """A changed file of a diff."""

    path: str
    status: str  # A added, M modified, D deleted, R renamed, T another type, …
    added: int | None  # lines; None: binary
    removed: int | None
    old_path: str | None = None  # of a renamed file
    left_out: str | None = None  # why its text is not in the prompt


class ReviewRound(Record):
    """One round, as it is stored. The diff and the contents of the files are stored separately."""

    review_id: str
    number: int
    status: RoundStatus
    agent: str
    model: str | None
    owner: Owner  # the process that carries it out
    message: str = ""  # the author's reply
    base_commit: str | None = None  # what the files were compared with
    head_commit: str | None = None
    changes: tuple[FileChange, ...] = ()
    changed_since: tuple[str, ...] = ()  # files that changed since the last round
    run_id: RunId | None = None  # the newest run; a second run asks for the answer again in the required form
    first_run_id: RunId | None = None  # the run whose prompt has the diff
    runs: int = 0
    session_resumed: bool = False
    reason: str | None = None  # why the session was fresh
    fallback: bool = False
    session_age_s: float | None = None  # since the last use of the model's session; None: the model had none
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
    base: str | None = None  # as the user named it
    paths: tuple[str, ...] = ()  # relative to `top`; empty: everything
    focus: str = ""
    imported_from: str | None = None  # the file of the older tool
    created_at: float = 0.0


def findings_of(rounds: Sequence[ReviewRound]) -> tuple[Finding, ...]:
    """All findings of a review, the oldest first, each in the state of the last verdict on it."""
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
    """New findings with their ids and their round."""
    return tuple(
        replace(finding, id=f"F{already + place}", round=round_number, state_round=round_number)
        for place, finding in enumerate(findings, start=1)
    )


class PathUsage(Record):
    """The usage of a group of rounds."""

    rounds: int = 0
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    seconds: float = 0.0


class ReviewMeasures(Record):
    """Figures about reviews. Only rounds that reached an agent and have ended count. Imported ones have no figures."""

    reviews: int = 0
    rounds: int = 0
    imported: int = 0  # rounds of the older tool
    follow_ups: int = 0  # rounds after the first, which could resume a session
    resumed: int = 0
    fallbacks: int = 0  # rounds that began in a resumed session and ended in a fresh one
    failed: int = 0
    misses: Mapping[str, int] = MappingProxyType({})  # follow-ups in a fresh session, by reason
    expiry_ages_s: tuple[float, ...] = ()  # of sessions that had expired
    rounds_per_review: Mapping[int, int] = MappingProxyType({})  # by number of rounds: how many reviews have it
    by_model: Mapping[str, tuple[int, int]] = MappingProxyType({})  # follow-ups, and how many of them resumed
    with_resume: PathUsage = PathUsage()  # follow-ups only, since first rounds have nothing to resume
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
    per_review = Counter(each.review_id for each in (*ran, *imported))
    by_model: dict[str, tuple[int, int]] = {}
    for each in follow_ups:
        asked, resumed_before = by_model.get(each.model or "default", (0, 0))
        by_model[each.model or "default"] = (asked + 1, resumed_before + each.session_resumed)
    return ReviewMeasures(
        reviews=len(per_review),
        rounds=len(ran),
        imported=len(imported),
        follow_ups=len(follow_ups),
        resumed=len(resumed),
        fallbacks=sum(each.fallback for each in follow_ups),
        failed=sum(each.status is RoundStatus.FAILED for each in ran),
        misses=Counter(each.reason or "unknown" for each in fresh),
        expiry_ages_s=tuple(
            each.session_age_s for each in fresh if each.reason == "expired" and each.session_age_s is not None
        ),
        rounds_per_review=Counter(per_review.values()),
        by_model=by_model,
        with_resume=_usage(resumed),
        without_resume=_usage(fresh),
    )


def _usage(rounds: Sequence[ReviewRound]) -> PathUsage:
    return PathUsage(
        rounds=len(rounds),
        usage=sum((each.usage for each in rounds), NO_USAGE),
        cost_usd=sum(each.cost_usd for each in rounds),
        seconds=sum((each.ended_at or each.started_at) - each.started_at for each in rounds),
    )
