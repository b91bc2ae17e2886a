"""Reads the rounds of an old review: the findings, the summary, and what a later round says about earlier findings.

A round of mcp-claude-reviewer has comments, violations of the design and missing requirements; all of them are
findings. It names no state of an earlier finding. Two things follow from it all the same: what it repeats word for word
is still open, and what was found before a round that approves the change is no longer a problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from clew.core.record import Record
from clew.core.reviews.review import Finding, FindingState, FindingVerdict, ReviewAnswer, Severity, numbered
from clew.core.thread import is_safe_argument
from clew.hosts.reviews.imports.fields import MAX_FINDINGS, Fields, first

ASKED = ("request", "prompt", "changes")
SAID = ("review", "result", "response")
LISTS = ("findings", "issues", "comments")
SUMMARIES = ("summary", "overall", "assessment")
TITLE_CHARS = 300
FILE_CHARS = 4_096

_SEVERITIES = {
    "blocker": Severity.CRITICAL,
    "major": Severity.HIGH,
    "error": Severity.HIGH,
    "warning": Severity.MEDIUM,
    "moderate": Severity.MEDIUM,
    "minor": Severity.LOW,
    "suggestion": Severity.INFO,
    "nit": Severity.INFO,
} | {severity.value: severity for severity in Severity}
_OF_ROUND = (
    *("review_id", "round", "number", "timestamp", "status", "model", "__claudeModel", "__claudeSessionId"),
    *ASKED,
    *SAID,
)
_OF_REVIEW = (
    *(*LISTS, *SUMMARIES, "design_compliance", "missing_requirements", "test_results", "overall_assessment"),
    *("review_id", "timestamp", "status", "round"),
)
_OF_DESIGN = ("follows_architecture", "major_violations")
_OF_FINDING = (
    *("type", "file", "path", "line", "severity", "impact", "category", "title", "issue", "message", "comment"),
    *("description", "detail", "details", "suggestion", "suggested_fix", "recommendation"),
)
_SENTENCE = re.compile(r".{10,}?[.!?](?=\s+[A-Z\"'`(\[])")


class OldRound(Record):
    """The readable part of a round."""

    body: Mapping[str, Any]
    number: int | None
    model: str | None
    session_id: str | None
    at: float | None  # when it ended
    summary: str
    findings: tuple[Finding, ...]
    approves: bool
    asked: Any = None  # what older files have of the prompt and the answer
    said: Any = None

    @property
    def is_understood(self) -> bool:
        return bool(self.findings or self.summary or self.asked or self.said)


def read_round(fields: Fields) -> OldRound:
    body = fields.body
    said = first(body, SAID, dict, None)
    review = fields if said is None else fields.nested(next(key for key in SAID if body.get(key) is said), said)
    review.knows(_OF_REVIEW if said is not None else (*_OF_ROUND, *_OF_REVIEW))
    if said is not None:
        fields.knows((*_OF_ROUND, *_OF_REVIEW))
    assessment = review.text("overall_assessment")
    return OldRound(
        body=body,
        number=fields.number("round"),
        model=_model(body),
        session_id=first(body, ("__claudeSessionId",), str, None),
        at=fields.time("timestamp"),
        summary=_summary(review, assessment),
        findings=tuple(_findings(review)),
        approves=assessment == "lgtm" or "approved" in (body.get("status"), review.body.get("status")),
        asked=next((body[key] for key in ASKED if body.get(key)), None),
        said=next((body[key] for key in (*SAID, "findings") if body.get(key)), None),
    )


def _model(body: Mapping[str, Any]) -> str | None:
    model = first(body, ("__claudeModel", "model"), str, None)
    return model if model and is_safe_argument(model) else None


def answers(rounds: Sequence[OldRound]) -> list[ReviewAnswer | None]:
    """The rounds as answers, in order. None: the round has neither a summary nor a finding."""
    made: list[ReviewAnswer | None] = []
    known: dict[tuple[str | None, str, str], str] = {}
    count = 0
    for number, round_ in enumerate(rounds, start=1):
        again = dict.fromkeys(known[_key(each)] for each in round_.findings if _key(each) in known)
        fresh = numbered([each for each in round_.findings if _key(each) not in known], count, number)
        earlier = [FindingVerdict(each, FindingState.OPEN, "This round names it again.") for each in again]
        if round_.approves:
            settled = [each for each in known.values() if each not in again]
            earlier += [FindingVerdict(each, FindingState.FIXED, "This round approves the change.") for each in settled]
        count += len(fresh)
        known |= {_key(each): each.id for each in fresh}
        is_empty = not (round_.summary or fresh or earlier)
        made.append(None if is_empty else ReviewAnswer(round_.summary, fresh, tuple(earlier)))
    return made


def _key(finding: Finding) -> tuple[str | None, str, str]:
    return finding.file, finding.title, finding.detail


def _findings(review: Fields) -> list[Finding]:
    found: list[Finding] = []
    for name in LISTS:
        if not isinstance(review.body.get(name), str):  # older files may hold the whole answer as a text
            found += _listed(review, name, _finding)
    design = review.inside("design_compliance", known=_OF_DESIGN)
    found += _listed(design, "major_violations", _finding)
    return found + _listed(review, "missing_requirements", _requirement)


def _listed(fields: Fields, name: str, read: Any) -> list[Finding]:
    found = []
    for body in fields.objects(name, most=MAX_FINDINGS):
        finding = read(fields.nested(name, body))
        if finding is None:
            fields.unread(name)
        else:
            found.append(finding)
    return found


def _finding(fields: Fields) -> Finding | None:
    fields.knows(_OF_FINDING)
    title = fields.text("title", "issue") or _title(fields.text("message", "comment", "description", "detail"))
    if not title:
        return None
    detail = fields.text("detail", "details", "description", "message", "comment") or title
    category = fields.text("category")
    return Finding(
        id="",
        severity=_severity(fields, "severity", "impact"),
        file=_file(fields),
        line=fields.number("line"),
        title=" ".join(title.split())[:TITLE_CHARS],
        detail=f"{detail}\n\nCategory: {category.replace('_', ' ')}." if category else detail,
        suggestion=fields.text("suggestion", "suggested_fix", "recommendation"),
    )


def _requirement(fields: Fields) -> Finding | None:
    fields.knows(("requirement", "comment", "design_doc_reference", "severity"))
    words = fields.text("requirement", "comment")
    if not words:
        return None
    reference = fields.text("design_doc_reference")
    return Finding(
        id="",
        severity=_severity(fields, "severity"),
        file=None,
        line=None,
        title=f"Missing requirement: {_title(words)}"[:TITLE_CHARS],
        detail=f"{words}\n\nReference: {reference}" if reference else words,
    )


def _severity(fields: Fields, *names: str) -> Severity:
    """Medium for a finding without a known severity."""
    word = fields.text(*names).lower()
    if word and word not in _SEVERITIES:
        fields.unread(next(name for name in names if fields.body.get(name)))
    return _SEVERITIES.get(word, Severity.MEDIUM)


def _file(fields: Fields) -> str | None:
    file = fields.text("file", "path").removeprefix("./")
    if len(file) > FILE_CHARS:
        fields.unread("file")
        return None
    return file or None


def _title(text: str) -> str:
    """The first sentence of the first line."""
    line = " ".join((text.splitlines() or [""])[0].split())
    matched = _SENTENCE.match(line)
    return (matched[0] if matched else line)[:TITLE_CHARS]


def _summary(review: Fields, assessment: str) -> str:
    """The summary in words. mcp-claude-reviewer has only counts there, which follow from the findings."""
    in_words = [key for key in SUMMARIES if isinstance(review.body.get(key), str)]
    parts = [text] if (text := review.text(*in_words)) else []
    if assessment:
        parts.append(f"Overall assessment: {assessment.replace('_', ' ')}.")
    follows = review.inside("design_compliance", known=_OF_DESIGN).flag("follows_architecture")
    if follows is not None:
        parts.append(f"The change {'follows' if follows else 'does not follow'} the architecture.")
    return "\n".join([*parts, *_tests(review)])


def _tests(review: Fields) -> list[str]:
    tests = review.inside("test_results", known=("passed", "summary", "failing_tests", "coverage"))
    if not tests.body:
        return []
    result = {True: "Tests passed", False: "Tests failed", None: "Tests were not run"}[tests.flag("passed")]
    words, failing, coverage = tests.text("summary"), tests.texts("failing_tests"), tests.text("coverage")
    lines = [f"{result}: {words}" if words else f"{result}."]
    if failing:
        lines.append(f"Failing tests: {', '.join(failing)}")
    return [*lines, f"Coverage: {coverage}"] if coverage else lines
