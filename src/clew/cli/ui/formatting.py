"""How texts, times, amounts and ids are written."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

from clew.core.ids import SHORT_ID

if TYPE_CHECKING:
    from clew.api.views import SearchHit
    from clew.core.history import Turn

AGENT_CHARS = 80
PROMPT_CHARS = 80  # of a prompt that a message mentions
NO_PRICE = "no price"  # tokens were used, and the agent did not report their cost

# Control characters except tab and newline, characters that change the direction of text, and characters without a
# width or a picture. Zero-width joiners are not among them: writing systems and emoji need them. `re` compiles the
# pattern at its first use: output to a pipe may not use it at all.
CONTROL_CHARACTERS = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    r"\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def harmless(text: str) -> str:
    """The text with its control characters made visible: what an agent wrote must not control the terminal."""
    return re.sub(CONTROL_CHARACTERS, lambda match: symbol(match.group()), text)


def symbol(character: str) -> str:
    """The visible character that stands for a control character."""
    code = ord(character)
    return chr(0x2400 + code) if code < 0x20 else "�"


def joined(*parts: str | None, by: str = " · ") -> str:
    """Joins the parts that are not empty."""
    return by.join(part for part in parts if part)


def agent_words(agent: str | None, model: str | None) -> str:
    return one_line(joined(agent, model, by=" "), AGENT_CHARS)


def speaker(said: Turn | SearchHit) -> str:
    """Who said it: `you`, or the agent with its model."""
    return "you" if said.role == "user" else agent_words(said.agent, said.model) or "agent"


def one_line(text: str, limit: int) -> str:
    flat = harmless(" ".join(text[: limit * 8].split()))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def ago(at: float | None, now: float | None = None) -> str:
    if at is None:
        return "-"
    seconds = max(0.0, (time.time() if now is None else now) - at)
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h")):
        if seconds < limit:
            return f"{int(seconds // size)}{unit} ago"
    return f"{int(seconds // 86400)}d ago"


def lasted(began: float | None, ended: float | None) -> str:
    """` after 3.2 s`; an empty text if the duration is not known."""
    if began is None or ended is None:
        return ""
    seconds = max(0.0, ended - began)
    return f" after {seconds:.1f} s" if seconds < 60 else f" after {int(seconds // 60)} min {int(seconds % 60)} s"


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The shortest unambiguous beginning of each id, at least SHORT_ID characters long."""
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
    """What a run cost. `used`: it used tokens, so a cost of zero means that the cost is not known."""
    if cost_usd:
        return dollars(cost_usd)
    return NO_PRICE if used else "-"


def plural(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def local_time(at: float | None) -> str:
    """The time on the local clock, with the date unless it is today."""
    if at is None:
        return "-"
    try:
        then = time.localtime(at)
    except (OverflowError, ValueError, OSError):
        return "never" if at > 0 else "long ago"  # outside the calendar
    today = time.strftime("%Y-%m-%d", then) == time.strftime("%Y-%m-%d")
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M", then)
