"""A job is work that an agent finishes in as many runs as it takes. This module says what follows from each run.

state        may become
queued       running, blocked, conflict, failed (its deadline), cancelled
running      queued (handed back), waiting, blocked, conflict, succeeded, failed, cancelled
waiting      running, queued, conflict, failed, cancelled      (until a limit resets, or for a pause after an error)
blocked      queued (a retry), cancelled                       (a person must act: log in, or add credit)
conflict     queued (a retry), cancelled                       (the files changed while the job did not run)
failed       queued (a retry)
cancelled    queued (a retry)
succeeded    (nothing)

`after_run` is the outcome table for jobs as a pure function: the caller passes the time and the random number. Every
outcome that leads to another run counts against a limit, so no job continues forever. About `max_resumes` runs may
start without a pause before them, so no job spends money quickly without a result. The only exception is the account's
usage limit: a job waits for its reset any number of times, and only the deadline can end it meanwhile.
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

MOST_URGENT, DEFAULT_PRIORITY, LEAST_URGENT = 1, 50, 100  # priorities; DBOS counts in the same direction
SUBMITTED = "job"  # the kind of a job that somebody submitted; hooks create the others


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

ACTIVE = frozenset({JobStatus.QUEUED, JobStatus.RUNNING, JobStatus.WAITING})  # a worker runs it, or will do so
STOPPED = frozenset(JobStatus) - ACTIVE  # no worker runs it until somebody retries it


class IllegalJobMove(ValueError):
    """The table above does not allow this change of status."""


def advance_job(status: JobStatus, to: JobStatus) -> JobStatus:
    if to is status:
        return status
    if to not in JOB_MOVES[status]:
        raise IllegalJobMove(f"{status} job cannot become {to}")
    return to


class StartMode(StrEnum):
    """How the next run must begin, if somebody or the last run has decided that."""

    RESUME = "resume"
    FRESH = "fresh"


class Limits(Record):
    """The limits of a job, its runs and its sessions."""

    timeout_s: float | None = 1800.0  # of one run; the next run resumes its session
    retries: int = 3  # in a row after errors such as overloaded, network, or a new session that is full or broken
    max_resumes: int = 10  # of one session; then a fresh session gets the original prompt
    max_runs: int = 50  # in total, without the runs that met a usage limit
    max_age_s: float | None = 3600.0  # of a session, since its last event; waiting for a usage limit does not count
    deadline_at: float | None = None  # epoch seconds


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
    kind: str = SUBMITTED  # or the kind of the host that created it
    full_prompt: str | None = None  # sent to a fresh session instead of the prompt
    allowed_tools: tuple[str, ...] = ()  # in addition to its permissions
    priority: int = DEFAULT_PRIORITY  # which of the jobs that may start now starts first; 1 is the most urgent
    prompt_turn_id: TurnId | None = None  # the turn with its prompt; other jobs may have turns in the same thread
    limits: Limits = Limits()
    checkpoint: bool = False
    not_before: float | None = None
    start_mode: StartMode | None = None
    keep_files: bool = False  # the next run accepts the files even if they differ from the last checkpoint
    tries: int = 1  # how often a person queued it
    runs: int = 0  # without the runs that met a usage limit
    resume_count: int = 0  # resumed runs of all its sessions
    session_resumes: int = 0  # resumed runs of its present session; `max_resumes` is their limit
    troubles: int = 0  # errors in a row; `retries` is their limit
    session_id: str | None = None
    session_saved_at: float | None = None
    run_id: RunId | None = None  # its newest run
    saved_run_id: RunId | None = None  # the newest run that was concluded: its files and its result are stored
    reason: str | None = None  # why its last fresh session was fresh
    outcome: str | None = None  # of its last run
    result: str | None = None
    error: str | None = None
    hint: str | None = None
    conflicts: tuple[str, ...] = ()  # files that were changed while the job did not run
    worker: str | None = None
    cancel_requested: bool = False
    created_at: float = 0.0
    started_at: float | None = None  # its first run since a person last queued it
    wake_at: float | None = None  # when a waiting job continues
    ended_at: float | None = None


class ProgressMarker(Record):
    """The progress of a job: one complete message of the agent."""

    number: int  # counted from 1 over all runs of the job
    at: float
    text: str  # of the message; empty: it is no longer stored
    run_id: RunId | None = None
    message_id: str | None = None  # the id that the agent gave the message, if any


class NextStep(Record):
    """What a job does after a run."""

    status: JobStatus  # QUEUED: the next run starts at once; WAITING: at `wake_at`
    wake_at: float | None = None
    fresh_session: bool = False  # the next run needs a fresh session
    counts_as_trouble: bool = False
    excused_s: float = 0.0  # a wait that does not count as age of the session, since the account caused it
    counts: bool = True  # the run counts against `max_runs` and `max_resumes`
    error: str | None = None  # added to the error of the run


TOO_LATE = "The job's deadline has passed."
WOULD_BE_TOO_LATE = "The job would continue only after its deadline."
BACKOFF_S = 5.0
BACKOFF_MAX_S = 600.0

_TRANSIENT = frozenset({Outcome.OVERLOADED, Outcome.NETWORK, Outcome.REJECTED, Outcome.MEDIA_REMOVED})
_NEEDS_A_PERSON = frozenset({Outcome.AUTH, Outcome.BILLING})  # a person must log in, or add credit
UNUSABLE_SESSION = frozenset({Outcome.OVERFLOW, Outcome.POISONED})


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
    """What the job does after a run that ended with `outcome`. `job.runs` includes that run.

    `earlier` are the outcomes of the runs before it since a person last queued the job, the newest first. `resumed`
    says that the run resumed a session. `jitter` is a random number between 0 and 1.
    """
    if outcome is Outcome.SUCCESS:
        return NextStep(JobStatus.SUCCEEDED)
    if outcome is Outcome.CANCELLED:
        return NextStep(JobStatus.CANCELLED) if job.cancel_requested else _continue(job, len(earlier), now, jitter)
    if outcome in _NEEDS_A_PERSON:
        return NextStep(JobStatus.BLOCKED)
    if outcome is Outcome.USAGE_LIMIT:
        wake_at = wake_time(resets_at, limits_before=limits_in_a_row(earlier), now=now, jitter=jitter)
        return _in_time(job, NextStep(JobStatus.WAITING, wake_at, excused_s=wake_at - now, counts=False))
    if outcome in (Outcome.FAILED, Outcome.WRONG_MODEL) or job.runs >= job.limits.max_runs:
        return NextStep(JobStatus.FAILED)
    if outcome in _TRANSIENT:
        return _retry(job, job.troubles, now, jitter)
    if outcome in UNUSABLE_SESSION:
        before = sum(each in UNUSABLE_SESSION for each in earlier)
        if resumed and not before:
            return _in_time(job, NextStep(JobStatus.QUEUED, fresh_session=True), now)  # the old session was the cause
        return _retry(job, max(job.troubles, before), now, jitter, fresh_session=True)
    return _in_time(job, _continue(job, len(earlier), now, jitter), now)


def _continue(job: Job, runs_before: int, now: float, jitter: float) -> NextStep:
    """The next run starts at once, or after a pause if there were many: each may have been cut off as it started."""
    if runs_before <= job.limits.max_resumes:
        return NextStep(JobStatus.QUEUED)
    return NextStep(JobStatus.WAITING, now + backoff_s(0, jitter))


def _retry(job: Job, before: int, now: float, jitter: float, *, fresh_session: bool = False) -> NextStep:
    if before >= job.limits.retries:
        return NextStep(JobStatus.FAILED, counts_as_trouble=True)
    wake_at = now + backoff_s(before, jitter)
    return _in_time(job, NextStep(JobStatus.WAITING, wake_at, fresh_session=fresh_session, counts_as_trouble=True))


def backoff_s(troubles: int, jitter: float) -> float:
    """Doubles each time up to a limit, with jitter so that jobs do not all retry at the same moment."""
    return min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** min(troubles, 20)) * (0.5 + jitter / 2)


def _in_time(job: Job, next_: NextStep, now: float = 0.0) -> NextStep:
    """The step, or the end of the job if its deadline comes first."""
    deadline = job.limits.deadline_at
    if deadline is not None and (next_.wake_at or now) >= deadline:
        return NextStep(JobStatus.FAILED, error=TOO_LATE if next_.wake_at is None else WOULD_BE_TOO_LATE)
    return next_


def is_session_expired(job: Job, now: float) -> bool:
    age = job.limits.max_age_s
    return age is not None and job.session_saved_at is not None and now - job.session_saved_at > age
