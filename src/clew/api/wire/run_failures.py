"""Why a run failed, for a program or a page: the engine's error, without hints that name the command line."""

from __future__ import annotations

from clew.api.wire.failures import Failure
from clew.core.outcome import Outcome
from clew.core.runs.run import LIVE, Run, RunStatus
from clew.engine.finish.failures import error_of_run

# These replace the engine's hints, which name an option or a command.
HINTS = {
    Outcome.REJECTED: "Ask again with a fresh session.",
    Outcome.TIMED_OUT: "What was said so far is kept; ask to continue.",
    Outcome.USAGE_LIMIT: "Ask again when it has reset, or let it continue then by itself; the session is kept.",
    Outcome.WRONG_MODEL: "Choose another model and ask again. The session is kept.",
    Outcome.FAILED: "Ask again, perhaps with a fresh session.",
}


def failure_of(run: Run) -> Failure | None:
    """None if the run was answered, or has not ended."""
    if run.status in LIVE:
        return None
    error = error_of_run(run)
    return None if error is None else Failure.of(error, hint=_hint(run, error.hint))


def _hint(run: Run, hint: str | None) -> str | None:
    if run.status is RunStatus.INTERRUPTED:  # Clew itself was stopped; the outcome only says how the agent ended
        return hint
    outcome = next((each for each in Outcome if each == run.outcome), Outcome.FAILED)
    return HINTS.get(outcome, hint)
