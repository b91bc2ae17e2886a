"""An attempt's end as the error that a caller gets: who must act, and what to do."""

from __future__ import annotations

from clew.core.outcome import Outcome, Stop
from clew.core.run import Run, RunStatus
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

_WORDS: dict[Outcome, tuple[type[AgentError], str, str]] = {
    Outcome.REJECTED: (AgentFailed, "{agent} did not know the session.", "Ask again with --fresh-session."),
    Outcome.POISONED: (
        AgentFailed,
        "The session's history is broken: {said}",
        "It will not be resumed again; ask again and the next turn starts fresh.",
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
        "The model's service refused what the session brings along (an image, a document, or too much of it): {said}",
        "Ask again: {agent} leaves it out, and the session is kept. If that fails too, the next turn starts fresh.",
    ),
    Outcome.OVERLOADED: (AgentFailed, "The model's service is overloaded or failing: {said}", "Ask again later."),
    Outcome.NETWORK: (AgentFailed, "The model's service cannot be reached: {said}", "Check the network, ask again."),
    Outcome.OUR_LIMIT: (AgentFailed, "A limit that was set for the agent ended the run: {said}", "Ask it to go on."),
    Outcome.CANCELLED: (Cancelled, "The run was cancelled.", "What was said so far is kept; ask to go on."),
    Outcome.KILLED: (
        AgentFailed,
        "{agent} was killed (exit status {status}).",
        "What was said so far is kept; ask to go on.",
    ),
    Outcome.FAILED: (AgentFailed, "{agent} gave no answer: {said}", "Ask again, or run clew doctor."),
}
NOT_ASKED = "Nothing was sent to the agent, and the prompt is no turn of the thread. Ask it again if you still want it."
_MORE_TIME = "What was said so far is kept; ask to go on, or give it more time with --timeout."
_TIMED_OUT = "The run took too long and was stopped."
_IDLE = "Nothing came from {agent} for too long, and it was stopped."


def error_of(end: AttemptEnd, agent: str) -> AgentError | None:
    if end.outcome is Outcome.SUCCESS:
        return None
    said = end.ending.diagnosis.message or end.skipped or _last_line(end.stderr_tail)
    said = said or f"exit status {end.exit_status}, no result"
    if end.outcome is Outcome.TIMED_OUT:
        words = (_IDLE if end.stopped is Stop.IDLE else _TIMED_OUT).format(agent=agent)
        words += f" The agent was retrying: {end.trouble}." if end.trouble else ""
        cls: type[AgentError] = TimedOut
        hint = _MORE_TIME
    else:
        cls, template, hint = _WORDS[end.outcome]
        words, hint = template.format(agent=agent, said=said, status=end.exit_status), hint.format(agent=agent)
    return cls(
        words,
        hint=hint,
        exit_status=end.exit_status,
        stderr_tail=end.stderr_tail,
        resets_at=end.ending.diagnosis.resets_at,
    )


def error_of_run(run: Run) -> AgentError | None:
    """The same of a run that is over, as far as the store tells."""
    if run.status is RunStatus.ANSWERED:
        return None
    if run.status is RunStatus.INTERRUPTED:
        return AgentFailed(run.error or "Clew was ended while the run was going on.", hint=_WORDS[Outcome.KILLED][2])
    outcome = next((each for each in Outcome if each == run.outcome), Outcome.FAILED)
    if outcome is Outcome.CANCELLED and run.started_at is None:
        return Cancelled(run.error or _WORDS[outcome][1], hint=NOT_ASKED)
    if outcome is Outcome.TIMED_OUT:
        return TimedOut(run.error or _TIMED_OUT, hint=_MORE_TIME)
    cls, template, hint = _WORDS.get(outcome, _WORDS[Outcome.FAILED])
    words = run.error or template.format(agent=run.agent, said=run.status, status=None)
    return cls(words, hint=hint.format(agent=run.agent), resets_at=run.resets_at)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:500] if lines else ""
