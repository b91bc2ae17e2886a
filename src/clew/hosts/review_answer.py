"""A reviewer's answer, out of whatever the model wrote, checked against its shape."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from clew.core.review import Answer, Finding, Severity, State, Verdict, numbered

Words = Annotated[str, msgspec.Meta(max_length=20_000)]
Text = Annotated[str, msgspec.Meta(max_length=20_000, pattern=r"\S")]
FINDINGS_MOST = 200


class _Finding(msgspec.Struct):
    severity: Severity
    title: Text
    detail: Text
    file: Annotated[str, msgspec.Meta(max_length=4_096)] | None = None
    line: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] | None = None
    suggestion: Words | None = None


class _Verdict(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(max_length=100)]
    state: State
    note: Words | None = None


class _Answer(msgspec.Struct):
    summary: Words
    findings: Annotated[list[_Finding], msgspec.Meta(max_length=FINDINGS_MOST)]
    earlier: Annotated[list[_Verdict], msgspec.Meta(max_length=10_000)] = []


# A fence stands at the beginning of its line: each that opens one may close another, so nothing is looked at twice.
_BLOCK = r"(?ms)^[ \t]*```[^\n`]*\n(.*?)\n[ \t]*```"


class DoesNotFit(ValueError):
    """In words that the model can act on."""


def schema() -> dict[str, Any]:
    """The shape, as JSON Schema."""
    return msgspec.json.schema(_Answer)


def read_answer(text: str, *, already: int, round_number: int) -> Answer:
    """`already`: how many findings the review has. Raises DoesNotFit."""
    problem = "there is no JSON object in it."
    for candidate in _candidates(text):
        try:
            found = msgspec.json.decode(candidate.encode("utf-8", "replace"), type=_Answer)
        except msgspec.DecodeError as error:  # also what fits no shape
            problem = f"{error}."
        except RecursionError:
            problem = "it is nested too deeply."
        else:
            return _answer(found, already, round_number)
    raise DoesNotFit(problem)


def _candidates(text: str) -> list[str]:
    """Where the object may stand: the whole text, a fenced block (the last first), or from brace to brace."""
    found = [text.strip()]
    found += [block.strip() for block in reversed(re.findall(_BLOCK, text))]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        found.append(text[start : end + 1])
    return [each for each in dict.fromkeys(found) if each.startswith("{")]


def _answer(found: _Answer, already: int, round_number: int) -> Answer:
    fresh = [
        Finding(
            id="",
            severity=each.severity,
            file=_path(each.file),
            line=each.line or None,
            title=" ".join(each.title.split()),
            detail=each.detail.strip(),
            suggestion=(each.suggestion or "").strip(),
        )
        for each in found.findings
    ]
    known = {f"F{number}" for number in range(1, already + 1)}  # a verdict on any other is about nothing
    earlier = [Verdict(each.id, each.state, (each.note or "").strip()) for each in found.earlier if each.id in known]
    return Answer(found.summary.strip(), numbered(fresh, already, round_number), tuple(earlier))


def _path(file: str | None) -> str | None:
    """As in the diff, without the letter that stands before it there."""
    if not file or not file.strip():
        return None
    return file.strip().removeprefix("./")
