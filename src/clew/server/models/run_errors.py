"""How a run ended, for a program or a page: the engine's own error, with no hint that speaks of the command line."""

from __future__ import annotations

from typing import Any

from clew.core.outcome import Outcome
from clew.core.run import LIVE, Run, RunStatus
from clew.errors import AgentFailed
from clew.reply import error_of_run

KEPT = "What was said so far is kept; ask to go on."
CLEW_ENDED = "Clew was ended while the run was going on."

# Where the engine's hint names an option or a command.
HINTS = {
    Outcome.REJECTED: "Ask again with a fresh session.",
    Outcome.TIMED_OUT: KEPT,
    Outcome.USAGE_LIMIT: "Ask again when it has reset, or let it continue then by itself; the session is kept.",
    Outcome.WRONG_MODEL: "Choose another model and ask again. The session is kept.",
    Outcome.FAILED: "Ask again, perhaps with a fresh session.",
}


def error_of(run: Run) -> dict[str, Any] | None:
    """None when it was answered, or is not over."""
    if run.status in LIVE:
        return None
    error = error_of_run(run)
    if error is None:
        return None
    if run.status is RunStatus.INTERRUPTED:  # by whom is in the status; its outcome is how the agent took it
        return _body(AgentFailed.code, run.error or CLEW_ENDED, KEPT)
    return _body(error.code, error.message, _hint(run, error.hint))


def _hint(run: Run, hint: str | None) -> str | None:
    outcome = next((each for each in Outcome if each == run.outcome), Outcome.FAILED)
    return HINTS.get(outcome, hint)


def _body(code: str, message: str, hint: str | None) -> dict[str, Any]:
    return {"code": code, "message": message, "hint": hint}
