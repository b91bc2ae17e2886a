"""Times as text, for JSON."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timezone

FIRST_STAMP, LAST_STAMP = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"


def stamp(at: float | None) -> str | None:
    """A time as RFC 3339 in UTC with milliseconds. A time outside the calendar becomes FIRST_STAMP or LAST_STAMP."""
    if at is None or at != at:
        return None
    datetime, utc = _calendar()
    try:
        return datetime.fromtimestamp(at, utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return LAST_STAMP if at > 0 else FIRST_STAMP


@cache
def _calendar() -> tuple[type[datetime], timezone]:
    """Not imported at start-up, and not at every call: a view of a thread has thousands of times."""
    from datetime import UTC, datetime

    return datetime, UTC
