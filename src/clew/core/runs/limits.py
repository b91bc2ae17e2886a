"""An account's usage limit: when to continue after it.

The agent often says when the limit resets. Everybody who waits for that wakes a little later, and not in the same
second. Where it does not say, or says a time that cannot be, the pauses grow from 5 to 30 minutes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from clew.core.outcome import Outcome

JITTER_S = 30.0  # at most so much later than the reset, and at most a tenth of the wait
JUST_OVER_S = 60.0  # the run took its time to end
SHORTEST_PAUSE_S = 5.0
FIRST_PAUSE_S = 300.0
LONGEST_PAUSE_S = 1800.0
LONGEST_LIMIT_S = 8 * 86_400.0  # no account's limit is longer


def wake_time(resets_at: float | None, *, limits_before: int, now: float, dice: float) -> float:
    """When to ask again. `limits_before`: runs that met a limit just before this one; `dice` is between 0 and 1."""
    known = reset_time(resets_at, now - JUST_OVER_S)
    if known is not None:
        return _a_little_later(max(known, now + _pause_s(SHORTEST_PAUSE_S, limits_before)), now, dice)
    return _a_little_later(now + _pause_s(FIRST_PAUSE_S, limits_before), now, dice)


def _pause_s(first_s: float, limits_before: int) -> float:
    """Twice as long each time: an agent that always says that the limit is about to reset makes nobody hurry."""
    return min(LONGEST_PAUSE_S, first_s * 2.0 ** min(limits_before, 10))


def _a_little_later(at: float, now: float, dice: float) -> float:
    return at + dice * min(JITTER_S, (at - now) / 10)


def reset_time(told: float | None, since: float) -> float | None:
    """What an agent tells, when it is a time after `since`: it may be in milliseconds, long over, or no time at all."""
    for at in () if told is None else (told, told / 1000.0):
        if math.isfinite(at) and since < at <= since + LONGEST_LIMIT_S:
            return at
    return None


def in_a_row(outcomes: Iterable[str | None]) -> int:
    """How many of the last runs met a limit; the newest comes first."""
    count = 0
    for outcome in outcomes:
        if outcome != Outcome.USAGE_LIMIT:
            break
        count += 1
    return count
