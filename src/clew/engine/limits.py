"""When a thread continues whose last run met the account's usage limit."""

from __future__ import annotations

import random
from collections.abc import Callable

from clew.core.limits import in_a_row, wake_time
from clew.core.run import Run
from clew.store.store import Store

RUNS_LOOKED_AT = 20  # the longest pause is reached long before


def wake_at(store: Store, run: Run, dice: Callable[[], float] = random.random) -> float:
    """When to continue after that run, counted from its end: it may be over by now."""
    runs = store.runs(thread_id=run.thread_id, limit=RUNS_LOOKED_AT)
    before = in_a_row(each.outcome for each in runs if each.created_at < run.created_at)
    ended_at = run.ended_at or run.created_at
    return wake_time(run.resets_at, limits_before=before, now=ended_at, dice=dice())
