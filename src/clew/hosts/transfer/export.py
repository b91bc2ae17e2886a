"""Exports a whole thread to a file, from which another machine can continue it.

The two threads of a pair are exported to one file. A session's file is included, in its portable form,
if its content confirms the pin: then the other machine can resume the session. If not, the history is enough for a
fresh session. Clew adds nothing about this machine: no directory, no program, no process, no environment variable.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.agents.adapter import Adapter
from clew.core.decision import candidate
from clew.core.history import Turn, visible
from clew.core.pins import Pin, PinState, is_valid
from clew.core.record import Record, replace
from clew.core.secrets.redaction import gives_away, redact, secret_values
from clew.core.session_check import ShownThread
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.sessions.observation import file_of
from clew.engine.sessions.transfer import ends_with
from clew.engine.sessions.transfer import portable as portable_session
from clew.errors import Busy, UsageError
from clew.hosts.transfer.archive_file import NO_IMAGES
from clew.hosts.transfer.export_file import pack, parts_of, session_part
from clew.hosts.transfer.images import named_images, to_parts
from clew.hosts.transfer.secret_scan import LocatedSecret, refuse_secrets, scan, session_name
from clew.hosts.validation import check_idle
from clew.store.rows.reviews import shown_in
from clew.store.store import Store
from clew.store.transfer.codec import HISTORY_TABLES, Tables, merged, portable

INCOMPLETE = "it is a copy, and its beginning is in another session's file"
DIFFERENT = "it was continued without Clew, or does not hold exactly what the thread shows"
IMAGES = "its thread has images, which cannot be compared"
REDACTED = "a session that was changed cannot be resumed, so a redacted file has the history only"
EXPORT_HINT = "--redact exports the history with secrets blanked; --with-secrets exports it as it is."


class ExportedSession(Record):
    """A session that a turn could have resumed, and whether its file is included."""

    agent: str
    model: str
    session_id: str
    included: bool
    why: str = ""  # why it is not included


class ExportedThread(Record):
    """A thread as a file's content."""

    name: str  # the thread's name in the file, or the pair's if that was asked for
    threads: tuple[str, ...]  # the names of all threads in it
    turns: int  # of all of them, without archived ones
    sessions: tuple[ExportedSession, ...]
    content: bytes
    redacted: int | None = None  # how many secrets were blanked; None: it is not redacted
    secrets: tuple[LocatedSecret, ...] = ()  # those that were blanked, or that the content still has


class GroupMember(Record):
    """A thread of a group, and what its sessions are compared with."""

    thread: Thread
    history: tuple[Turn, ...]
    pins: tuple[Pin, ...]
    shown: ShownThread


class ThreadGroup(Record):
    """A thread, or the two of a pair, as they were at one moment."""

    members: tuple[GroupMember, ...]
    dumps: tuple[Mapping[str, Any], ...]
    sessions: tuple[ExportedSession, ...]
    files: Mapping[str, bytes]  # the session files, by the name of their part in an export
    images: Mapping[str, bytes] = NO_IMAGES  # the files of the prompts' images, by digest

    @property
    def threads(self) -> tuple[Thread, ...]:
        return tuple(member.thread for member in self.members)

    @property
    def name(self) -> str:
        """The name of the thread, or of the pair."""
        return str(next((row["name"] for row in self.dumps[0].get("pairs", ())), self.threads[0].name))

    @property
    def turns(self) -> int:
        return sum(len(member.history) for member in self.members)


async def export_thread(
    engine: Engine, name: str, environ: Mapping[str, str], *, redacted: bool = False, with_secrets: bool = False
) -> ExportedThread:
    """Exports the thread, or both threads of a pair. Raises NotFound, Busy during a run, and SecretFound."""
    group = await gather(engine, name, with_files=not redacted)
    return await asyncio.to_thread(_packed, group, name, environ, redacted=redacted, with_secrets=with_secrets)


def _packed(
    group: ThreadGroup, name: str, environ: Mapping[str, str], *, redacted: bool, with_secrets: bool
) -> ExportedThread:
    """The content of the file. Takes long for a large thread, so it must not run on the event loop."""
    tables, count = portable(group.dumps), None
    if redacted:
        tables = {table: tables[table] for table in HISTORY_TABLES}
    others = {session_name(part): raw for part, raw in group.files.items()} | reviewed_texts(group.dumps)
    secrets = scan(tables, {} if redacted else others, environ, doubtful=redacted)
    if redacted:
        tables, count = _redacted(tables, tuple(secret_values(environ.items(), os.path.lexists)))
    elif not with_secrets:
        refuse_secrets(group.name, secrets, EXPORT_HINT)
    retire_pins_without_file(tables, group.files)
    parts = {**parts_of(tables), **group.files, **({} if redacted else to_parts(group.images))}
    first = group.threads[0]
    names = {row["id"]: row["name"] for row in tables["threads"]}
    about = {
        "schema": group.dumps[0]["schema"],
        "redacted": redacted,
        "thread": {"name": names[first.id], "kind": first.kind, "agent": first.agent, "turns": group.turns},
    }
    sessions = _not_included(group.members) if redacted else group.sessions
    content = pack(about, parts)
    called = name if name == group.name and not redacted else names[first.id]
    return ExportedThread(called, tuple(names.values()), group.turns, sessions, content, count, secrets)


async def gather(engine: Engine, name: str, *, with_files: bool = True) -> ThreadGroup:
    """Reads everything as it is at one moment. Raises NotFound, and Busy during a run.

    Session files may be large, so they are read outside of a transaction. They are used only if the pins are the same
    afterwards: a run changes its pin in the store before it starts an agent.
    """

    def read(rows: ThreadGroup) -> list[tuple[ExportedSession, bytes | None]]:
        return _sessions(engine, rows.members) if with_files else []

    def confirm(
        rows: ThreadGroup, found: list[tuple[ExportedSession, bytes | None]], store: Store
    ) -> ThreadGroup | None:
        if found and not _is_unchanged(store, engine, rows.members):
            return None
        files = {part: content for session, content in found if (part := _part(session)) and content is not None}
        return replace(rows, sessions=tuple(session for session, _ in found), files=files)

    gathered = await engine.store.optimistic_read(lambda store: gather_rows(store, engine, name), read, confirm)
    if gathered is None:
        raise Busy(f"{name} keeps changing.", hint="Try again when nothing runs in it.")
    images = await asyncio.to_thread(engine.images.read_all, named_images(merged(gathered.dumps))) if with_files else {}
    return replace(gathered, images=images)


def gather_rows(store: Store, engine: Engine, name: str) -> ThreadGroup:
    """Reads only the rows. Raises NotFound, and Busy during a run."""
    with store.reading():
        threads = store.threads.together(name)
        dumps = [store.threads.dump(thread.id) for thread in threads]
        for thread in threads:
            check_idle(store, engine, thread)
        members = [_member(store, thread) for thread in threads]
    return ThreadGroup(tuple(members), tuple(dumps), (), {})


def _member(store: Store, thread: Thread) -> GroupMember:
    history = store.turns.history(thread.id)
    return GroupMember(thread, history, _pins(store, thread), shown_by(thread, history))


def _pins(store: Store, thread: Thread) -> tuple[Pin, ...]:
    return tuple(store.pins.of_thread(thread.id, retired=False))


def _is_unchanged(store: Store, engine: Engine, members: Sequence[GroupMember]) -> bool:
    """Whether no session has been used since the rows were read."""
    with store.reading():
        return all(
            not engine.is_held(store, member.thread.id) and _pins(store, member.thread) == member.pins
            for member in members
        )


def _sessions(engine: Engine, members: Sequence[GroupMember]) -> list[tuple[ExportedSession, bytes | None]]:
    """The sessions that a turn would resume, and their files. Reads the disk."""
    found = []
    for member in members:
        for pin in _in_use(member.pins):
            session = ExportedSession(pin.agent, pin.model, pin.session_id, included=True)
            content, why = _session(engine, pin, member) if _part(session) else (None, "its id cannot name a file")
            found.append((replace(session, included=content is not None, why=why), content))
    return found


def _not_included(members: Sequence[GroupMember]) -> tuple[ExportedSession, ...]:
    pins = [pin for member in members for pin in _in_use(member.pins)]
    return tuple(ExportedSession(pin.agent, pin.model, pin.session_id, included=False, why=REDACTED) for pin in pins)


def _part(session: ExportedSession) -> str | None:
    return session_part(session.agent, session.session_id)


def _in_use(pins: Sequence[Pin]) -> Iterator[Pin]:
    """The pins that a turn would resume: the newest of each agent and model."""
    for agent, model in dict.fromkeys((pin.agent, pin.model) for pin in pins):
        pin = candidate(pins, agent, model)
        if pin is not None and pin.state is not PinState.POISONED:
            yield pin


def _session(engine: Engine, pin: Pin, member: GroupMember) -> tuple[bytes | None, str]:
    """The content of the session's file, or why it is not included."""
    thread, history = member.thread, member.history
    if not is_valid(pin, visible(history, pin.agent, thread.visibility)):
        return None, "the thread has changed since the session saw it"
    held = {each.turn_id for each in (*pin.absorbed, *(pin.pending.shown if pin.pending is not None else ()))}
    if any(turn.images for turn in history if turn.id in held):
        return None, IMAGES
    try:
        adapter: Adapter = engine.adapter(pin.agent)
    except UsageError:
        return None, f"there is no agent {pin.agent} here"
    path = file_of(adapter, pin)
    if path is None:
        return None, "its file is gone"
    try:
        view = adapter.read_session(path)
        content = path.read_bytes()
    except OSError as error:
        return None, f"its file cannot be read: {error.strerror}"
    if not view.is_whole:
        return None, INCOMPLETE
    if not ends_with(view, pin):
        return None, "it is the session of the forked thread, and does not end where the fork does"
    if len(content) != view.size_bytes:
        return None, DIFFERENT
    found = portable_session(adapter, content, pin, member.shown)
    return found, "" if found is not None else DIFFERENT


def shown_by(thread: Thread, history: Sequence[Turn]) -> ShownThread:
    """What the thread shows, to compare a session with. Archived turns are not shown."""
    return ShownThread({str(turn.id): turn for turn in history}, thread.standing)


def retire_pins_without_file(tables: Tables, files: Mapping[str, bytes]) -> None:
    """Retires pins whose session file is not included: another machine cannot use them."""
    for pin in tables.get("pins", ()):
        part = session_part(pin["agent"], pin["session_id"])
        if part not in files and pin["state"] in (PinState.GOOD, PinState.PROVISIONAL):
            pin["state"] = PinState.RETIRED.value


def _redacted(tables: Tables, values: Sequence[str]) -> tuple[Tables, int]:
    """Only the history, with secrets blanked. A name is made from the first prompt, so it may contain a secret, too."""
    blanked: list[str] = []
    kept: Tables = {table: [dict(row) for row in rows] for table, rows in tables.items()}
    for rows, column in ((kept["turns"], "text"), (kept["turn_revisions"], "text"), (kept["threads"], "standing")):
        for row in rows:
            if row[column] is not None:
                row[column], _ = redact(row[column], values, blanked)
    for turn in kept["turns"]:
        turn["run_id"], turn["message_id"] = None, None
        turn["images"] = None  # they cannot be searched for secrets
    for number, thread in enumerate(kept["threads"], 1):
        thread["origin"] = None  # it names other threads
        if gives_away(thread["name"], (*blanked, *values)):
            thread["name"] = "redacted" if number == 1 else f"redacted-{number}"
    return kept, len(blanked)


def reviewed_texts(dumps: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """What reviewers were shown, uncompressed, so that it can be scanned for secrets."""
    rows = [row for dump in dumps for row in dump.get("review_rounds", ())]
    return {"reviews": b"\n".join(text for row in rows for text in shown_in(row))} if rows else {}
