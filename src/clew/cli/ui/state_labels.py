"""What is going on, in a word or two: of a run, and of a thread in a list."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clew.core.run import Run
    from clew.store.records import ThreadCard

WAITING = "waiting for you"
WHO_RECOVERS = "the next clew ask in its thread, clew serve or clew work brings it to its end"
ASKS = "asks you"  # the run that asked is over; an answer would still count


def of_run(run: Run, *, asks: bool, gone: bool = False) -> str:
    """`asks`: a question of it is open. `gone`: its process died."""
    if gone and not (run.status == "queued" and run.asked.lasting):  # such a one waits for the next daemon
        return f"{run.status}, its process is gone" + (f", {ASKS}" if asks else "")
    if run.status == "waiting":
        return WAITING
    if run.status == "queued" and run.asked.held:
        return "held"
    if run.status == "queued" and (run.owner is None or gone):
        return "queued, for the next clew serve"
    words = run.status.replace("_", " ")
    return f"{words}, {ASKS}" if asks and run.status == "interrupted" else words


def of_thread(card: ThreadCard, queued: int, *, gone: bool = False) -> str:
    live = card.live
    words = []
    if live is not None and live.status != "queued":
        words.append(of_run(live, asks=gone and bool(card.questions), gone=gone))
    elif card.questions:
        words.append(ASKS)
    return ", ".join([*words, *([f"queued {queued}"] if queued else [])]) or "-"
