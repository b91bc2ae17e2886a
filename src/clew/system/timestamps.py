"""Times as text, for JSON."""

from __future__ import annotations

FIRST_STAMP, LAST_STAMP = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"


def stamp(at: float | None) -> str | None:
    """A time as RFC 3339 in UTC with milliseconds. A time outside the calendar becomes FIRST_STAMP or LAST_STAMP."""
    if at is None or at != at:
        return None
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return LAST_STAMP if at > 0 else FIRST_STAMP
