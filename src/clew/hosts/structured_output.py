"""A structured answer, out of whatever a model wrote: one JSON object, checked against its shape."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

# A fence stands at the beginning of its line: each that opens one may close another, so nothing is looked at twice.
_BLOCK = r"(?ms)^[ \t]*```[^\n`]*\n(.*?)\n[ \t]*```"


class DoesNotFit(ValueError):
    """In words that the model can act on."""


def read_shaped(text: str, shape: type[T]) -> T:
    """The first object in the text that has the shape. Raises DoesNotFit."""
    problem = "there is no JSON object in it."
    for candidate in _candidates(text):
        try:
            return msgspec.json.decode(candidate.encode("utf-8", "replace"), type=shape)
        except msgspec.DecodeError as error:  # also what fits no shape
            problem = f"{error}."
        except RecursionError:
            problem = "it is nested too deeply."
    raise DoesNotFit(problem)


def _candidates(text: str) -> list[str]:
    """Where the object may stand: the whole text, a fenced block (the last first), or from brace to brace.

    From the last lines that begin with a brace too: something with braces may have been said before.
    """
    found = [text.strip()]
    found += [block.strip() for block in reversed(re.findall(_BLOCK, text))]
    end = text.rfind("}")
    starts = [text.find("{"), *(match.start() for match in list(re.finditer(r"(?m)^\{", text))[-3:])]
    found += [text[start : end + 1] for start in starts if 0 <= start < end]
    return [each for each in dict.fromkeys(found) if each.startswith("{")]
