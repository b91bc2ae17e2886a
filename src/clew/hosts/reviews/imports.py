"""Imports reviews of an older tool. Each is a JSON file with the ids of the sessions that the tool resumed unchecked.

    {"reviewId": "2025-07-01-003", "claudeSessionIds": {"opus": "…", "sonnet": "…"}, "rounds": [{…}, …]}

Older files have a single `claudeSessionId`, and the oldest have none. If a file has both, the session that is named for
a model takes precedence. A session is adopted by reading its file. Without a session file there is nothing to resume,
and the rounds in the old file become the thread's history.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from clew.core.history import Role, Turn
from clew.core.ids import ThreadId, TurnId
from clew.core.prompts import fenced
from clew.core.record import Record
from clew.core.reviews.review import (
    Finding,
    Review,
    ReviewAnswer,
    ReviewRound,
    RoundStatus,
    Severity,
    findings_of,
    numbered,
)
from clew.core.thread import Thread, is_safe_argument
from clew.engine.engine import Engine
from clew.engine.sessions import adoption
from clew.engine.sessions.adoption import FoundSession
from clew.errors import Conflict, UsageError
from clew.git.changes import Repository
from clew.hosts.reviews.reviews import new_mark, review_thread
from clew.hosts.validation import existing_dir
from clew.store.store import Store

FILE_MAX_BYTES = 50_000_000
TEXT_MAX_CHARS = 200_000  # of a round that becomes a turn
AGENT = "claude"  # the only agent of the old tool
DEFAULT = "default"  # stands for an unnamed model, also in old files

T = TypeVar("T")
D = TypeVar("D")
_ID = re.compile(r"(\d{4}-\d{2}-\d{2})-(\d{3,9})\Z")
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


class ImportedReview(Record):
    """The result of an import."""

    review_id: str
    rounds: int
    sessions: Mapping[str, bool]  # by model: whether its session was adopted
    warnings: tuple[str, ...] = ()


class _OldReview(Record):
    """The readable part of an old file."""

    id: str
    day: str
    number: int
    model: str | None
    sessions: Mapping[str, str]  # session ids by model
    rounds: Sequence[Mapping[str, Any]]
    cwd: str | None


async def import_file(
    engine: Engine, path: Path, cwd: str | None = None, *, model: str | None = None
) -> ImportedReview:
    """`cwd` is where the old tool ran the agent; by default it is taken from the file. `model` is used if neither the
    file nor the sessions name one. Raises UsageError and Conflict."""
    old = read_file(path)
    work_dir = existing_dir(cwd or old.cwd or ".")
    top = await Repository(work_dir, engine.context.environ).top()
    found = {model: await engine.find_session(AGENT, work_dir, session) for model, session in old.sessions.items()}
    review = Review(old.id, ThreadId(engine.context.new_id()), top, imported_from=str(path.absolute()))
    return await engine.store.atomically(lambda store: _store(store, engine, old, review, work_dir, model, found))


def read_file(path: Path) -> _OldReview:
    try:
        if path.stat().st_size > FILE_MAX_BYTES:
            raise UsageError(f"{path} is too large for a review.")
        body = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a JSON file.", hint="Name a review file of the old tool.") from error
    matched = _ID.match(str(body.get("reviewId", ""))) if isinstance(body, dict) else None
    if matched is None:
        raise UsageError(f"{path} is not a review: it has no reviewId like 2025-07-01-003.")
    rounds = body.get("rounds")
    return _OldReview(
        id=matched[0],
        day=matched[1],
        number=int(matched[2]),
        model=_model(body),
        sessions=_sessions(body),
        rounds=[each for each in rounds if isinstance(each, dict)] if isinstance(rounds, list) else [],
        cwd=_first(body, ("cwd", "workingDirectory"), str, None),
    )


def _model(body: Mapping[str, Any]) -> str | None:
    model = body.get("model")
    return model if isinstance(model, str) and model not in ("", DEFAULT) and is_safe_argument(model) else None


def _sessions(body: Mapping[str, Any]) -> dict[str, str]:
    named, single = body.get("claudeSessionIds"), body.get("claudeSessionId")
    found = {
        model: session
        for model, session in (named.items() if isinstance(named, dict) else ())
        if isinstance(session, str) and session and model and is_safe_argument(model)
    }
    if isinstance(single, str) and single and single not in found.values():
        found.setdefault(_model(body) or DEFAULT, single)
    return found


def _store(
    store: Store,
    engine: Engine,
    old: _OldReview,
    review: Review,
    work_dir: str,
    model: str | None,
    found: Mapping[str, FoundSession | None],
) -> ImportedReview:
    """Stores the whole review in the caller's transaction."""
    now = engine.context.clock()
    models = [each for each in old.sessions if each != DEFAULT]
    own_model = old.model or (models[-1] if models else None)
    thread = store.threads.create(review_thread(review.thread_id, f"review-{old.id}", work_dir, AGENT, own_model, now))
    store.reviews.add_imported(review.replace(created_at=_created_at(old, now)), old.day, old.number)
    rounds: list[ReviewRound] = []
    for number, body in enumerate(old.rounds, start=1):
        round_ = ReviewRound(
            review_id=old.id,
            number=number,
            status=RoundStatus.DONE,
            agent=AGENT,
            model=body["model"] if isinstance(body.get("model"), str) else None,
            owner=engine.context.owner,
            reason="imported",
            answer=_answer(body, already=len(findings_of(rounds)), number=number),
            started_at=now,
            ended_at=now,
        )
        store.reviews.add_round(round_, diff="", files={})
        rounds.append(round_)
    adopted, warnings = _adopt(store, engine, thread, old, found)
    if not any(adopted.values()):
        if thread.model is None and model is not None:
            store.threads.update(thread.id, at=now, model=model)
        for body, round_ in zip(old.rounds, rounds, strict=True):
            _add_turns(store, engine, thread, body, round_)
    return ImportedReview(old.id, len(rounds), adopted, tuple(warnings))


def _created_at(old: _OldReview, now: float) -> float:
    """A time on the review's day, in the order of its number, so that an imported review is not listed as new."""
    try:
        return min(now, time.mktime(time.strptime(old.day, "%Y-%m-%d")) + min(old.number, 86_399))
    except (ValueError, OverflowError):
        return now


def _adopt(
    store: Store, engine: Engine, thread: Thread, old: _OldReview, found: Mapping[str, FoundSession | None]
) -> tuple[dict[str, bool], list[str]]:
    """Adopts the sessions, the oldest first: prompts of later sessions repeat the rounds of earlier ones."""
    adopted = dict.fromkeys(old.sessions, False)
    warnings = []
    for model in sorted(old.sessions, key=lambda model: each.changed_at if (each := found[model]) else 0.0):
        session = found[model]
        if session is None:
            warnings.append(f"The session of {model} has no file here: its next round starts a fresh session.")
            continue
        named = None if model == DEFAULT else model
        if named is None and found.get(session.view.model) is not None:
            warnings.append(f"claudeSessionId is ignored: claudeSessionIds has a session of {session.view.model}.")
            continue
        try:
            with store.savepoint():
                pin = adoption.adopt(store, thread, session, old.sessions[model], named, engine.context).pin
        except Conflict as error:
            warnings.append(error.message)
            continue
        adopted[model] = pin is not None
        if thread.model is None and pin is not None and pin.model:
            thread = store.threads.update(thread.id, at=engine.context.clock(), model=pin.model)
    return adopted, warnings


def _add_turns(store: Store, engine: Engine, thread: Thread, body: Mapping[str, Any], round_: ReviewRound) -> None:
    """Adds a round of the old file to the thread: a user turn, and the answer if the file has one."""
    asked = next((body[key] for key in ("request", "prompt", "changes") if body.get(key)), None)
    said = next((body[key] for key in ("review", "result", "response", "findings") if body.get(key)), None)
    is_unknown = asked is None and said is None
    for role, content in ((Role.USER, body if is_unknown else asked), (Role.ASSISTANT, said)):
        if content is None and role is Role.ASSISTANT:
            continue
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
        if role is Role.USER:
            quoted = fenced(text[:TEXT_MAX_CHARS], new_mark(engine.context))
            text = f"Round {round_.number} (kept by an older tool):\n{quoted}"
        turn = Turn(
            TurnId(engine.context.new_id()),
            role,
            text[: 2 * TEXT_MAX_CHARS],
            agent=AGENT,
            model=round_.model,
            created_at=round_.started_at,
        )
        store.turns.add(thread.id, turn)


def _answer(body: Mapping[str, Any], *, already: int, number: int) -> ReviewAnswer | None:
    """The summary and the findings that can be read."""
    said = _first(body, ("review", "result", "response"), dict, body)
    listed = _first(said, ("findings", "issues", "comments"), list, [])
    findings = [finding for each in listed if isinstance(each, dict) and (finding := _finding(each)) is not None]
    summary = _first(said, ("summary", "overall", "assessment"), str, "")
    if not findings and not summary:
        return None
    return ReviewAnswer(summary, numbered(findings, already, number))


def _first(body: Mapping[str, Any], keys: Sequence[str], type_: type[T], default: D) -> T | D:
    """The value of the first key that has one of that type. The old tool's versions used different keys."""
    return next((body[key] for key in keys if isinstance(body.get(key), type_)), default)


def _finding(body: Mapping[str, Any]) -> Finding | None:
    texts = {key: value.strip() for key, value in body.items() if isinstance(value, str) and value.strip()}
    title = next((texts[key] for key in ("title", "message", "issue", "description", "detail") if key in texts), None)
    if title is None:
        return None
    line = body.get("line")
    return Finding(
        id="",
        severity=_SEVERITIES.get(texts.get("severity", "").lower(), Severity.MEDIUM),
        file=texts.get("file") or texts.get("path"),
        line=line if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 2**31 else None,
        title=" ".join(title.split())[:300],
        detail=next((texts[key] for key in ("detail", "details", "description", "message") if key in texts), title),
        suggestion=texts.get("suggestion", ""),
    )
