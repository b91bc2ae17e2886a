"""Finds the JSON object in a model's answer, and checks it against a type."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

# A fence must begin its line. The fence that ends one block cannot begin another, so no text is searched twice.
_BLOCK = r"(?ms)^[ \t]*```[^\n`]*\n(.*?)\n[ \t]*```"


class SchemaMismatch(ValueError):
    """The answer has no object of that type. The message is written for the model, which is asked again."""


def parse_json_object(text: str, shape: type[T]) -> T:
    """The first object of that type in the text. Raises SchemaMismatch."""
    problem = "there is no JSON object in it."
    for candidate in _candidates(text):
        try:
            return msgspec.json.decode(candidate.encode("utf-8", "replace"), type=shape)
        except msgspec.DecodeError as error:  # includes ValidationError
            problem = f"{error}."
        except RecursionError:
            problem = "it is nested too deeply."
    raise SchemaMismatch(problem)


def _candidates(text: str) -> list[str]:
    """Where the object may be: the whole text, a fenced block (the last one first), or from a brace to the last brace.

    It may begin with the first brace, or with a brace at the start of a line if the text before it has braces too.
    """
    found = [text.strip()]
    found += [block.strip() for block in reversed(re.findall(_BLOCK, text))]
    end = text.rfind("}")
    starts = [text.find("{"), *(match.start() for match in list(re.finditer(r"(?m)^\{", text))[-3:])]
    found += [text[start : end + 1] for start in starts if 0 <= start < end]
    return [each for each in dict.fromkeys(found) if each.startswith("{")]
