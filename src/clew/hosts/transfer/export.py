"""Threads that leave: all of one, in a file that another machine can go on from.

What belongs together leaves together: the two threads of a pair are one file. A session's own file goes along when it
bears its pin out, so that the other machine really resumes; where it does not, the history alone is enough for a fresh
session. Nothing of this machine is in it: no directory, no program, no process, and no value of the environment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.agents.adapter import Adapter
from clew.core.decision import candidate
from clew.core.explained import Known
from clew.core.history import Turn, visible
from clew.core.pins import Pin, PinState, stands
from clew.core.record import Record, replace
from clew.core.redaction import gives_away, redact, secret_values
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.placing import ends_with, portable
from clew.engine.sessions import file_of
from clew.errors import Busy, UsageError
from clew.hosts.outgoing import Secret, look_through, refuse, session_name
from clew.hosts.portable_file import HISTORY, STATE, as_json, pack, session_part
from clew.hosts.portable_rows import HISTORY as HISTORY_TABLES
from clew.hosts.portable_rows import STATE as STATE_TABLES
from clew.hosts.portable_rows import Tables, outward
from clew.store.review_rows import shown_in
from clew.store.store import Store

LEANS = "it is a copy, and its beginning stands in another session's file"
WENT_ON = "it went on without Clew, or does not hold just what the thread shows"
NOT_BLANKED = "a session that was changed cannot be resumed, so only the history is in a redacted file"
EXPORT_HINT = "--redact exports the history with secrets blanked; --with-secrets exports it as it is."


class Left(Record):
    """A session that a turn could have resumed, and whether it goes along."""

    agent: str
    model: str
    session_id: str
    taken: bool
    why: str = ""  # not


class Exported(Record):
    """A thread as a file's content."""

    name: str  # in the file; the pair's own, if it was asked for by that
    threads: tuple[str, ...]  # the names of all that are in it
    turns: int  # that stand, of all of them
    sessions: tuple[Left, ...]
    content: bytes
    redacted: int | None = None  # how many secrets were blanked; None: not asked for
    secrets: tuple[Secret, ...] = ()  # that were blanked, or are in it


class Member(Record):
    """A thread of those that leave together, and what its sessions are held against."""

    thread: Thread
    history: tuple[Turn, ...]
    pins: tuple[Pin, ...]
    known: Known


class Gathered(Record):
    """One moment's state of what belongs together."""

    members: tuple[Member, ...]
    dumps: tuple[Mapping[str, Any], ...]
    sessions: tuple[Left, ...]
    files: Mapping[str, bytes]  # by the name of their part

    @property
    def threads(self) -> tuple[Thread, ...]:
        return tuple(member.thread for member in self.members)

    @property
    def name(self) -> str:
        """The thread's; of a pair, the pair's own."""
        return str(next((row["name"] for row in self.dumps[0].get("pairs", ())), self.threads[0].name))

    @property
    def turns(self) -> int:
        return sum(len(member.history) for member in self.members)


async def export_thread(
    engine: Engine, name: str, environ: Mapping[str, str], *, redacted: bool = False, with_secrets: bool = False
) -> Exported:
    """Raises NotFound, Busy while a run is going on, and SecretFound."""
    found = await gather(engine, name, with_files=not redacted)
    tables, count = outward(found.dumps), None
    if redacted:
        tables = {table: tables[table] for table in HISTORY_TABLES}
    besides = {} if redacted else {session_name(part): raw for part, raw in found.files.items()} | reviewed(found.dumps)
    secrets = await asyncio.to_thread(look_through, tables, besides, environ, doubtful=redacted)
    if redacted:
        tables, count = _redacted(tables, tuple(secret_values(environ.items(), os.path.lexists)))
    elif not with_secrets:
        refuse(found.name, secrets, EXPORT_HINT)
    retire_others(tables, found.files)
    parts = {HISTORY: as_json({table: tables[table] for table in HISTORY_TABLES}), **found.files}
    if not redacted:
        parts[STATE] = as_json({table: tables[table] for table in STATE_TABLES})
    first = found.threads[0]
    names = {row["id"]: row["name"] for row in tables["threads"]}
    about = {
        "schema": found.dumps[0]["schema"],
        "redacted": redacted,
        "thread": {"name": names[first.id], "kind": first.kind, "agent": first.agent, "turns": found.turns},
    }
    sessions = _left_behind(found.members) if redacted else found.sessions
    content = pack(about, parts)
    called = name if name == found.name and not redacted else names[first.id]
    return Exported(called, tuple(names.values()), found.turns, sessions, content, count, secrets)


async def gather(engine: Engine, name: str, *, with_files: bool = True) -> Gathered:
    """Everything as it was at one moment. Raises NotFound, and Busy while a run is going on.

    Nobody is kept waiting meanwhile: the files may be large. What they are held against must then still be so: a run
    stores what it changes of a pin before it starts an agent.
    """

    def read(rows: Gathered) -> list[tuple[Left, bytes | None]]:
        return _sessions(engine, rows.members) if with_files else []

    def settle(rows: Gathered, found: list[tuple[Left, bytes | None]], store: Store) -> Gathered | None:
        if found and not _still(store, engine, rows.members):
            return None
        files = {part: content for left, content in found if (part := _part(left)) and content is not None}
        return replace(rows, sessions=tuple(left for left, _ in found), files=files)

    gathered = await engine.database.at_leisure(lambda store: gather_rows(store, engine, name), read, settle)
    if gathered is None:
        raise Busy(f"{name} changes all the time.", hint="Try again when nothing is going on in it.")
    return gathered


def gather_rows(store: Store, engine: Engine, name: str) -> Gathered:
    """The rows alone. Raises NotFound, and Busy while a run is going on."""
    with store.reading():
        threads = store.together(name)
        dumps = [store.dump_thread(thread.id) for thread in threads]
        for thread in threads:
            if engine.is_held(store, thread.id):
                raise Busy(
                    f"A run is going on in {thread.name}.", hint="Wait for it, or stop it with clew runs cancel."
                )
        members = [_member(store, thread) for thread in threads]
    return Gathered(tuple(members), tuple(dumps), (), {})


def _member(store: Store, thread: Thread) -> Member:
    history = store.history(thread.id)
    return Member(thread, history, _pins(store, thread), known_of(thread, history))


def _pins(store: Store, thread: Thread) -> tuple[Pin, ...]:
    return tuple(store.pins(thread.id, retired=False))


def _still(store: Store, engine: Engine, members: Sequence[Member]) -> bool:
    """No session has been used since."""
    with store.reading():
        return all(
            not engine.is_held(store, member.thread.id) and _pins(store, member.thread) == member.pins
            for member in members
        )


def _sessions(engine: Engine, members: Sequence[Member]) -> list[tuple[Left, bytes | None]]:
    """Those that a turn would resume, and their files. Reads the disk."""
    found = []
    for member in members:
        for pin in _in_use(member.pins):
            left = Left(pin.agent, pin.model, pin.session_id, taken=True)
            content, why = _session(engine, pin, member) if _part(left) else (None, "its id is no file's name")
            found.append((replace(left, taken=content is not None, why=why), content))
    return found


def _left_behind(members: Sequence[Member]) -> tuple[Left, ...]:
    pins = [pin for member in members for pin in _in_use(member.pins)]
    return tuple(Left(pin.agent, pin.model, pin.session_id, taken=False, why=NOT_BLANKED) for pin in pins)


def _part(left: Left) -> str | None:
    return session_part(left.agent, left.session_id)


def _in_use(pins: Sequence[Pin]) -> Iterator[Pin]:
    """The newest of each agent and model: the one that a turn would resume."""
    for agent, model in dict.fromkeys((pin.agent, pin.model) for pin in pins):
        pin = candidate(pins, agent, model)
        if pin is not None and pin.state is not PinState.POISONED:
            yield pin


def _session(engine: Engine, pin: Pin, member: Member) -> tuple[bytes | None, str]:
    """Its file, or why not."""
    thread, history = member.thread, member.history
    if not stands(pin, visible(history, pin.agent, thread.visibility)):
        return None, "the thread has changed since the session saw it"
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
        return None, LEANS
    if not ends_with(view, pin):
        return None, "it is the session of the old thread, and does not end where this fork does"
    if len(content) != view.size_bytes:
        return None, WENT_ON
    found = portable(adapter, content, pin, member.known)
    return found, "" if found is not None else WENT_ON


def known_of(thread: Thread, standing: Sequence[Turn]) -> Known:
    """What the thread shows, for a session to be held against: archived turns are not shown."""
    return Known({str(turn.id): turn for turn in standing}, thread.standing)


def retire_others(tables: Tables, files: Mapping[str, bytes]) -> None:
    """A pin whose session stays behind is of no use elsewhere."""
    for pin in tables.get("pins", ()):
        part = session_part(pin["agent"], pin["session_id"])
        if part not in files and pin["state"] in (PinState.GOOD, PinState.PROVISIONAL):
            pin["state"] = PinState.RETIRED.value


def _redacted(tables: Tables, values: Sequence[str]) -> tuple[Tables, int]:
    """The history alone, its secrets blanked. A name is made from the first words, so a secret may be in it, too."""
    blanked: list[str] = []
    kept: Tables = {table: [dict(row) for row in rows] for table, rows in tables.items()}
    for rows, column in ((kept["turns"], "text"), (kept["turn_revisions"], "text"), (kept["threads"], "standing")):
        for row in rows:
            if row[column] is not None:
                row[column], _ = redact(row[column], values, blanked)
    for turn in kept["turns"]:
        turn["run_id"], turn["message_id"] = None, None
    for number, thread in enumerate(kept["threads"], 1):
        thread["origin"] = None  # names other threads
        if gives_away(thread["name"], (*blanked, *values)):
            thread["name"] = "redacted" if number == 1 else f"redacted-{number}"
    return kept, len(blanked)


def reviewed(dumps: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """What reviewers were shown, as a part to look for secrets in: in the rows it is packed, and tells nothing."""
    rows = [row for dump in dumps for row in dump.get("review_rounds", ())]
    return {"reviews": b"\n".join(piece for row in rows for piece in shown_in(row))} if rows else {}
