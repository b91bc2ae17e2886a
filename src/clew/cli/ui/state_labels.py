"""The state of a run, or of a thread in a list, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.api.views import ThreadSummary
    from clew.core.runs.run import Run

WAITING = "waiting for you"
WHO_RECOVERS = "the next clew ask in its thread, clew serve or clew work ends it"
ASKS = "asks you"  # the run has ended, but an answer would still count


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
    if live is not None and live.status != "queued":
        words.append(run_label(live, asks=gone and bool(summary.questions), gone=gone))
    elif summary.questions:
        words.append(ASKS)
    return ", ".join([*words, *([f"queued {queued}"] if queued else [])]) or "-"
