"""How much a body may hold, looked at before it is parsed: parsing and checking go on while nobody else is answered.

A long text costs little, so only its size counts. Many small values cost much more than their bytes, and each may be
wrong on its own.
"""

from __future__ import annotations

import re
from itertools import accumulate

from clew.server.problems import Refusal

MAX_BODY_BYTES = 12_000_000  # where a prompt or another text of any length may come
MAX_SHORT_BYTES = 64_000  # everywhere else
MAX_VALUES = 10_000
MAX_DEPTH = 64

LONG = re.compile(
    r"/api/(?:threads(?:/[^/]+(?:/runs|/turns/[^/]+)?)?|runs/[^/]+(?:/tool-result)?|jobs|reviews(?:/[^/]+/rounds)?)"
)
BRACKETS = b"[]{}"
NO_BRACKETS = bytes(set(range(256)) - set(BRACKETS))
STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def most_bytes(path: str) -> int:
    return MAX_BODY_BYTES if LONG.fullmatch(path) else MAX_SHORT_BYTES


def check_values(body: bytes) -> None:
    """Raises Refusal when it holds too many values, or values too deep in each other. Valid JSON need not be."""
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")  # so that each quote begins or ends a text
    too_many = Refusal(413, f"The body holds more than {MAX_VALUES:,} values.", headers={"Connection": "close"})
    if bare.count(b'"') > 4 * MAX_VALUES:  # a field's name and its value are two texts
        raise too_many
    outside = b"".join(bare.split(b'"')[::2])
    brackets = outside.translate(None, NO_BRACKETS)
    if outside.count(b",") + len(brackets) > MAX_VALUES:
        raise too_many
    if max(accumulate(STEPS[each] for each in brackets), default=0) > MAX_DEPTH:
        raise Refusal(400, f"The body holds values more than {MAX_DEPTH} deep in each other.")
