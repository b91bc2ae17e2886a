"""The error that the caller gets when an attempt fails. It says what happened, and what to do about it."""

from __future__ import annotations

from clew.core.outcome import Outcome, StopReason
from clew.core.runs.run import Run, RunStatus
from clew.engine.attempt import AttemptEnd
from clew.errors import (
    AgentError,
    AgentFailed,
    AuthFailed,
    BillingFailed,
    Cancelled,
    TimedOut,
    UsageLimit,
    WrongModel,
)

KEPT = "What was said so far is kept; ask to continue."
_ERRORS: dict[Outcome, tuple[type[AgentError], str, str]] = {
    Outcome.REJECTED: (AgentFailed, "{agent} did not know the session.", "Ask again with --fresh-session."),
    Outcome.POISONED: (
        AgentFailed,
        "The session's history is broken: {said}",
        "It will not be resumed again. Ask again: the next turn starts a fresh session.",
    ),
    Outcome.OVERFLOW: (
        AgentFailed,
        "The conversation does not fit the model's context: {said}",
        "Ask for less: a shorter prompt. In a long thread, ask again: it starts fresh with a transcript cut to fit.",
    ),
    Outcome.USAGE_LIMIT: (
        UsageLimit,
        "The account's usage limit is reached: {said}",
        "Ask again when it has reset, or with --wait-for-limit, which waits for that; the session is kept.",
    ),
    Outcome.AUTH: (
        AuthFailed,
        "{agent} is not logged in, or its key is refused: {said}",
        "Log in with the agent's own CLI, or set its key; the session is kept.",
    ),
    Outcome.BILLING: (
        BillingFailed,
        "The account has no credit left: {said}",
        "Add credit, or change the plan, where the account is billed; then ask again. The session is kept.",
    ),
    Outcome.WRONG_MODEL: (
        WrongModel,
        "{agent} cannot use this model: {said}",
        "Choose another with --model, or for good with clew threads set NAME --model MODEL. The session is kept.",
    ),
    Outcome.MEDIA_REMOVED: (
        AgentFailed,
        "The model's service refused something in the session (an image, a document, or too many of them): {said}",
        "Ask again: {agent} leaves it out, and the session is kept. If that fails too, the next turn starts fresh.",
    ),
    Outcome.OVERLOADED: (AgentFailed, "The model's service is overloaded or failing: {said}", "Ask again later."),
    Outcome.NETWORK: (AgentFailed, "The model's service cannot be reached: {said}", "Check the network, ask again."),
    Outcome.OUR_LIMIT: (AgentFailed, "A limit that was set for the agent ended the run: {said}", "Ask it to continue."),
    Outcome.CANCELLED: (Cancelled, "The run was cancelled.", KEPT),
    Outcome.KILLED: (
        AgentFailed,
        "{agent} was killed (exit status {status}).",
        KEPT,
    ),
    Outcome.FAILED: (AgentFailed, "{agent} gave no answer: {said}", "Ask again, or run clew doctor."),
}
_NOT_ASKED = "Nothing was sent to the agent, and the prompt is no turn of the thread. Ask again if you still want it."
_NOT_CONTINUED = "The prompt that met the limit is still the thread's last turn; ask the agent to continue."
_MORE_TIME = "What was said so far is kept; ask to continue, or give it more time with --timeout."
_TIMED_OUT = "The run took too long and was stopped."
_IDLE = "Nothing came from {agent} for too long, and it was stopped."


def error_of(end: AttemptEnd, agent: str) -> AgentError | None:
    if end.outcome is Outcome.SUCCESS:
        return None
    said = end.result.diagnosis.message or end.skipped or _last_line(end.stderr_tail)
    said = said or f"exit status {end.exit_status}, no result"
    if end.outcome is Outcome.TIMED_OUT:
        message = (_IDLE if end.stopped is StopReason.IDLE else _TIMED_OUT).format(agent=agent)
        message += f" The agent was retrying: {end.retried_error}." if end.retried_error else ""
        cls: type[AgentError] = TimedOut
        hint = _MORE_TIME
    else:
        cls, template, hint = _ERRORS[end.outcome]
        message, hint = template.format(agent=agent, said=said, status=end.exit_status), hint.format(agent=agent)
    return cls(
        message,
        hint=hint,
        exit_status=end.exit_status,
        stderr_tail=end.stderr_tail,
        resets_at=end.result.diagnosis.resets_at,
    )


def interrupted(message: str | None = None) -> AgentFailed:
    return AgentFailed(message or "Clew was ended while the run was in progress.", hint=KEPT)


def hint_of_unstarted(run: Run) -> str:
    """For a run that was cancelled before it started: it may be the rest of one that met the account's usage limit."""
    return _NOT_ASKED if run.asked.continues is None else _NOT_CONTINUED


def error_of_run(run: Run) -> AgentError | None:
    """The error of a run that has ended, as far as the store tells."""
    if run.status is RunStatus.ANSWERED:
        return None
    if run.status is RunStatus.INTERRUPTED:
        return interrupted(run.error)
    outcome = next((each for each in Outcome if each == run.outcome), Outcome.FAILED)
    if outcome is Outcome.CANCELLED and run.started_at is None:
        return Cancelled(run.error or _ERRORS[outcome][1], hint=hint_of_unstarted(run))
    if outcome is Outcome.TIMED_OUT:
        return TimedOut(run.error or _TIMED_OUT, hint=_MORE_TIME)
    cls, template, hint = _ERRORS.get(outcome, _ERRORS[Outcome.FAILED])
    message = run.error or template.format(agent=run.agent, said=run.status, status=None)
    return cls(message, hint=hint.format(agent=run.agent), resets_at=run.resets_at)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:500] if lines else ""
