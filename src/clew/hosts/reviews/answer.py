"""Reads a reviewer's answer from the model's text, and checks it against its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from clew.core.reviews.review import Finding, FindingState, FindingVerdict, ReviewAnswer, Severity, numbered
from clew.hosts.structured_output import parse_json_object

TEXT_MAX_CHARS = 20_000
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


def check(text: str) -> None:
    """Raises SchemaMismatch if the text does not have the required form."""
    parse_json_object(text, _Answer)


def read_answer(text: str, *, already: int, round_number: int, is_file: Callable[[str], bool]) -> ReviewAnswer:
    """`already`: how many findings the review has; `is_file`: whether the diff or the repository has such a path.
    Raises SchemaMismatch."""
    found = parse_json_object(text, _Answer)
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
    known = {f"F{number}" for number in range(1, already + 1)}  # verdicts on other ids are ignored
    earlier = [
        FindingVerdict(each.id, each.state, (each.note or "").strip()) for each in found.earlier if each.id in known
    ]
    return ReviewAnswer(found.summary.strip(), numbered(fresh, already, round_number), tuple(earlier))


def _path(file: str | None, is_file: Callable[[str], bool]) -> str | None:
    """The path in the repository. The prefix `a/` or `b/` of a diff is removed, unless it is a real folder."""
    if not file or not file.strip():
        return None
    path = file.strip().removeprefix("./")
    bare = path[2:] if path.startswith(("a/", "b/")) else ""
    return bare if bare and not is_file(path) and is_file(bare) else path
