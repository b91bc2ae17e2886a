"""Reads an old review from its files: its id, its rounds, the sessions of the agent, and what the author asked for.

Two formats are known. mcp-claude-reviewer writes `review_id` and `request` (see files.py). Its design had another one,
with all in one file:

    {"reviewId": "2025-07-01-003", "claudeSessionIds": {"opus": "…", "sonnet": "…"}, "rounds": [{…}, …]}

Older files have a single `claudeSessionId`, and the oldest have none. If a file has both, the session that is named for
a model takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from clew.core.record import Record, replace
from clew.core.thread import is_safe_argument
from clew.errors import UsageError
from clew.hosts.reviews.imports.fields import TEXT_MAX_CHARS, Fields, Omissions, first
from clew.hosts.reviews.imports.files import (
    DIFF,
    DIFF_MAX_BYTES,
    MAX_ROUNDS,
    NOTES,
    REQUEST,
    ROUND_FILE,
    SESSION,
    Files,
    parsed,
)
from clew.hosts.reviews.imports.rounds import OldRound, read_round

DEFAULT = "default"  # stands for an unnamed model, also in old files
FOCUS_MAX_CHARS = 10_000

_ID = re.compile(r"(\d{4}-\d{2}-\d{2})-(\d{3,9})\Z")
_OF_SESSION = (
    *("review_id", "reviewId", "created_at", "updated_at", "status", "rounds", "request", "git_diff", "branch"),
    *("claudeSessionIds", "claudeSessionId", "model", "cwd", "workingDirectory"),
)
_OF_REQUEST = (*("summary", "relevant_docs", "focus_areas", "previous_review_id", "test_command", "workingDirectory"),)
_DIRECTORIES = ("cwd", "workingDirectory")
_OF_SINGLE_ROUND = ("comments", "design_compliance", "missing_requirements", "overall_assessment", "test_results")


class OldReview(Record):
    """The readable part of an old review."""

    id: str
    day: str
    number: int
    model: str | None
    sessions: Mapping[str, str]  # session ids by model
    rounds: tuple[OldRound, ...]
    cwd: str | None
    created_at: float | None
    message: str = ""  # the author's words for the first round
    focus: str = ""
    diff: str = ""  # what the first round compared
    left_out: tuple[str, ...] = ()


def read_review(files: Files, name: str) -> OldReview:
    """`name` is what messages call the files. Raises UsageError: not a review, or nothing in it was understood."""
    omissions = Omissions()
    body = _body(files, name, omissions)
    fields = Fields(body, "", name, omissions).knows(_OF_SESSION)
    matched = _ID.match(first(body, ("review_id", "reviewId"), str, ""))
    if matched is None:
        raise UsageError(f"{name} is not a review: it has no review_id like 2025-07-01-003.")
    rounds = [read_round(fields.nested("rounds", each)) for each in fields.objects("rounds", most=MAX_ROUNDS)]
    request = fields.inside("request", known=_OF_REQUEST)
    sessions = _sessions(fields, rounds)
    if not (any(each.is_understood for each in rounds) or sessions or request.text("summary")):
        raise UsageError(f"{name} is not a review: nothing in it was understood.")
    return OldReview(
        id=matched[0],
        day=matched[1],
        number=int(matched[2]),
        model=_model(body),
        sessions=sessions,
        rounds=_closed(rounds, _closing(fields, files, name), omissions),
        cwd=first(body, _DIRECTORIES, str, None) or first(request.body, _DIRECTORIES, str, None),
        created_at=fields.time("created_at"),
        message=_message(fields, request),
        focus=", ".join(request.texts("focus_areas"))[:FOCUS_MAX_CHARS],
        diff=_diff(fields, files, omissions),
        left_out=omissions.words(),
    )


def _body(files: Files, name: str, omissions: Omissions) -> dict[str, Any]:
    """The session with all its rounds, from whichever files have it."""
    by_number = {int(found[1]): file for file in files if (found := ROUND_FILE.match(file))}
    if SESSION not in files and not by_number:
        if len(files) != 1:
            raise UsageError(f"{name} is not a review: it has no {SESSION}.")
        return _single(parsed(name, next(iter(files.values()))), omissions)
    body = parsed(_label(name, SESSION), files[SESSION]) if SESSION in files else {}
    if "request" not in body and REQUEST in files:
        body["request"] = parsed(_label(name, REQUEST), files[REQUEST])
    rounds = body.get("rounds") or []
    if isinstance(rounds, list) and by_number:
        known = {each.get("round") for each in rounds if isinstance(each, dict)}
        lacking = [
            parsed(_label(name, file), files[file]) for number, file in sorted(by_number.items()) if number not in known
        ]
        body["rounds"] = _in_order([*rounds, *lacking])
        for each in lacking:
            body.setdefault("review_id", each.get("review_id"))
    return body


def _label(name: str, file: str) -> str:
    return name if name.endswith(file) else f"{name}: {file}"


def _in_order(rounds: list[Any]) -> list[Any]:
    numbers = [each.get("round") if isinstance(each, dict) else None for each in rounds]
    if not all(type(number) is int for number in numbers):
        return rounds
    return sorted(rounds, key=lambda each: int(each["round"]))


def _single(body: dict[str, Any], omissions: Omissions) -> dict[str, Any]:
    """A file of one round as a session of one round."""
    if "rounds" in body or not any(key in body for key in _OF_SINGLE_ROUND):
        return body
    number = body.get("round")
    if isinstance(number, int) and number != 1:
        omissions.others.append(f"the other rounds of the session: this file is round {number} alone")
    created = {"created_at": body["timestamp"]} if isinstance(body.get("timestamp"), str) else {}
    return {"review_id": body.get("review_id"), **created, "rounds": [body]}


def _model(body: Mapping[str, Any]) -> str | None:
    model = body.get("model")
    return model if isinstance(model, str) and model not in ("", DEFAULT) and is_safe_argument(model) else None


def _sessions(fields: Fields, rounds: list[OldRound]) -> dict[str, str]:
    """A round names its session as well: the tool may have died before it wrote the session's own list."""
    body = fields.body
    named, single = body.get("claudeSessionIds"), body.get("claudeSessionId")
    found = {each.model or DEFAULT: each.session_id for each in rounds if each.session_id}
    if isinstance(named, dict):
        found |= {model: session for model, session in named.items() if isinstance(session, str) and session}
    if named is not None and not (isinstance(named, dict) and all(isinstance(each, str) for each in named.values())):
        fields.unread("claudeSessionIds")
    found = {model: session for model, session in found.items() if model and is_safe_argument(model)}
    if isinstance(single, str) and single and single not in found.values():
        found.setdefault(_model(body) or DEFAULT, single)
    return found


def _message(fields: Fields, request: Fields) -> str:
    """The request in words. The tool keeps only that of the first round."""
    lines = [request.text("summary")]
    documents = request.texts("relevant_docs")
    if documents:
        lines.append(f"Documents: {', '.join(documents)}")
    for label, words in (("Test command", request.text("test_command")), ("Branch", fields.text("branch"))):
        if words:
            lines.append(f"{label}: {words}")
    return "\n".join(line for line in lines if line)[:TEXT_MAX_CHARS]


def _closing(fields: Fields, files: Files, name: str) -> str:
    """How the author closed the review. The other states follow from the last round."""
    status = fields.text("status")
    notes = files.get(NOTES, b"").decode("utf-8", "replace").strip()
    if len(notes) > TEXT_MAX_CHARS:
        raise UsageError(f"{_label(name, NOTES)} has {len(notes):,} characters; the limit is {TEXT_MAX_CHARS:,}.")
    if status not in ("abandoned", "merged") and not notes:
        return ""
    return f"The author closed the review: {status or 'done'}." + (f" {notes}" if notes else "")


def _closed(rounds: list[OldRound], closing: str, omissions: Omissions) -> tuple[OldRound, ...]:
    """The rounds, the last one with the words of the author at the end."""
    if not closing:
        return tuple(rounds)
    if not rounds:
        omissions.others.append("how the review was closed: it has no round")
        return ()
    last = rounds[-1]
    return (*rounds[:-1], replace(last, summary="\n".join(part for part in (last.summary, closing) if part)))


def _diff(fields: Fields, files: Files, omissions: Omissions) -> str:
    inside = fields.body.get("git_diff")
    if inside is not None and not isinstance(inside, str):
        fields.unread("git_diff")
        inside = None
    content = files[DIFF] if DIFF in files else (inside or "").encode("utf-8", "replace")
    if len(content) > DIFF_MAX_BYTES:
        omissions.others.append(f"the diff: it is larger than {DIFF_MAX_BYTES:,} bytes")
        return ""
    return content.decode("utf-8", "replace")
