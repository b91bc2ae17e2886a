"""Threads that leave: all of one, in a file that another machine can go on from.

What belongs together leaves together: the two threads of a pair are one file. A session's own file goes along when it
bears its pin out, so that the other machine really resumes; where it does not, the history alone is enough for a fresh
session. Nothing of this machine is in it: no directory, no program, no process, and no value of the environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clew.agents.adapter import Adapter
from clew.core.decision import candidate
from clew.core.history import Turn, visible
from clew.core.pins import Pin, PinState, stands
from clew.core.record import Record
from clew.core.redaction import redact, secret_values
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.placing import bears_out
from clew.engine.sessions import file_of
from clew.errors import Busy, UsageError
from clew.hosts.portable_file import HISTORY, STATE, as_json, pack, session_part
from clew.hosts.portable_rows import HISTORY as HISTORY_TABLES
from clew.hosts.portable_rows import STATE as STATE_TABLES
from clew.hosts.portable_rows import Tables, outward
from clew.store.store import Store


class Left(Record):
    """A session that a turn could have resumed, and whether it goes along."""

    agent: str
    model: str
    session_id: str
    taken: bool
    why: str = ""  # not


class Exported(Record):
    """A thread as a file's content."""

    name: str
    threads: tuple[str, ...]  # the names of all that are in it
    turns: int  # that stand, of all of them
    sessions: tuple[Left, ...]
    content: bytes
    redacted: int | None = None  # how many secrets were blanked; None: not asked for


class _Gathered(Record):
    """One moment's state of what belongs together."""

    threads: tuple[Thread, ...]
    dumps: tuple[Mapping[str, Any], ...]
    turns: int
    sessions: tuple[Left, ...]
    files: Mapping[str, bytes]  # by the name of their part


async def export_thread(
    engine: Engine, name: str, environ: Mapping[str, str], *, redacted: bool = False, with_secrets: bool = False
) -> Exported:
    """Raises NotFound, Busy while a run is going on, and UsageError when a secret of the environment is in it."""
    found = await engine.database.atomically(lambda store: _gather(store, engine, name, with_files=not redacted))
    secrets = secret_values(environ.items())
    tables, count = outward(found.dumps), None
    if redacted:
        tables, count = _redacted(tables, tuple(secrets.values()))
    _retire_others(tables, found.files)
    parts = {HISTORY: as_json({table: tables[table] for table in HISTORY_TABLES}), **found.files}
    if not redacted:
        parts[STATE] = as_json({table: tables[table] for table in STATE_TABLES})
    if not with_secrets:
        _refuse_secrets(parts, secrets)
    first = found.threads[0]
    about = {
        "schema": found.dumps[0]["schema"],
        "redacted": redacted,
        "thread": {"name": first.name, "kind": first.kind, "agent": first.agent, "turns": found.turns},
    }
    names = tuple(thread.name for thread in found.threads)
    sessions = () if redacted else found.sessions
    return Exported(first.name, names, found.turns, sessions, pack(about, parts), count)


def _gather(store: Store, engine: Engine, name: str, *, with_files: bool) -> _Gathered:
    """In a transaction, so that no run can begin meanwhile: a run stores its prompt before it starts an agent."""
    first = store.require_thread(name)
    dumps = [store.dump_thread(first.id)]
    threads = [first, *_partners(store, first, dumps[0])]
    dumps += [store.dump_thread(thread.id) for thread in threads[1:]]
    turns, sessions, files = 0, list[Left](), dict[str, bytes]()
    for thread in threads:
        if engine.is_held(store, thread.id):
            raise Busy(f"A run is going on in {thread.name}.", hint="Wait for it, or stop it with clew runs cancel.")
        history = store.history(thread.id)
        turns += len(history)
        for pin in _in_use(store.pins(thread.id, retired=False)) if with_files else ():
            part = session_part(pin.agent, pin.session_id)
            content, why = _session(engine, pin, thread, history) if part else (None, "its id is no file's name")
            sessions.append(Left(pin.agent, pin.model, pin.session_id, content is not None, why))
            if part is not None and content is not None:
                files[part] = content
    return _Gathered(tuple(threads), tuple(dumps), turns, tuple(sessions), files)


def _partners(store: Store, thread: Thread, dump: Mapping[str, Any]) -> list[Thread]:
    """The other thread of a pair."""
    ids = [row[role] for row in dump.get("pairs", ()) for role in ("instructor_thread_id", "worker_thread_id")]
    return [store.require_thread(each) for each in dict.fromkeys(ids) if each != thread.id]


def _in_use(pins: Sequence[Pin]) -> Iterator[Pin]:
    """The newest of each agent and model: the one that a turn would resume."""
    for agent, model in dict.fromkeys((pin.agent, pin.model) for pin in pins):
        pin = candidate(pins, agent, model)
        if pin is not None and pin.state is not PinState.POISONED:
            yield pin


def _session(engine: Engine, pin: Pin, thread: Thread, history: tuple[Turn, ...]) -> tuple[bytes | None, str]:
    """Its file, or why not. Reads the disk."""
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
        content, view = path.read_bytes(), adapter.read_session(path)
    except OSError as error:
        return None, f"its file cannot be read: {error.strerror}"
    if len(content) != view.size_bytes or not bears_out(view, pin, history):
        return None, "it went on without Clew, or does not hold what the thread says"
    return content, ""


def _retire_others(tables: Tables, files: Mapping[str, bytes]) -> None:
    """A pin whose session stays behind is of no use elsewhere."""
    for pin in tables.get("pins", ()):
        part = session_part(pin["agent"], pin["session_id"])
        if part not in files and pin["state"] in (PinState.GOOD, PinState.PROVISIONAL):
            pin["state"] = PinState.RETIRED.value


def _redacted(tables: Tables, values: Sequence[str]) -> tuple[Tables, int]:
    """The history alone, its secrets blanked."""
    count = 0
    kept: Tables = {table: [dict(row) for row in tables[table]] for table in HISTORY_TABLES}
    for rows, column in ((kept["turns"], "text"), (kept["turn_revisions"], "text"), (kept["threads"], "standing")):
        for row in rows:
            if row[column] is not None:
                row[column], found = redact(row[column], values)
                count += found
    for turn in kept["turns"]:
        turn["run_id"], turn["message_id"] = None, None
    return kept, count


def _refuse_secrets(parts: Mapping[str, bytes], secrets: Mapping[str, str]) -> None:
    """A value of the environment does not leave the machine unnoticed, whoever wrote it into the conversation."""
    for name, value in secrets.items():
        spellings = {value.encode("utf-8", "surrogateescape"), as_json(value).strip().strip(b'"')}
        where = [part for part, content in parts.items() if any(spelling in content for spelling in spellings)]
        if where:
            raise UsageError(
                f"The thread holds the value of {name} ({', '.join(sorted(where))}).",
                hint="--redact exports the history with secrets blanked; --with-secrets exports it as it is.",
            )
