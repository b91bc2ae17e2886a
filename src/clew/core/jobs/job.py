"""A job: work that an agent is to finish, over as many runs as it takes; and what follows from the end of each.

state        may become
queued       running, blocked, conflict, failed (its deadline), cancelled
running      queued (handed back), waiting, blocked, conflict, succeeded, failed, cancelled
waiting      running, queued, conflict, failed, cancelled      (until a limit resets, or for a pause after trouble)
blocked      queued (a retry), cancelled                       (a person must act: log in, or add credit)
conflict     queued (a retry), cancelled                       (the files are not as the job left them)
failed       queued (a retry)
cancelled    queued (a retry)
succeeded    (nothing)

`after_run` is the design's outcome table for jobs, as a pure function: it has no clock and no jitter of its own. Every
way round but one counts against a limit, so no job continues for ever; and only so many runs begin without a pause
before them (`max_resumes`, and a few), so that no job burns money in a hurry. The one is the account's usage limit: it
is waited out however often it comes, and only the deadline counts meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from clew.core.continuation import CONTINUE as CONTINUE
from clew.core.ids import RunId, ThreadId, TurnId
from clew.core.outcome import Outcome
from clew.core.record import Record
from clew.core.runs.limits import limits_in_a_row, wake_time
from clew.core.thread import Permissions

SUBMITTED = "job"  # the kind of a job that somebody submitted; others are made by hooks
LATEST = "latest"  # instead of an id: the newest


class JobStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    BLOCKED = "blocked"
    CONFLICT = "conflict"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


_WITHOUT_SUCCESS = frozenset({JobStatus.BLOCKED, JobStatus.CONFLICT, JobStatus.FAILED, JobStatus.CANCELLED})

JOB_MOVES: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.QUEUED: _WITHOUT_SUCCESS | {JobStatus.RUNNING},
    JobStatus.RUNNING: _WITHOUT_SUCCESS | {JobStatus.QUEUED, JobStatus.WAITING, JobStatus.SUCCEEDED},
    JobStatus.WAITING: _WITHOUT_SUCCESS - {JobStatus.BLOCKED} | {JobStatus.RUNNING, JobStatus.QUEUED},
    JobStatus.BLOCKED: frozenset({JobStatus.QUEUED, JobStatus.CANCELLED}),
    JobStatus.CONFLICT: frozenset({JobStatus.QUEUED, JobStatus.CANCELLED}),
    JobStatus.FAILED: frozenset({JobStatus.QUEUED}),
    JobStatus.CANCELLED: frozenset({JobStatus.QUEUED}),
    JobStatus.SUCCEEDED: frozenset(),
}

ACTIVE = frozenset({JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.WAITING})  # a worker has it, or will
STOPPED = frozenset(JobStatus) - ACTIVE


class IllegalJobMove(ValueError):
    """A job was told to go where its status does not lead."""


def advance_job(status: JobStatus, to: JobStatus) -> JobStatus:
    if to is status:
        return status
    if to not in JOB_MOVES[status]:
        raise IllegalJobMove(f"{status} job cannot become {to}")
    return to


class StartMode(StrEnum):
    """How the next run is to begin, when somebody says."""

    RESUME = "resume"
    FRESH = "fresh"


class Limits(Record):
    """How far a job may go. Every one of them ends it."""

    timeout_s: float | None = 1800.0  # of one run; then it is resumed
    retries: int = 3  # after trouble: overloaded, network, a session that is full or broken though it is new
    max_resumes: int = 10  # of one session; then it starts afresh with the original prompt
    max_runs: int = 50  # all in all, without those that met a usage limit
    max_age_s: float | None = 3600.0  # of a session, from its last event; waiting for a usage limit does not count
    deadline_at: float | None = None  # epoch seconds


DEFAULT_LIMITS = Limits()


class Job(Record):
    """One job, as the store keeps it."""

    id: str
    thread_id: ThreadId
    prompt: str
    cwd: str
    agent: str
    model: str | None
    permissions: Permissions
    status: JobStatus
    key: str  # jobs of one key run one at a time and in order; its own id when none was given
    kind: str = SUBMITTED  # who made it
    full_prompt: str | None = None  # what a fresh session is told instead of the prompt
    allowed_tools: tuple[str, ...] = ()  # beyond what its permissions allow
    prompt_turn_id: TurnId | None = None  # its prompt in the thread, which other jobs may share
    limits: Limits = DEFAULT_LIMITS
    checkpoint: bool = False
    not_before: float | None = None
    start_mode: StartMode | None = None
    keep_files: bool = False  # go on with the files as they are, whatever the last checkpoint says
    tries: int = 1  # how often it was queued by a person; each is a piece of work of its own
    runs: int = 0  # without those that met a usage limit
    resume_count: int = 0  # resumed runs, over all its sessions
    session_resumes: int = 0  # those that count of the session that it has now: what `max_resumes` is about
    troubles: int = 0  # in a row
    session_id: str | None = None
    session_saved_at: float | None = None
    run_id: RunId | None = None  # the newest
    saved_run_id: RunId | None = None  # the newest after which the files were saved
    reason: str | None = None  # why its last run was fresh
    outcome: str | None = None  # of the last run
    result: str | None = None
    error: str | None = None
    hint: str | None = None
    conflicts: tuple[str, ...] = ()  # the files that are not as the job left them
    worker: str | None = None
    cancel_requested: bool = False
    created_at: float = 0.0
    started_at: float | None = None  # since a person last queued it
    wake_at: float | None = None  # while it waits
    ended_at: float | None = None


class ProgressMarker(Record):
    """How far a job has come: one whole message of the agent's."""

    number: int  # from 1, over all runs of the job
    at: float
    text: str  # what it said; empty: that is not known any more
    run_id: RunId | None = None
    message_id: str | None = None  # the agent's own, where it has them


class NextStep(Record):
    """What becomes of a job after a run."""

    status: JobStatus  # QUEUED: at once; WAITING: at `wake_at`
    wake_at: float | None = None
    fresh_session: bool = False  # the session is of no use any more
    counts_as_trouble: bool = False
    excused_s: float = 0.0  # of the session's age: it was the account's fault
    counts: bool = True  # as a run, and as a resume of its session
    error: str | None = None  # what to say instead of what the run came to grief over


TOO_LATE = "The job's deadline has passed."
WOULD_BE_TOO_LATE = "The job would go on only after its deadline."
BACKOFF_S = 5.0
BACKOFF_MAX_S = 600.0

_TRANSIENT = frozenset({Outcome.OVERLOADED, Outcome.NETWORK, Outcome.REJECTED, Outcome.MEDIA_REMOVED})
_NEEDS_A_PERSON = frozenset({Outcome.AUTH, Outcome.BILLING})  # somebody must log in, or pay
UNUSABLE_SESSION = frozenset({Outcome.OVERFLOW, Outcome.POISONED})  # the session is of no use any more


def after_run(
    job: Job,
    outcome: Outcome,
    *,
    earlier: Sequence[str | None] = (),
    resumed: bool = False,
    resets_at: float | None,
    now: float,
    jitter: float,
) -> NextStep:
    """`job` counts the run that ended already; `jitter` is between 0 and 1.

    `earlier`: how those before it ended, since a person last queued the job, the newest first. `resumed`: it had gone
    on in a session.
    """
    if outcome is Outcome.SUCCESS:
        return NextStep(JobStatus.SUCCEEDED)
    if outcome is Outcome.CANCELLED:
        return NextStep(JobStatus.CANCELLED) if job.cancel_requested else _go_on(job, len(earlier), now, jitter)
    if outcome in _NEEDS_A_PERSON:
        return NextStep(JobStatus.BLOCKED)
    if outcome is Outcome.USAGE_LIMIT:
        wake_at = wake_time(resets_at, limits_before=limits_in_a_row(earlier), now=now, jitter=jitter)
        return _in_time(job, NextStep(JobStatus.WAITING, wake_at, excused_s=wake_at - now, counts=False))
    if outcome in (Outcome.FAILED, Outcome.WRONG_MODEL) or job.runs >= job.limits.max_runs:
        return NextStep(JobStatus.FAILED)
    if outcome in _TRANSIENT:
        return _trouble(job, job.troubles, now, jitter)
    if outcome in UNUSABLE_SESSION:
        before = sum(each in UNUSABLE_SESSION for each in earlier)
        if resumed and not before:
            return _in_time(job, NextStep(JobStatus.QUEUED, fresh_session=True), now)  # the session was to blame
        return _trouble(job, max(job.troubles, before), now, jitter, fresh_session=True)
    return _in_time(job, _go_on(job, len(earlier), now, jitter), now)


def _go_on(job: Job, runs_before: int, now: float, jitter: float) -> NextStep:
    """At once; but what is cut off again and again may be cut off in a moment, so the later ones take a breath."""
    if runs_before <= job.limits.max_resumes:
        return NextStep(JobStatus.QUEUED)
    return NextStep(JobStatus.WAITING, now + backoff_s(0, jitter))


def _trouble(job: Job, before: int, now: float, jitter: float, *, fresh_session: bool = False) -> NextStep:
    if before >= job.limits.retries:
        return NextStep(JobStatus.FAILED, counts_as_trouble=True)
    wake_at = now + backoff_s(before, jitter)
    return _in_time(job, NextStep(JobStatus.WAITING, wake_at, fresh_session=fresh_session, counts_as_trouble=True))


def backoff_s(troubles: int, jitter: float) -> float:
    """Twice as long each time, up to a limit, and never the same for two jobs."""
    return min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** min(troubles, 20)) * (0.5 + jitter / 2)


def _in_time(job: Job, next_: NextStep, now: float = 0.0) -> NextStep:
    deadline = job.limits.deadline_at
    if deadline is not None and (next_.wake_at or now) >= deadline:
        return NextStep(JobStatus.FAILED, error=TOO_LATE if next_.wake_at is None else WOULD_BE_TOO_LATE)
    return next_


def is_too_old(job: Job, now: float) -> bool:
    age = job.limits.max_age_s
    return age is not None and job.session_saved_at is not None and now - job.session_saved_at > age
