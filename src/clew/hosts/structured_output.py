"""A structured answer, read from whatever text a model wrote: one JSON object, checked against its type."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

# A fence begins its line. No part of the text is searched twice: the fence that ends one block does not begin another.
_BLOCK = r"(?ms)^[ \t]*```[^\n`]*\n(.*?)\n[ \t]*```"


class SchemaMismatch(ValueError):
    """Its message is written for the model, which is asked again."""


def parse_json_object(text: str, shape: type[T]) -> T:
    """The first object in the text of that type. Raises SchemaMismatch."""
    problem = "there is no JSON object in it."
    for candidate in _candidates(text):
        try:
            return msgspec.json.decode(candidate.encode("utf-8", "replace"), type=shape)
        except msgspec.DecodeError as error:  # a ValidationError is one, too
            problem = f"{error}."
        except RecursionError:
            problem = "it is nested too deeply."
    raise SchemaMismatch(problem)


def _candidates(text: str) -> list[str]:
    """Where the object may be: the whole text, a fenced block (the last first), or from a brace to the last brace.

    The lines that begin with a brace are tried too, since there may be braces in the text before the object.
    """
    found = [text.strip()]
    found += [block.strip() for block in reversed(re.findall(_BLOCK, text))]
    end = text.rfind("}")
    starts = [text.find("{"), *(match.start() for match in list(re.finditer(r"(?m)^\{", text))[-3:])]
    found += [text[start : end + 1] for start in starts if 0 <= start < end]
    return [each for each in dict.fromkeys(found) if each.startswith("{")]
