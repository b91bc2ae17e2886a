"""A reviewer's answer, out of whatever the model wrote, checked against its shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from clew.core.reviews.review import Finding, FindingState, FindingVerdict, ReviewAnswer, Severity, numbered
from clew.hosts.structured_output import parse_json_object

TEXT_MAX_CHARS = 20_000  # characters
MAX_FINDINGS = 200
Words = Annotated[str, msgspec.Meta(max_length=TEXT_MAX_CHARS)]
Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX_CHARS, pattern=r"\S")]


class _Finding(msgspec.Struct):
    severity: Severity
    title: Text
    detail: Text
    file: Annotated[str, msgspec.Meta(max_length=4_096)] | None = None
    line: Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)] | None = None
    suggestion: Words | None = None


class _Verdict(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(max_length=100)]
    state: FindingState
    note: Words | None = None


class _Answer(msgspec.Struct):
    summary: Words
    findings: Annotated[list[_Finding], msgspec.Meta(max_length=MAX_FINDINGS)]
    earlier: Annotated[list[_Verdict], msgspec.Meta(max_length=10_000)] = []


def schema() -> dict[str, Any]:
    """The shape, as JSON Schema."""
    return msgspec.json.schema(_Answer)


def check(text: str) -> None:
    """Raises SchemaMismatch."""
    parse_json_object(text, _Answer)


def read_answer(text: str, *, already: int, round_number: int, is_file: Callable[[str], bool]) -> ReviewAnswer:
    """`already`: how many findings the review has; `is_file`: whether the diff or the repository has such a path.
    Raises SchemaMismatch."""
    return _answer(parse_json_object(text, _Answer), already, round_number, is_file)


def _answer(found: _Answer, already: int, round_number: int, is_file: Callable[[str], bool]) -> ReviewAnswer:
    fresh = [
        Finding(
            id="",
            severity=each.severity,
            file=_path(each.file, is_file),
            line=each.line or None,
            title=" ".join(each.title.split()),
            detail=each.detail.strip(),
            suggestion=(each.suggestion or "").strip(),
        )
        for each in found.findings
    ]
    known = {f"F{number}" for number in range(1, already + 1)}  # a verdict on any other is about nothing
    earlier = [
        FindingVerdict(each.id, each.state, (each.note or "").strip()) for each in found.earlier if each.id in known
    ]
    return ReviewAnswer(found.summary.strip(), numbered(fresh, already, round_number), tuple(earlier))


def _path(file: str | None, is_file: Callable[[str], bool]) -> str | None:
    """As the repository has it: without the letter that stands before it in the diff, unless that is a folder's."""
    if not file or not file.strip():
        return None
    path = file.strip().removeprefix("./")
    bare = path[2:] if path.startswith(("a/", "b/")) else ""
    return bare if bare and not is_file(path) and is_file(bare) else path
