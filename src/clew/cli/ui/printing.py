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
TYPED_BACK = ("ID", "NAME", "PAIR", "RUN", "THREAD", "KEY", "QID", "SETTING")  # columns that are never cut
PATHS = ("DIRECTORY", "REPOSITORY", "WORK TREE", "FILE", "FROM")  # cut at their beginning
LEAST_CELLS = 12  # of a column that may be cut
NO_PRICE = "no price"  # tokens were used, and the agent did not say what they cost

# Everything that moves a cursor or rings a bell, but for tab and newline; what turns the direction of writing, and what
# has no width. The joiners stay: writing systems and emoji need them. `re` compiles it once it is used: not in a pipe.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]"


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
    """One object: on one line for a program, indented for a person. Amounts of money are rounded.

    On a terminal, characters that would drive it are escaped; the value is the same.
    """
    value = _rounded(value)
    indent = 2 if sys.stdout.isatty() and not in_line else None
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a character, as agents sometimes cut them
        text = json.dumps(value, indent=indent)
    if sys.stdout.isatty():
        text = re.sub(_CONTROL, lambda match: f"\\u{ord(match.group()):04x}", text)
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
    return re.sub(_CONTROL, lambda match: _picture(match.group()), text)


def _picture(character: str) -> str:
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "�"


def one_line(text: str, limit: int) -> str:
    flat = harmless(" ".join(text[: limit * 8].split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def columns(header: Sequence[str], rows: Iterable[Sequence[str]], *, spare: Sequence[str] = ()) -> str:
    """A plain table: whole in a pipe, fitted to a terminal. `spare` are headings that may go there, the first first."""
    table = [list(header), *([_in_line(cell) for cell in row] for row in rows)]
    room = _room()
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    if room is not None:
        for heading in spare:
            if _taken(_least(table[0], widths)) <= room:
                break
            place = table[0].index(heading)
            table = [row[:place] + row[place + 1 :] for row in table]
            del widths[place]
        widths = _narrowed(table[0], widths, room)
        backwards = [heading in PATHS for heading in table[0]]
        table = [[cut(*cell) for cell in zip(row, widths, backwards, strict=True)] for row in table]
    lines = (
        "  ".join(cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)) for row in table
    )
    return "\n".join(line.rstrip() for line in lines)


def _in_line(cell: str) -> str:
    """Whatever it holds, a row of a table is one line."""
    return harmless(cell).replace("\n", "␊").replace("\t", "␉")


def _room() -> int | None:
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _least(header: Sequence[str], widths: Sequence[int]) -> list[int]:
    """What a column cannot do without. What one types back is not cut."""
    return [
        width if heading in TYPED_BACK else min(width, max(len(heading), LEAST_CELLS))
        for heading, width in zip(header, widths, strict=True)
    ]


def _narrowed(header: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """The widest is cut first."""
    least, found = _least(header, widths), list(widths)
    while _taken(found) > room and found != least:
        widest = max((place for place, width in enumerate(found) if width > least[place]), key=found.__getitem__)
        found[widest] -= 1
    return found


def cut(text: str, width: int, backwards: bool = False) -> str:
    """So wide at most. `backwards`: its end is what tells, as of a path."""
    if cells(text) <= width:
        return text
    kept = text[::-1] if backwards else text
    while cells(kept) > width - 1:
        kept = kept[:-1]
    return f"…{kept[::-1]}" if backwards else f"{kept}…"


def cells(text: str) -> int:
    """How wide a terminal draws it."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


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


def at_clock(at: float | None) -> str:
    """A time of this machine's clock; the day too when it is another one."""
    if at is None:
        return "-"
    try:
        then = time.localtime(at)
    except (OverflowError, ValueError, OSError):
        return "never" if at > 0 else "long ago"  # no calendar has it
    today = time.strftime("%Y-%m-%d", then) == time.strftime("%Y-%m-%d")
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M", then)
