"""Imports a thread from a file into this store, and places its session files where the agents look for them.

Rules
1. Nothing in the file is trusted. Its rows are checked, its sessions are compared with the rows, and permissions are no
   wider than the user who imports it would give.
2. A pin is bound to this directory and this machine's runtime only when its session's file is in place and confirms it.
   Every other pin is retired: the next turn then starts fresh, with the imported history.
3. The import is atomic: the rows are stored in one transaction, and when it fails, the session files that were written
   are removed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from clew.core.history import Turn
from clew.core.pairs.pair import PairPart
from clew.core.pins import Pin, PinState, Runtime
from clew.core.record import Record, replace
from clew.core.session_check import ShownThread
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.engine.planning.plan import runtime_of
from clew.engine.sessions.transfer import (
    UNEXPLAINED,
    Placement,
    PlacementState,
    SessionFile,
    mark_in,
    place,
    plan_placement,
    portable,
    undo_placements,
)
from clew.engine.storage.images import check_contents
from clew.errors import AgentError, Conflict, UsageError
from clew.git.changes import Repository
from clew.hosts.pairs.naming import check_pair_name, thread_name
from clew.hosts.transfer.arrival import Destination, localized, read_rows, store_rows, with_local_values
from clew.hosts.transfer.export import shown_by
from clew.hosts.transfer.export_file import session_part
from clew.hosts.transfer.images import named_images
from clew.hosts.validation import check_name, existing_dir
from clew.store.database.dialect import Catalogue
from clew.store.records import each, thread_from, turn_from
from clew.store.store import Store
from clew.store.transfer.codec import PortableThread, Tables, check_schema
from clew.store.transfer.import_checks import check
from clew.store.transfer.restoring import pins_of
from clew.system.cancellation import finish


class ImportedSession(Record):
    """A session of the thread, and whether the next turn can resume it here."""

    agent: str
    model: str
    session_id: str
    resumable: bool
    why: str = ""  # why it cannot be resumed
    path: Path | None = None
    part: PairPart | None = None  # if it belongs to a pair


class ImportResult(Record):
    """The imported threads and sessions."""

    threads: tuple[Thread, ...]
    turns: int  # without archived ones
    sessions: tuple[ImportedSession, ...]
    renewed: bool  # it is a copy with new ids, because its ids exist here already
    pair: str | None = None  # the pair's name here
    notes: tuple[str, ...] = ()
    signer: str | None = None  # who signed the file; None: no signature was required


class _Confirmed(Record):
    """A session file whose content confirms its pin."""

    runtime: Runtime
    content: bytes


class _DryRun(Exception):
    """Rolls back the transaction of a dry run."""


async def import_thread(
    engine: Engine,
    thread: PortableThread,
    *,
    cwd: str,
    name: str | None = None,
    permissions: Permissions = Permissions.ASK,
    trust: Trust = Trust.USER,
    dry_run: bool = False,
    replacing: Callable[[Store], Tables] | None = None,
    then: Callable[[Store, ImportResult], None] | None = None,
) -> ImportResult:
    """Imports a thread, or both threads of a pair. Raises UsageError, and Conflict for a taken name.

    `permissions` and `trust` are the widest that they may get. `replacing` removes the threads that the import replaces
    from the store, and returns their rows. `then` is called at the end. Both are
    part of the transaction.
    """
    if name is not None:
        check_name(name)
    catalogue = await engine.store.call(lambda store: store.database.catalogue())
    came = await asyncio.to_thread(_checked, thread, catalogue)
    work_dir = existing_dir(cwd)
    here = Destination(
        work_dir, await _top(engine, work_dir), engine.context.owner, permissions, trust, engine.context.clock()
    )
    tables = localized(came, here, catalogue)
    if name is not None:
        _rename(tables, name)
    checked = await _check_sessions(engine, tables, thread.sessions)
    files = _SessionFiles(engine, dry_run=dry_run, is_update=replacing is not None)
    new_images = await asyncio.to_thread(_keep_images, engine, tables, thread.images, dry_run=dry_run)
    made: list[ImportResult] = []

    def work(store: Store) -> None:
        taken = store.pairs.find if tables.get("pairs") else store.threads.find
        if name is not None and taken(name) is not None:
            what = "pair" if tables.get("pairs") else "thread"
            raise Conflict(f"There is a {what} named {name} already.", hint="Choose another name.")
        fitted = tables if replacing is None else with_local_values(tables, replacing(store))
        stored = _store(store, engine, fitted, checked, files)
        made.append(stored)
        if then is not None:
            then(store, stored)
        if dry_run:
            raise _DryRun

    try:
        await finish(engine.store.atomically(work))  # once it has begun, it is too late for a cancel
    except _DryRun:
        pass
    except BaseException:
        files.remove()
        await engine.store.call(lambda store: engine.images.release(store, new_images))
        raise
    return replace(made[-1], notes=_notes(came, tables, made[-1].pair))


def _keep_images(engine: Engine, tables: Tables, contents: Mapping[str, bytes], *, dry_run: bool) -> tuple[str, ...]:
    """The digests of the images that are new here."""
    images = named_images(tables)
    if dry_run:
        check_contents(images, contents)
        return ()
    return engine.images.restore(images, contents)


def _checked(thread: PortableThread, catalogue: Catalogue) -> Tables:
    check_schema(thread.schema, "The file")
    check(thread.tables, catalogue)
    return thread.tables


def _rename(tables: Tables, name: str) -> None:
    """Renames the thread. A pair gets the name, and its threads get names made from it. Raises UsageError."""
    pair = next(iter(tables.get("pairs", ())), None)
    if pair is None:
        tables["threads"][0]["name"] = name
        return
    check_pair_name(name)
    pair["name"] = name
    parts = _parts(tables)
    for thread in tables["threads"]:
        thread["name"] = thread_name(name, parts.get(thread["id"], PairPart.WORKER))


def _parts(tables: Tables) -> dict[str, PairPart]:
    """By thread id, which part of a pair the thread is."""
    return {pair[f"{part}_thread_id"]: part for pair in tables.get("pairs", ()) for part in PairPart}


async def _top(engine: Engine, work_dir: str) -> str:
    with contextlib.suppress(UsageError, OSError):
        return await Repository(work_dir, engine.context.environ).top()
    return work_dir


def _notes(came: Tables, tables: Tables, pair: str | None) -> tuple[str, ...]:
    notes = [f"The pair {pair} is in round {row['number']}." for row in tables.get("pairs", ())]
    if pair is None and tables["threads"][0]["kind"] == "pair":
        notes.append("The file holds only the two histories of a pair: clew pair cannot continue them.")
    for before, after in zip(came["threads"], tables["threads"], strict=True):
        for what in ("permissions", "trust"):
            if before.get(what) != after[what]:
                way = "clew threads set"
                if pair is not None and what == "permissions":
                    way = f"clew pair --session {pair} --permissions {before.get(what)}"
                notes.append(f"Its {what} were {before.get(what)} and are {after[what]} here; {way} widens them.")
    return tuple(dict.fromkeys(notes))


async def _check_sessions(engine: Engine, tables: Tables, files: Mapping[str, bytes]) -> dict[str, _Confirmed | str]:
    """By pin: the session file, if its content confirms the pin, or why the session cannot be resumed."""
    checked: dict[str, _Confirmed | str] = {}
    runtimes: dict[str, Runtime | str] = {}
    shown = _shown(tables)
    for pin in _pins(tables):
        part = session_part(pin.agent, pin.session_id)
        if part is None or part not in files:
            checked[pin.id] = "its file was not included"
            continue
        if pin.agent not in runtimes:
            runtimes[pin.agent] = await _runtime(engine, pin.agent)
        runtime = runtimes[pin.agent]
        if isinstance(runtime, str):
            checked[pin.id] = runtime
        elif not runtime.can_resume or runtime.product != pin.runtime.product:
            checked[pin.id] = f"the {pin.agent} of this machine is another program than the one that made it"
        else:
            adapter = engine.adapter(pin.agent)
            content = await asyncio.to_thread(portable, adapter, files[part], pin, shown[pin.thread_id])
            checked[pin.id] = UNEXPLAINED if content is None else _Confirmed(runtime, content)
    return checked


async def _runtime(engine: Engine, agent: str) -> Runtime | str:
    try:
        adapter, binary = engine.adapter(agent), engine.find(agent)
        return runtime_of(adapter, binary, await engine.abilities(agent, binary), engine.context)
    except (AgentError, UsageError):
        return f"there is no {agent} on this machine"


def _shown(tables: Tables) -> dict[str, ShownThread]:
    """What each thread in the file shows."""
    turns = [row for row in tables.get("turns", ()) if row.get("archived_at") is None]
    return {
        thread.id: shown_by(thread, _turns({"turns": [row for row in turns if row["thread_id"] == thread.id]}))
        for thread in _threads(tables)
    }


def _store(
    store: Store, engine: Engine, tables: Tables, checked: Mapping[str, _Confirmed | str], files: _SessionFiles
) -> ImportResult:
    """Places the session files and stores the rows, within a transaction."""
    sessions, pins, parts = list[ImportedSession](), list[Pin](), _parts(tables)
    for pin in _pins(tables):
        if pin.state not in (PinState.GOOD, PinState.PROVISIONAL):
            pins.append(pin)
            continue
        session, bound = files.place(store, pin, checked[pin.id])
        sessions.append(replace(session, part=parts.get(pin.thread_id)))
        pins.append(bound)
    threads, is_copy = store_rows(store, tables, pins, engine.context.new_id, may_copy=not files.is_update)
    turns = sum(len(store.turns.history(thread.id)) for thread in threads)
    pair = store.pairs.of_thread(threads[0].id) if len(threads) > 1 else None
    return ImportResult(tuple(threads), turns, tuple(sessions), is_copy, pair.name if pair is not None else None)


class _SessionFiles:
    """Places session files where the agents look for them."""

    def __init__(self, engine: Engine, *, dry_run: bool, is_update: bool) -> None:
        self.is_update = is_update  # the import replaces threads, which are no longer in the store
        self._engine = engine
        self._dry_run = dry_run
        self._placed: list[Placement] = []

    def remove(self) -> None:
        """Removes the files that were written. Called when the transaction fails."""
        undo_placements(self._placed)

    def place(self, store: Store, pin: Pin, checked: _Confirmed | str) -> tuple[ImportedSession, Pin]:
        """Places the session's file. Returns the pin bound to this machine, or retired if it cannot be resumed here."""
        session = ImportedSession(pin.agent, pin.model, pin.session_id, False)
        if isinstance(checked, str):
            session = replace(session, why=checked)
        else:
            session = self._place(store, pin, checked, session)
        if isinstance(checked, str) or session.path is None or not session.resumable:
            return session, replace(pin, state=PinState.RETIRED)
        mark = None if self._dry_run else mark_in(self._engine.adapter(pin.agent), session.path, pin)
        return session, replace(pin, runtime=checked.runtime, mark=mark)

    def _place(self, store: Store, pin: Pin, confirmed: _Confirmed, session: ImportedSession) -> ImportedSession:
        known = store.pins.of_session(pin.session_id)
        if known is not None and pin.borrowed_at is None:
            other = store.threads.by_id(known.thread_id)
            return replace(session, why=f"the session belongs to {other.name if other else 'another thread'} already")
        config_dir = confirmed.runtime.config_dir
        file = SessionFile(self._engine.adapter(pin.agent), config_dir, pin.work_dir, pin.session_id, confirmed.content)
        put = plan_placement if self._dry_run else place
        try:
            may_grow = self.is_update and pin.borrowed_at is None  # a borrowed session belongs to another thread
            found = put(file, may_grow=may_grow)
        except OSError as error:
            return replace(session, why=f"its file cannot be written: {error.strerror}")
        self._placed.append(found)
        if found.state is PlacementState.OTHER:
            return replace(session, why="the session has another file there, which is left as it is", path=found.path)
        if found.state is PlacementState.NOWHERE:
            return replace(session, why="the agent has no place for it in this directory")
        return replace(session, resumable=True, path=found.path)


def _threads(tables: Tables) -> list[Thread]:
    return read_rows(lambda: each(thread_from, tables["threads"]))


def _turns(tables: Tables) -> list[Turn]:
    return read_rows(lambda: each(turn_from, tables.get("turns", [])))


def _pins(tables: Tables) -> list[Pin]:
    return read_rows(lambda: pins_of(tables))
