"""A run: one try to get an agent's answer to a prompt; its attempts; and the states it goes through.

state        may become
queued       running, cancelled, failed, interrupted
running      waiting, answered, cancelled, timed_out, failed, interrupted
waiting      running, answered, cancelled, timed_out, failed, interrupted      (a person is asked)
the rest     (nothing: a run ends once)
"""

from __future__ import annotations

from enum import StrEnum

from clew.core.ids import AttemptId, RunId, SessionId, ThreadId, TurnId
from clew.core.outcome import Outcome
from clew.core.record import Record
from clew.core.usage import NO_USAGE, Usage


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # Clew itself died


_ENDS = frozenset(
    {RunStatus.ANSWERED, RunStatus.CANCELLED, RunStatus.TIMED_OUT, RunStatus.FAILED, RunStatus.INTERRUPTED}
)

STATUS_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING}) | (_ENDS - {RunStatus.ANSWERED, RunStatus.TIMED_OUT}),
    RunStatus.RUNNING: _ENDS | {RunStatus.WAITING},
    RunStatus.WAITING: _ENDS | {RunStatus.RUNNING},
    **{end: frozenset() for end in _ENDS},
}

LIVE = frozenset({RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING})


class IllegalStatus(ValueError):
    """A run was told to go where its status does not lead."""


def advance(status: RunStatus, to: RunStatus) -> RunStatus:
    if to is status:
        return status
    if to not in STATUS_MOVES[status]:
        raise IllegalStatus(f"{status} run cannot become {to}")
    return to


def status_after(outcome: Outcome) -> RunStatus:
    """How a run ends whose last attempt ended so."""
    return {
        Outcome.SUCCESS: RunStatus.ANSWERED,
        Outcome.CANCELLED: RunStatus.CANCELLED,
        Outcome.TIMED_OUT: RunStatus.TIMED_OUT,
    }.get(outcome, RunStatus.FAILED)


class Owner(Record):
    """The process that carries a run out. `started` tells a reused pid from the real one."""

    host: str
    pid: int
    started: float


class Asked(Record):
    """How a run was asked for, beyond its prompt: all that another process needs to carry it out."""

    force_fresh: bool = False
    retry_of: TurnId | None = None  # an earlier user turn, asked again
    enable_resume: bool | None = None  # over the policy's
    timeout_s: float | None = None  # over the settings'
    lasting: bool = False  # a daemon's: queued, it waits for the next daemon; its questions wait for an answer
    not_before: float | None = None  # it continues a run that met a usage limit: not before it has reset
    continues: RunId | None = None  # that run
    answers: bool = False  # it brings an answer to a session whose run died: before the prompts that wait
    held: bool = False  # queued, and a person stopped the run before it: it waits until somebody sends it
    sent_now: bool = False  # somebody said so: before the other prompts that wait


AS_EVER = Asked()


class Run(Record):
    """One try to get an answer, as the store keeps it."""

    id: RunId
    thread_id: ThreadId
    prompt_turn_id: TurnId  # the turn joins the history when the run starts, not while it waits
    prompt: str
    agent: str
    model: str | None
    status: RunStatus
    owner: Owner | None = None
    answer_turn_id: TurnId | None = None
    session_id: SessionId | None = None
    session_resumed: bool = False
    reason: str | None = None  # why fresh; None when resumed
    fallback: bool = False  # the first attempt failed and a fresh one followed
    outcome: str | None = None
    error: str | None = None
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    prompt_chars: int = 0  # what was sent
    transcript_chars: int = 0  # what a fresh session would have been sent
    estimate_usd: float | None = None  # what the transcript would have cost: an estimate
    estimate_new_tokens: int | None = None  # and how many tokens would not have come from the cache
    resets_at: float | None = None  # when the usage limit resets that it met, if the agent said so
    plain_resume_usd: float | None = None  # what a plain `--resume` every turn would have cost: an estimate
    context_tokens: int | None = None  # what its session held at its end, where the agent says …
    plain_context_tokens: int | None = None  # … and what one that is resumed plainly would have held: an estimate
    cancel_requested: bool = False
    asked: Asked = AS_EVER
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None


class Attempt(Record):
    """One spawned process within a run."""

    id: AttemptId
    run_id: RunId
    number: int
    session_id: SessionId
    user_uuid: str  # fresh for every attempt: the agent drops one that it has seen
    resumed: bool
    pid: int | None = None
    pid_started: float | None = None
    outcome: str | None = None
    exit_status: int | None = None
    stderr_tail: str = ""
    started_at: float = 0.0
    ended_at: float | None = None
