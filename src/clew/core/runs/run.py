"""A run: one try to get an agent's answer to a prompt; its attempts; and its states.

state        may become
queued       running, cancelled, failed, interrupted
running      waiting, answered, cancelled, timed_out, failed, interrupted
waiting      running, answered, cancelled, timed_out, failed, interrupted      (for a person's answer)
the rest     (nothing: a run ends once)
"""

from __future__ import annotations

from enum import StrEnum

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.ids import AttemptId, RunId, SessionId, ThreadId, TurnId
from clew.core.images import Image
from clew.core.outcome import Outcome
from clew.core.record import Record


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    ANSWERED = "answered"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # the process of Clew died


_FINAL = frozenset(
    {RunStatus.ANSWERED, RunStatus.CANCELLED, RunStatus.TIMED_OUT, RunStatus.FAILED, RunStatus.INTERRUPTED}
)

STATUS_MOVES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING}) | (_FINAL - {RunStatus.ANSWERED, RunStatus.TIMED_OUT}),
    RunStatus.RUNNING: _FINAL | {RunStatus.WAITING},
    RunStatus.WAITING: _FINAL | {RunStatus.RUNNING},
    **{end: frozenset() for end in _FINAL},
}

LIVE = frozenset({RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.WAITING})

# In place of the id of the run that another one waits for: the thread is open in a terminal, or is being compacted.
IN_TERMINAL = "?"


class IllegalStatus(ValueError):
    """A run cannot change from its status to the requested one."""


def advance(status: RunStatus, to: RunStatus) -> RunStatus:
    if to is status:
        return status
    if to not in STATUS_MOVES[status]:
        raise IllegalStatus(f"{status} run cannot become {to}")
    return to


def status_after(outcome: Outcome) -> RunStatus:
    """The final status of a run whose last attempt had this outcome."""
    return {
        Outcome.SUCCESS: RunStatus.ANSWERED,
        Outcome.CANCELLED: RunStatus.CANCELLED,
        Outcome.TIMED_OUT: RunStatus.TIMED_OUT,
    }.get(outcome, RunStatus.FAILED)


class Owner(Record):
    """The process that executes a run. `started` tells it from a later process with the same pid."""

    host: str
    pid: int
    started: float


class RunOptions(Record):
    """The options of a run besides its prompt: everything that another process needs to execute it."""

    force_fresh: bool = False
    retry_of: TurnId | None = None  # an earlier user turn, asked again
    enable_resume: bool | None = None  # overrides the policy
    timeout_s: float | None = None  # overrides the settings
    lasting: bool = False  # a daemon's run: while queued, it waits for the next daemon; its questions stay open
    not_before: float | None = None  # epoch seconds: it starts no earlier, because the continued run met a usage limit
    continues: RunId | None = None  # the run that met a usage limit, and that this run continues
    answers: bool = False  # it carries an answer to a session whose run died: it runs before the queued prompts
    held: bool = False  # queued after a run that a person stopped: it waits until somebody sends it
    sent_now: bool = False  # a person asked for it to run before the other queued prompts


DEFAULT_OPTIONS = RunOptions()


class Run(Record):
    """One try to get an answer, as it is stored."""

    id: RunId
    thread_id: ThreadId
    prompt_turn_id: TurnId  # this turn joins the history when the run starts, not while it waits
    prompt: str
    agent: str
    model: str | None
    status: RunStatus
    owner: Owner | None = None
    answer_turn_id: TurnId | None = None
    session_id: SessionId | None = None
    session_resumed: bool = False
    reason: str | None = None  # why fresh; of a resumed session: why it was rewound or copied, None if it was not
    fallback: bool = False  # the first attempt failed, and a fresh one followed
    outcome: str | None = None
    error: str | None = None
    usage: Usage = NO_USAGE
    cost_usd: float = 0.0
    prompt_chars: int = 0  # the length of what was sent
    transcript_chars: int = 0  # the length of what a fresh session would have been sent
    estimate_usd: float | None = None  # an estimate of the cost with the transcript
    estimate_new_tokens: int | None = None  # an estimate of the tokens that the transcript would not get from the cache
    resets_at: float | None = None  # when the usage limit that it met resets, if the agent said so
    plain_resume_usd: float | None = None  # an estimate of the cost with a plain `--resume` every turn
    context_tokens: int | None = None  # what its session held at the end, if the agent reports it
    plain_context_tokens: int | None = None  # an estimate of what a plainly resumed session would have held
    cancel_requested: bool = False
    asked: RunOptions = DEFAULT_OPTIONS
    job_id: str | None = None  # the job that it belongs to
    outside: bool = False  # no run of Clew's: the turn was made in the agent's own CLI, and was brought in
    rewound_to: int | None = None  # the session was rewound: the number of the last turn that its copy held
    rewound_to_turn_id: TurnId | None = None  # that turn
    images: tuple[Image, ...] = ()  # of the prompt
    typed: str | None = None  # what the user typed, if `prompt` is what it stood for; only for display
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None

    @property
    def shown(self) -> str:
        """The prompt for a person."""
        return self.prompt if self.typed is None else self.typed


class Attempt(Record):
    """One spawned process within a run."""

    id: AttemptId
    run_id: RunId
    number: int
    session_id: SessionId
    user_uuid: str  # new for every attempt: the agent ignores a line whose uuid it has seen
    resumed: bool
    mark: str | None = None  # which its processes carry; None: its id. A process that was kept has an earlier mark
    pid: int | None = None
    pid_started: float | None = None
    outcome: str | None = None
    exit_status: int | None = None
    stderr_tail: str = ""
    started_at: float = 0.0
    ended_at: float | None = None


class HostItem(Record):
    """A job, a review or a pair."""

    kind: str  # "job", "review" or "pair"
    id: str
    name: str | None = None  # of a pair


class RunBelonging(Record):
    """The thread of a run, and the job, the review or the pair that the run is part of: whose cost it is."""

    thread: str  # its name
    kind: str  # of the thread: "chat", "job", "review", "hook", "pair"
    item: HostItem | None = None  # None: a conversation with a person
