"""The state of a run, or of a thread in a list, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.api.views import ThreadSummary
    from clew.core.runs.run import Run

WAITING = "waiting for you"
WHO_RECOVERS = "the next clew ask in its thread, clew serve or clew work ends it"
ASKS = "asks you"  # the run has ended, but an answer would still count
CAUSES = {"auth": "not logged in", "billing": "no credit left", "killed": "cut off"}  # instead of an outcome's own name


def run_label(run: Run, *, asks: bool, gone: bool = False) -> str:
    """`asks`: one of its questions is open. `gone`: its process died."""
    if gone and not (run.status == "queued" and run.asked.lasting):  # a lasting run waits for the next daemon
        return f"{run.status}, its process is gone" + (f", {ASKS}" if asks else "")
    if run.status == "waiting":
        return WAITING
    if run.status == "queued" and run.asked.held:
        return "held"
    if run.status == "queued" and (run.owner is None or gone):
        return "queued until the next clew serve"
    words = run.status.replace("_", " ")
    return f"{words}, {ASKS}" if asks and run.status == "interrupted" else words


def thread_label(summary: ThreadSummary, queued: int, *, gone: bool = False) -> str:
    live = summary.live
    words = []
    if summary.opened_at is not None:
        words.append("open in a terminal")
    if live is not None and live.status != "queued":
        words.append(run_label(live, asks=gone and bool(summary.questions), gone=gone))
    elif summary.questions:
        words.append(ASKS)
    elif summary.first_failure is not None:
        words.append(_first_failure(summary.first_failure))
    return ", ".join([*words, *([f"queued {queued}"] if queued else [])]) or "-"


def _first_failure(run: Run) -> str:
    """`first turn failed: not logged in`: the thread is not an empty one."""
    outcome = run.outcome or run.status
    cause = CAUSES.get(outcome, outcome.replace("_", " "))
    return "first turn failed" if cause == "failed" else f"first turn failed: {cause}"
