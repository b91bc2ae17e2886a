"""A reviewer's answer, out of whatever the model wrote, checked against its shape."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from clew.core.review import Answer, Finding, Severity, State, Verdict, numbered
from clew.hosts.shaped import read_shaped

TEXT_MOST = 20_000  # characters
FINDINGS_MOST = 200
Words = Annotated[str, msgspec.Meta(max_length=TEXT_MOST)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_MOST, pattern=r"\S")]


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


def schema() -> dict[str, Any]:
    """The shape, as JSON Schema."""
    return msgspec.json.schema(_Answer)


def read_answer(text: str, *, already: int, round_number: int) -> Answer:
    """`already`: how many findings the review has. Raises DoesNotFit."""
    return _answer(read_shaped(text, _Answer), already, round_number)


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
