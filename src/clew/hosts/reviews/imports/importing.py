"""Stores an old review with its sessions. A session is adopted by reading its file. Without a session file there is
nothing to resume, and the rounds in the old files become the thread's history.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.core.history import Role, Turn
from clew.core.ids import ThreadId, TurnId
from clew.core.prompts import fenced
from clew.core.record import Record
from clew.core.reviews.review import Review, ReviewAnswer, ReviewRound, RoundStatus, findings_of
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.sessions import adoption
from clew.engine.sessions.adoption import FoundSession
from clew.errors import Conflict, UsageError
from clew.git.changes import Repository
from clew.hosts.reviews.imports.fields import TEXT_MAX_CHARS
from clew.hosts.reviews.imports.files import Files, project_of, read_path
from clew.hosts.reviews.imports.rounds import OldRound, answers
from clew.hosts.reviews.imports.session import DEFAULT, OldReview, read_review
from clew.hosts.reviews.reviews import new_mark, review_thread
from clew.hosts.validation import existing_dir
from clew.store.store import Store

AGENT = "claude"  # the only agent of the old tools whose sessions can be resumed


class ImportedReview(Record):
    """The result of an import."""

    review_id: str
    rounds: int
    findings: int
    sessions: Mapping[str, bool]  # by model: whether its session was adopted
    warnings: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # what the files have besides


async def import_path(
    engine: Engine, path: Path, cwd: str | None = None, *, model: str | None = None
) -> ImportedReview:
    """Imports a file, or the folder of a session. `cwd` is where the old tool ran the agent; by default it is taken
    from the file, or is the project whose `.reviews` folder holds it, or the current directory. `model` is used if
    neither the file nor the sessions name one. Raises UsageError and Conflict."""
    old = read_review(read_path(path), str(path))
    work_dir = cwd or old.cwd or str(project_of(path) or ".")
    return await _import(engine, old, work_dir, str(path.absolute()), model)


async def import_files(engine: Engine, files: Files, cwd: str, *, model: str | None = None) -> ImportedReview:
    """Imports one file, or those of a session by their names in its folder (`round-1/review.json`)."""
    if not files:
        raise UsageError("There is no file to import.")
    name = next(iter(files)) if len(files) == 1 else "The session"
    return await _import(engine, read_review(files, name), cwd, next(iter(files)), model)


async def _import(engine: Engine, old: OldReview, cwd: str, origin: str, model: str | None) -> ImportedReview:
    work_dir = existing_dir(cwd)
    top = await Repository(work_dir, engine.context.environ).top()
    found = {model: await engine.find_session(AGENT, work_dir, session) for model, session in old.sessions.items()}
    review = Review(old.id, ThreadId(engine.context.new_id()), top, focus=old.focus, imported_from=origin)
    return await engine.store.atomically(lambda store: _store(store, engine, old, review, work_dir, model, found))


def _store(
    store: Store,
    engine: Engine,
    old: OldReview,
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
    rounds = [
        _round(engine, old, number, each, answer)
        for number, (each, answer) in enumerate(zip(old.rounds, answers(old.rounds), strict=True), start=1)
    ]
    for round_ in rounds:
        store.reviews.add_round(round_, diff=old.diff if round_.number == 1 else "", files={})
    adopted, warnings = _adopt(store, engine, thread, old, found)
    if not any(adopted.values()):
        if thread.model is None and model is not None:
            store.threads.update(thread.id, at=now, model=model)
        for each, round_ in zip(old.rounds, rounds, strict=True):
            _add_turns(store, engine, thread, each, round_)
    return ImportedReview(old.id, len(rounds), len(findings_of(rounds)), adopted, tuple(warnings), old.left_out)


def _round(engine: Engine, old: OldReview, number: int, round_: OldRound, answer: ReviewAnswer | None) -> ReviewRound:
    now = engine.context.clock()
    at = now if round_.at is None else max(0.0, min(now, round_.at))
    return ReviewRound(
        review_id=old.id,
        number=number,
        status=RoundStatus.DONE,
        agent=AGENT,
        model=None if round_.model == DEFAULT else round_.model,
        owner=engine.context.owner,
        message=old.message if number == 1 else "",
        reason="imported",
        answer=answer,
        started_at=at,
        ended_at=at,
    )


def _created_at(old: OldReview, now: float) -> float:
    """When it was created; else a time on its day, in the order of its number, so that it is not listed as new."""
    if old.created_at is not None:
        return max(0.0, min(now, old.created_at))
    try:
        return min(now, time.mktime(time.strptime(old.day, "%Y-%m-%d")) + min(old.number, 86_399))
    except (ValueError, OverflowError):
        return now


def _adopt(
    store: Store, engine: Engine, thread: Thread, old: OldReview, found: Mapping[str, FoundSession | None]
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


def _add_turns(store: Store, engine: Engine, thread: Thread, old: OldRound, round_: ReviewRound) -> None:
    """Adds a round to the thread: a user turn, and the answer if the file has one."""
    asked, said = old.asked or round_.message or None, old.said
    if said is None and round_.answer is not None:
        said = _in_our_form(round_.answer)
    if asked is None and said is None:
        asked = old.body
    for role, content in ((Role.USER, asked), (Role.ASSISTANT, said)):
        if content is None and role is Role.ASSISTANT:
            continue
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
        if role is Role.USER:
            text = f"Round {round_.number} (kept by an older tool):\n{_quoted(engine, content, text)}"
        turn = Turn(
            TurnId(engine.context.new_id()),
            role,
            text[: 2 * TEXT_MAX_CHARS],
            agent=AGENT,
            model=round_.model,
            created_at=round_.started_at,
        )
        store.turns.add(thread.id, turn)


def _quoted(engine: Engine, content: Any, text: str) -> str:
    return "It did not keep the prompt." if content is None else fenced(text[:TEXT_MAX_CHARS], new_mark(engine.context))


def _in_our_form(answer: ReviewAnswer) -> dict[str, Any]:
    """The answer as Clew asks for it, so that the next round continues in the same form."""
    finding_keys = ("severity", "file", "line", "title", "detail", "suggestion")
    return {
        "summary": answer.summary,
        "findings": [{key: each.as_dict()[key] for key in finding_keys} for each in answer.findings],
        "earlier": [each.as_dict() for each in answer.earlier],
    }
