"""How things are printed: answers and objects on stdout, notes on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

SHORT_ID = 8
MONEY_DIGITS = 6  # of every amount in JSON
FIRST_STAMP, LAST_STAMP = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"
NO_PRICE = "no price"  # tokens were used, and the agent did not say what they cost

# Everything that moves a cursor or rings a bell, but for tab and newline; what turns the direction of writing, and what
# has no width. The joiners stay: writing systems and emoji need them.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def note(text: str) -> None:
    """A line for the person, apart from the answer."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads it; that is no reason to stop


def dim(text: str) -> str:
    """Less loud than the rest, on a terminal that can."""
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[2m{text}\x1b[0m"


def say(text: str = "") -> None:
    """A line of the command's own output."""
    sys.stdout.write(f"{text}\n")


def print_json(value: Any, *, in_line: bool = False) -> None:
    """One object: on one line for a program, indented for a person. Amounts of money are rounded."""
    value = _rounded(value)
    indent = 2 if sys.stdout.isatty() and not in_line else None
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a character, as agents sometimes cut them
        text = json.dumps(value, indent=indent)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: round(each, MONEY_DIGITS) if key.endswith("_usd") and isinstance(each, float) else _rounded(each)
            for key, each in value.items()
        }
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def harmless(text: str) -> str:
    """The text with its control characters made visible: what an agent wrote must not drive the terminal."""
    return _CONTROL.sub(lambda match: _picture(match.group()), text)


def _picture(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "�"


def one_line(text: str, limit: int) -> str:
    flat = harmless(" ".join(text[: limit * 8].split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A plain table: as readable in a pipe as on a terminal."""
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in table)
    return "\n".join(line.rstrip() for line in lines)


def ago(at: float | None, now: float | None = None) -> str:
    if at is None:
        return "-"
    seconds = max(0.0, (time.time() if now is None else now) - at)
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)}{unit} ago"
    return f"{int(seconds // 86400)}d ago"


def lasted(began: float | None, ended: float | None) -> str:
    """` after 3.2 s`, or nothing when it is not known."""
    if began is None or ended is None:
        return ""
    seconds = max(0.0, ended - began)
    return f" after {seconds:.1f} s" if seconds < 60 else f" after {int(seconds // 60)} min {int(seconds % 60)} s"


def stamp(at: float | None) -> str | None:
    """A time for JSON; one that no calendar has is the first or the last of all."""
    if at is None or at != at:
        return None
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return LAST_STAMP if at > 0 else FIRST_STAMP


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The beginning of each that no other of these ids has."""
    ordered = sorted(set(ids))
    shared = [0, *(_in_common(one, other) for one, other in pairwise(ordered)), 0]
    return {
        identity: identity[: max(SHORT_ID, shared[place] + 1, shared[place + 1] + 1)]
        for place, identity in enumerate(ordered)
    }


def _in_common(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def dollars(amount: float) -> str:
    sign = "-" if amount <= -0.00005 else ""
    return f"{sign}${abs(amount):,.4f}" if abs(amount) < 100 else f"{sign}${abs(amount):,.2f}"


def price(cost_usd: float, *, used: bool) -> str:
    """What a run cost. `used`: it took tokens, so that a cost of nothing is one that nobody knows."""
    if cost_usd:
        return dollars(cost_usd)
    return NO_PRICE if used else "-"


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
