"""Threads that arrive: out of a file, into this store, with their sessions where the agents here will look.

Rules
1. Nothing of the file is believed. Its rows are checked, its sessions are read and held against them, permissions come
   in no wider than the one who imports them would give.
2. A pin is bound to this directory and this machine's runtime only when its session's file is in place and bears it
   out. Every other one is retired: the next turn then starts fresh, with the history that came along.
3. All of it happens, or nothing: rows are one transaction, and session files that were written for one that fails are
   taken back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from clew.core.explained import Known
from clew.core.history import Turn
from clew.core.pair import Part
from clew.core.pins import Mark, Pin, PinState, Runtime
from clew.core.record import Record, replace
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.changes import Repository
from clew.engine.engine import Engine
from clew.engine.placing import UNEXPLAINED, Arriving, Placed, Where, look, mark_in, place, portable, take_back
from clew.engine.plan import runtime_of
from clew.errors import AgentError, Conflict, StoreError, UsageError
from clew.hosts.checks import check_name, existing_dir
from clew.hosts.portable import known_of
from clew.hosts.portable_file import HISTORY, STATE, Unpacked, from_json, session_part
from clew.hosts.portable_rows import Home, Tables, as_here, inward, renewed
from clew.store import foreign, sql
from clew.store.pairs import NAME_CHARS
from clew.store.records import each, thread_from, turn_from
from clew.store.restoring import TABLES, Taken, pins_of, restore
from clew.store.store import Store

T = TypeVar("T")

THREADS_MOST = 2  # a pair's


class Arrived(Record):
    """A session of the thread, and whether the next turn can resume it here."""

    agent: str
    model: str
    session_id: str
    resumable: bool
    why: str = ""  # not
    path: Path | None = None
    part: Part | None = None  # of a pair


class Imported(Record):
    """What came of a file."""

    threads: tuple[Thread, ...]
    turns: int  # that stand
    sessions: tuple[Arrived, ...]
    renewed: bool  # its ids were taken: it is a copy under new ones
    pair: str | None = None  # the pair's name here
    notes: tuple[str, ...] = ()


class _Luggage(Record):
    """A session file that was read and believed."""

    runtime: Runtime
    content: bytes


class _Bound(Record):
    """What a pin is bound to here."""

    runtime: Runtime
    mark: Mark | None


class _DryRun(Exception):
    """Undoes the transaction."""


async def import_thread(
    engine: Engine,
    file: Unpacked,
    *,
    cwd: str,
    name: str | None = None,
    permissions: Permissions = Permissions.ASK,
    trust: Trust = Trust.USER,
    dry_run: bool = False,
    instead: Callable[[Store], Tables] | None = None,
    then: Callable[[Store, Imported], None] | None = None,
) -> Imported:
    """`permissions` and `trust` are the widest that it may bring. Raises UsageError, and Conflict for a taken name.

    `instead` takes away what it replaces, and gives its rows as they were. `then` follows. Both are part of the
    transaction.
    """
    if name is not None:
        check_name(name)
    came = _tables(file)
    work_dir = existing_dir(cwd)
    home = Home(work_dir, await _top(engine, work_dir), engine.around.owner, permissions, trust, engine.around.clock())
    tables = inward(came, home)
    if name is not None:
        _rename(tables, name)
    luggage, refused = await _unpack_sessions(engine, tables, file)
    placed: list[Placed] = []
    made: list[Imported] = []

    def work(store: Store) -> None:
        taken = store.pair if tables.get("pairs") else store.thread
        if name is not None and taken(name) is not None:
            what = "pair" if tables.get("pairs") else "thread"
            raise Conflict(f"There is a {what} named {name} already.", hint="Choose another name.")
        at_home = tables if instead is None else as_here(tables, instead(store))
        stored = _store(store, engine, at_home, luggage, refused, placed, dry_run=dry_run, may_grow=instead is not None)
        made.append(stored)
        if then is not None:
            then(store, stored)
        if dry_run:
            raise _DryRun

    try:
        await engine.database.atomically(work)
    except _DryRun:
        pass
    except BaseException:
        take_back(placed)
        raise
    return replace(made[-1], notes=_notes(came, tables, made[-1].pair))


def _tables(file: Unpacked) -> Tables:
    schema = file.manifest.get("schema")
    if type(schema) is not int or schema < 1:
        raise UsageError("The file's manifest names no schema.", hint="Export the thread again.")
    if schema > len(sql.migrations()):
        raise UsageError("The file is of a newer Clew.", hint="Update Clew.")
    tables = from_json(file.parts[HISTORY])
    state = from_json(file.parts[STATE]) if STATE in file.parts else {}
    if not isinstance(tables, dict) or not isinstance(state, dict):
        raise UsageError("The file holds what this Clew does not know.", hint="Update Clew.")
    state.pop("pair_files", None)  # of an older Clew: it holds in one directory of one machine alone
    if state.keys() & tables.keys():
        raise UsageError("The file tells its history twice.", hint="Export the thread again.")
    tables = tables | state
    foreign.check(tables)
    if not 1 <= len(tables.get("threads", ())) <= THREADS_MOST:
        raise UsageError("The file holds no thread.", hint="Export the thread again.")
    return tables


def _rename(tables: Tables, name: str) -> None:
    """A pair takes the name, and both of its threads bear it. Raises UsageError."""
    pair = next(iter(tables.get("pairs", ())), None)
    if pair is None:
        tables["threads"][0]["name"] = name
        return
    if len(name) > NAME_CHARS:
        raise UsageError(f"The name of a pair has {NAME_CHARS} characters at most.", hint="Choose a shorter one.")
    pair["name"] = name
    parts = _parts(tables)
    for thread in tables["threads"]:
        thread["name"] = f"pair-{name}-{parts.get(thread['id'], Part.WORKER)}"


def _parts(tables: Tables) -> dict[str, Part]:
    """Of a pair, by thread."""
    return {pair[f"{part}_thread_id"]: part for pair in tables.get("pairs", ()) for part in Part}


async def _top(engine: Engine, work_dir: str) -> str:
    with contextlib.suppress(UsageError, OSError):
        return await Repository(work_dir, engine.around.environ).top()
    return work_dir


def _notes(came: Tables, tables: Tables, pair: str | None) -> tuple[str, ...]:
    notes = []
    if pair is None and tables["threads"][0]["kind"] == "pair":
        notes.append("The file holds the two histories of a pair alone: clew pair cannot go on with them.")
    for before, after in zip(came["threads"], tables["threads"], strict=True):
        for what in ("permissions", "trust"):
            if before.get(what) != after[what]:
                way = "clew threads set"
                if pair is not None and what == "permissions":
                    way = f"clew pair --session {pair} --permissions {before.get(what)}"
                notes.append(f"Its {what} were {before.get(what)} and are {after[what]} here; {way} widens them.")
    return tuple(dict.fromkeys(notes))


async def _unpack_sessions(
    engine: Engine, tables: Tables, file: Unpacked
) -> tuple[dict[str, _Luggage], dict[str, str]]:
    """By pin: the sessions that can go on here, and why the others cannot."""
    luggage, refused = dict[str, _Luggage](), dict[str, str]()
    runtimes: dict[str, Runtime | str] = {}
    known = _known(tables)
    for pin in _pins(tables, {}):
        part = session_part(pin.agent, pin.session_id)
        if part is None or part not in file.parts:
            refused[pin.id] = "its file did not come along"
            continue
        if pin.agent not in runtimes:
            runtimes[pin.agent] = await _runtime(engine, pin.agent)
        runtime = runtimes[pin.agent]
        if isinstance(runtime, str):
            refused[pin.id] = runtime
        elif not runtime.can_resume or runtime.product != pin.runtime.product:
            refused[pin.id] = f"the {pin.agent} here is another program than the one that made it"
        else:
            adapter = engine.adapter(pin.agent)
            content = await asyncio.to_thread(portable, adapter, file.parts[part], pin, known[pin.thread_id])
            if content is None:
                refused[pin.id] = UNEXPLAINED
            else:
                luggage[pin.id] = _Luggage(runtime, content)
    return luggage, refused


async def _runtime(engine: Engine, agent: str) -> Runtime | str:
    try:
        adapter, binary = engine.adapter(agent), engine.find(agent)
        return runtime_of(adapter, binary, await engine.abilities(agent, binary), engine.around)
    except (AgentError, UsageError):
        return f"there is no {agent} on this machine"


def _known(tables: Tables) -> dict[str, Known]:
    """What each thread of the file shows."""
    standing = [row for row in tables.get("turns", ()) if row.get("archived_at") is None]
    return {
        thread.id: known_of(thread, _turns({"turns": [row for row in standing if row["thread_id"] == thread.id]}))
        for thread in _threads(tables)
    }


def _store(
    store: Store,
    engine: Engine,
    tables: Tables,
    luggage: Mapping[str, _Luggage],
    refused: Mapping[str, str],
    placed: list[Placed],
    *,
    dry_run: bool,
    may_grow: bool,
) -> Imported:
    """Within a transaction. What is written to disk is noted in `placed`."""
    sessions, bound, parts = list[Arrived](), dict[str, _Bound](), _parts(tables)
    for pin in _pins(tables, {}):
        if pin.state not in (PinState.GOOD, PinState.PROVISIONAL):
            continue
        arrived = Arrived(pin.agent, pin.model, pin.session_id, False, refused.get(pin.id, ""))
        if pin.id in luggage:
            arrived = _placed(store, engine, pin, luggage[pin.id], placed, dry_run=dry_run, may_grow=may_grow)
        if arrived.resumable:
            bound[pin.id] = _Bound(luggage[pin.id].runtime, None if dry_run else _mark(engine, pin, arrived))
        sessions.append(replace(arrived, part=parts.get(pin.thread_id)))
    try:
        threads, is_new = _restored(store, tables, bound), False
    except Taken:
        if may_grow:
            raise  # what it replaces is gone: others have its ids
        # Pins keep their place in the list, so what was bound is found again under its new id.
        copy = renewed(tables, _turns(tables), engine.around.new_id)
        ids = dict(
            zip((row["id"] for row in tables.get("pins", ())), (row["id"] for row in copy.get("pins", ())), strict=True)
        )
        try:
            threads, is_new = _restored(store, copy, {ids[pin]: each for pin, each in bound.items()}), True
        except Taken as error:
            raise UsageError("The file's rows do not fit together.", hint="Export the thread again.") from error
    turns = sum(len(store.history(thread.id)) for thread in threads)
    pair = store.pair_of_thread(threads[0].id) if len(threads) > 1 else None
    return Imported(tuple(threads), turns, tuple(sessions), is_new, pair.name if pair is not None else None)


def _placed(
    store: Store,
    engine: Engine,
    pin: Pin,
    luggage: _Luggage,
    placed: list[Placed],
    *,
    dry_run: bool,
    may_grow: bool,
) -> Arrived:
    arrived = Arrived(pin.agent, pin.model, pin.session_id, False)
    known = store.pin_by_session(pin.session_id)
    if known is not None and pin.borrowed_at is None:
        other = store.thread_by_id(known.thread_id)
        return replace(arrived, why=f"the session belongs to {other.name if other else 'another thread'} already")
    config_dir = luggage.runtime.config_dir
    arriving = Arriving(engine.adapter(pin.agent), config_dir, pin.work_dir, pin.session_id, luggage.content)
    put = look if dry_run else place
    try:
        grows = may_grow and pin.borrowed_at is None  # a borrowed one is another thread's
        found = put(arriving, may_grow=grows)
    except OSError as error:
        return replace(arrived, why=f"its file cannot be written: {error.strerror}")
    placed.append(found)
    if found.where is Where.OTHER:
        return replace(arrived, why="another file of that session is there, and is left as it is", path=found.path)
    if found.where is Where.NOWHERE:
        return replace(arrived, why="the agent has no place for it in this directory")
    return replace(arrived, resumable=True, path=found.path)


def _mark(engine: Engine, pin: Pin, arrived: Arrived) -> Mark | None:
    assert arrived.path is not None  # it is resumable
    return mark_in(engine.adapter(pin.agent), arrived.path, pin)


def _restored(store: Store, tables: Tables, bound: Mapping[str, _Bound]) -> list[Thread]:
    content = {table: tables.get(table, []) for table in TABLES}
    return restore(store, _threads(tables), _pins(tables, bound, retire=True), content)


def _threads(tables: Tables) -> list[Thread]:
    return _made(lambda: each(thread_from, tables["threads"]))


def _turns(tables: Tables) -> list[Turn]:
    return _made(lambda: each(turn_from, tables.get("turns", [])))


def _pins(tables: Tables, bound: Mapping[str, _Bound], *, retire: bool = False) -> list[Pin]:
    """As records. With `retire`, those that are not bound are given up."""
    pins = _made(lambda: pins_of(tables))
    return [_bound(pin, bound.get(pin.id), retire=retire) for pin in pins]


def _bound(pin: Pin, here: _Bound | None, *, retire: bool) -> Pin:
    if here is not None:
        return replace(pin, runtime=here.runtime, mark=here.mark)
    given_up = retire and pin.state in (PinState.GOOD, PinState.PROVISIONAL)
    return replace(pin, state=PinState.RETIRED) if given_up else pin


def _made(make: Callable[[], T]) -> T:
    """Rows that make no record are the file's fault, not the store's."""
    try:
        return make()
    except (StoreError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError("The file holds a row that makes no sense.", hint="Export the thread again.") from error
