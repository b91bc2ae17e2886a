"""Reviews of an older tool: a JSON file each, with the ids of the sessions that it resumed blindly.

    {"reviewId": "2025-07-01-003", "claudeSessionIds": {"opus": "…", "sonnet": "…"}, "rounds": [{…}, …]}

Older ones have a single `claudeSessionId`, the oldest none; some have both, and then a model's own one counts first. A
session is adopted by reading what its file holds; where there is no file there is nothing to resume, and the rounds as
the old file tells them become the thread's history.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.history import Role, Turn
from clew.core.ids import ThreadId, TurnId
from clew.core.record import Record
from clew.core.reviews import prompts as words
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
from clew.core.thread import Permissions, Thread, Trust, is_safe_argument
from clew.engine.engine import Engine
from clew.engine.sessions import adoption
from clew.engine.sessions.adoption import FoundSession
from clew.errors import Conflict, UsageError
from clew.git.changes import Repository
from clew.hosts.validation import existing_dir
from clew.store.store import Store

FILE_MAX_BYTES = 50_000_000
TEXT_MAX_CHARS = 200_000  # of a round, as a turn
AGENT = "claude"  # the only one that the old tool knew
KIND = "review"
DEFAULT = "default"  # instead of a model's name, in old files too

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
    """What came of a file."""

    review_id: str
    rounds: int
    sessions: Mapping[str, bool]  # by model: was it adopted?
    warnings: tuple[str, ...] = ()


class _Old(Record):
    """An old file, as far as it makes sense."""

    id: str
    day: str
    number: int
    model: str | None  # the review's own
    sessions: Mapping[str, str]  # by model; DEFAULT when none is named
    rounds: Sequence[Mapping[str, Any]]
    cwd: str | None


async def import_file(
    engine: Engine, path: Path, cwd: str | None = None, *, model: str | None = None
) -> ImportedReview:
    """`cwd` is where the old tool ran the agent (default: what the file says), `model` the one of a review whose file
    and sessions name none. Raises UsageError and Conflict."""
    old = read_file(path)
    work_dir = existing_dir(cwd or old.cwd or ".")
    top = await Repository(work_dir, engine.context.environ).top()
    found = {model: await engine.find_session(AGENT, work_dir, session) for model, session in old.sessions.items()}
    review = Review(old.id, ThreadId(engine.context.new_id()), top, imported_from=str(path.absolute()))
    return await engine.store.atomically(lambda store: _store(store, engine, old, review, work_dir, model, found))


def read_file(path: Path) -> _Old:
    try:
        if path.stat().st_size > FILE_MAX_BYTES:
            raise UsageError(f"{path} is too large for a review.")
        body = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a JSON file.", hint="An old review file is wanted.") from error
    matched = _ID.match(str(body.get("reviewId", ""))) if isinstance(body, dict) else None
    if matched is None:
        raise UsageError(f"{path} is no review: it has no reviewId like 2025-07-01-003.")
    rounds = body.get("rounds")
    return _Old(
        id=matched[0],
        day=matched[1],
        number=int(matched[2]),
        model=_model(body),
        sessions=_sessions(body),
        rounds=[each for each in rounds if isinstance(each, dict)] if isinstance(rounds, list) else [],
        cwd=next((body[key] for key in ("cwd", "workingDirectory") if isinstance(body.get(key), str)), None),
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
    old: _Old,
    review: Review,
    work_dir: str,
    model: str | None,
    found: Mapping[str, FoundSession | None],
) -> ImportedReview:
    """All of it in one transaction."""
    context = engine.context
    now = context.clock()
    models = [each for each in old.sessions if each != DEFAULT]
    thread = store.threads.create(
        Thread(
            id=review.thread_id,
            name=f"review-{old.id}",
            cwd=work_dir,
            agent=AGENT,
            model=old.model or (models[-1] if models else None),
            permissions=Permissions.READ_ONLY,
            trust=Trust.USER,
            standing=words.RUBRIC,
            kind=KIND,
            created_at=now,
            updated_at=now,
        )
    )
    store.reviews.add_imported(review.replace(created_at=_made_at(old, now)), old.day, old.number)
    rounds: list[ReviewRound] = []
    for number, body in enumerate(old.rounds, start=1):
        answer = _answer(body, already=len(findings_of(rounds)), number=number)
        round_ = ReviewRound(
            review_id=old.id,
            number=number,
            status=RoundStatus.DONE,
            agent=AGENT,
            model=body["model"] if isinstance(body.get("model"), str) else None,
            owner=context.owner,
            reason="imported",
            answer=answer,
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
            _tell(store, engine, thread, body, round_)
    return ImportedReview(old.id, len(rounds), adopted, tuple(warnings))


def _made_at(old: _Old, now: float) -> float:
    """On its day, in its order: an old one is not the newest because it was imported."""
    try:
        return min(now, time.mktime(time.strptime(old.day, "%Y-%m-%d")) + min(old.number, 86_399))
    except (ValueError, OverflowError):
        return now


def _adopt(
    store: Store, engine: Engine, thread: Thread, old: _Old, found: Mapping[str, FoundSession | None]
) -> tuple[dict[str, bool], list[str]]:
    """The oldest session first: a later one was told of the earlier rounds by the old tool, in its own prompt."""
    adopted = dict.fromkeys(old.sessions, False)
    warnings = []
    for model in sorted(old.sessions, key=lambda model: each.changed_at if (each := found[model]) else 0.0):
        session = found[model]
        if session is None:
            warnings.append(f"The session of {model} has no file here: its next round starts afresh.")
            continue
        named = None if model == DEFAULT else model
        if named is None and found.get(session.view.model) is not None:
            warnings.append(f"The single session is left: {session.view.model} has one by its name.")
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


def _tell(store: Store, engine: Engine, thread: Thread, body: Mapping[str, Any], round_: ReviewRound) -> None:
    """A round as the old file has it, as turns."""
    asked = next((body[key] for key in ("request", "prompt", "changes") if body.get(key)), None)
    said = next((body[key] for key in ("review", "result", "response", "findings") if body.get(key)), None)
    rest = body if asked is None and said is None else None
    for role, content in ((Role.USER, asked if rest is None else rest), (Role.ASSISTANT, said)):
        if content is None and role is Role.ASSISTANT:
            continue
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
        if role is Role.USER:
            mark = engine.context.new_id()[:16]
            text = f"Round {round_.number} (kept by an older tool):\n{words.fenced(text[:TEXT_MAX_CHARS], mark)}"
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
    """The findings, as far as they can be read."""
    said = next((body[key] for key in ("review", "result", "response") if isinstance(body.get(key), dict)), body)
    listed: list[Any] = next(
        (said[key] for key in ("findings", "issues", "comments") if isinstance(said.get(key), list)), []
    )
    findings = [finding for each in listed if isinstance(each, dict) and (finding := _finding(each)) is not None]
    summary = next((said[key] for key in ("summary", "overall", "assessment") if isinstance(said.get(key), str)), "")
    if not findings and not summary:
        return None
    return ReviewAnswer(summary, numbered(findings, already, number))


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
