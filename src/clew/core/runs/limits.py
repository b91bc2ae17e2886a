"""An account's usage limit: when to continue after it.

The agent often says when the limit resets. All runs that wait for it continue a little later, each after its own
jitter. If the agent does not say, or names an impossible time, the pauses grow from 5 to 30 minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from clew.core.durations import DAY_S
from clew.core.outcome import Outcome

JITTER_S = 30.0  # the longest delay after the reset; it is also limited to a tenth of the wait
JUST_RESET_S = 60.0  # a reset time up to this long ago still counts, because the run took time to end
SHORTEST_PAUSE_S = 5.0
FIRST_PAUSE_S = 300.0
LONGEST_PAUSE_S = 1800.0
LONGEST_LIMIT_S = 8 * DAY_S  # no account's limit is longer


def wake_time(resets_at: float | None, *, limits_before: int, now: float, jitter: float) -> float:
    """When to ask again. `limits_before`: how many runs in a row met a limit before this one; `jitter`: from 0 to 1."""
    known = reset_time(resets_at, now - JUST_RESET_S)
    if known is not None:
        return _with_jitter(max(known, now + _pause_s(SHORTEST_PAUSE_S, limits_before)), now, jitter)
    return _with_jitter(now + _pause_s(FIRST_PAUSE_S, limits_before), now, jitter)


def _pause_s(first_s: float, limits_before: int) -> float:
    """Doubles with each limit in a row, so that an agent that always says "resets soon" does not cause a busy loop."""
    return min(LONGEST_PAUSE_S, first_s * 2.0 ** min(limits_before, 10))


def _with_jitter(at: float, now: float, jitter: float) -> float:
    return at + jitter * min(JITTER_S, (at - now) / 10)


def reset_time(reported: float | None, since: float) -> float | None:
    """The time that an agent reported, if it is after `since`. An agent may report milliseconds, or nonsense."""
    for at in () if reported is None else (reported, reported / 1000.0):
        if math.isfinite(at) and since < at <= since + LONGEST_LIMIT_S:
            return at
    return None


def limits_in_a_row(outcomes: Iterable[str | None]) -> int:
    """How many of the last runs in a row met a limit. `outcomes` has the newest first."""
    count = 0
    for outcome in outcomes:
        if outcome != Outcome.USAGE_LIMIT:
            break
        count += 1
    return count
