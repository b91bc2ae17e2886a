"""When a thread continues after its last run met the account's usage limit."""

from __future__ import annotations

import random
from collections.abc import Callable

from clew.core.runs.limits import limits_in_a_row, wake_time
from clew.core.runs.run import Run
from clew.store.store import Store

RUNS_READ = 20  # enough: the longest pause is reached with fewer limits in a row


def wake_at(store: Store, run: Run, dice: Callable[[], float] = random.random) -> float:
    """When to continue after this run, counted from its end. The time may be in the past."""
    runs = store.runs.newest(thread_id=run.thread_id, limit=RUNS_READ)
    before = limits_in_a_row(each.outcome for each in runs if each.created_at < run.created_at)
    ended_at = run.ended_at or run.created_at
    return wake_time(run.resets_at, limits_before=before, now=ended_at, jitter=dice())
