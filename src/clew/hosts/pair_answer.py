"""An instructor's answer, out of whatever the model wrote, checked against its shape."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from clew.core.pair import Order

Text = Annotated[str, msgspec.Meta(max_length=200_000)]


class _Order(msgspec.Struct):
    instruction: Text
    should_continue: bool
    thinking: Text = ""
    worker_model: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    needs_correction: bool = False


# A fence stands at the beginning of its line: each that opens one may close another, so nothing is looked at twice.
_BLOCK = r"(?ms)^[ \t]*```[^\n`]*\n(.*?)\n[ \t]*```"


class DoesNotFit(ValueError):
    """In words that the model can act on."""


def read_order(text: str) -> Order:
    """Raises DoesNotFit."""
    problem = "there is no JSON object in it."
    for candidate in _candidates(text):
        try:
            found = msgspec.json.decode(candidate.encode("utf-8", "replace"), type=_Order)
        except msgspec.DecodeError as error:  # also what fits no shape
            problem = f"{error}."
        except RecursionError:
            problem = "it is nested too deeply."
        else:
            if found.should_continue and not found.instruction.strip():
                raise DoesNotFit("should_continue is true, and there is no instruction.")
            return Order(
                thinking=found.thinking.strip(),
                instruction=found.instruction.strip(),
                worker_model=(found.worker_model or "").strip() or None,
                should_continue=found.should_continue,
                needs_correction=found.needs_correction,
            )
    raise DoesNotFit(problem)


def _candidates(text: str) -> list[str]:
    """Where the object may stand: the whole text, a fenced block (the last first), or from brace to brace.

    From the last line that begins with a brace too: the instructor may have said something with braces before.
    """
    found = [text.strip()]
    found += [block.strip() for block in reversed(re.findall(_BLOCK, text))]
    end = text.rfind("}")
    starts = [text.find("{"), *(match.start() for match in list(re.finditer(r"(?m)^\{", text))[-3:])]
    found += [text[start : end + 1] for start in starts if 0 <= start < end]
    return [each for each in dict.fromkeys(found) if each.startswith("{")]
