"""Restores dumped rows of one thread, or of several that belong together.

`import_checks.check` has checked rows that come from a file. This module makes the checks that need the store: the rows
name nothing that belongs to another thread, a session keeps its owner, and everything written is read back as records
before the transaction ends. Values that must be unique in the whole store and are not ids (the number of a job or a
review, the name of a pair) are replaced when they are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from clew.core.history import Absorbed
from clew.core.lookup import ALL_ROWS
from clew.core.pins import Pin, PinState
from clew.core.record import replace
from clew.errors import Conflict, NotFound, StoreError, UsageError
from clew.store.records import absorbed_from, each, first, outline_row, pin_from, question_from, thread_from, turn_from
from clew.store.transfer.codec import AGAIN, PLAIN_TABLES, Row, flattened
from clew.store.transfer.import_checks import checked, named_elsewhere

if TYPE_CHECKING:
    from clew.core.thread import Thread
    from clew.store.store import Store

Content = Mapping[str, Sequence[Row]]  # rows by table

_NOWHERE: Row = {"binary": "", "config_dir": "", "product": "", "can_resume": False}


class IdTaken(Conflict):
    """An id of the rows is in the store already, or the rows contradict each other."""


def pins_of(tables: Content) -> list[Pin]:
    """The pins, with the turns that they absorbed, from dumped rows. Columns about a machine may be missing."""
    absorbed: dict[str, list[Absorbed]] = {}
    for known in sorted(tables.get("pin_absorbed", ()), key=lambda known: int(known["n"])):
        absorbed.setdefault(known["pin_id"], []).append(absorbed_from(known))

    def pin(row: Row) -> Pin:
        runtime = _NOWHERE | row["runtime"] | {"agent": row["agent"]}
        return pin_from(flattened("pins", row | {"runtime": runtime}), tuple(absorbed.get(row["id"], ())))

    return each(pin, tables.get("pins", ()))


def restore(store: Store, threads: Sequence[Thread], pins: Sequence[Pin], content: Content) -> list[Thread]:
    """Call it within a transaction. A thread whose name is taken gets a suffix. Raises IdTaken when an id is taken.

    A pin whose session belongs to another thread is retired.
    """
    try:
        with store.savepoint():  # so that the caller can continue its transaction after a failure
            return _restore(store, threads, pins, content)
    except (NotFound, StoreError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        if isinstance(error, StoreError) and error.kind != "corrupt":
            raise
        raise UsageError("The file's rows do not fit together.", hint=AGAIN) from error


def _restore(store: Store, threads: Sequence[Thread], pins: Sequence[Pin], content: Content) -> list[Thread]:
    if any(store.database.one("thread_by_id", id=thread.id) is not None for thread in threads):
        raise IdTaken("The thread is in the store already.")
    made = [store.threads.create(thread) for thread in threads]
    rows = _adapted(store, content)
    if any(_is_stored(store, table, named) for table, named in named_elsewhere(rows).items()):
        raise UsageError("The file's rows name what belongs to another thread.", hint=AGAIN)
    try:
        for table in PLAIN_TABLES:
            _insert(store, table, rows.get(table, ()))
        for pin in pins:
            if store.database.one("pin_summary", id=pin.id) is not None:
                raise IdTaken("The thread's session is in the store already.")
            store.pins.save(_without_foreign_session(store, pin))
    except NotFound:
        raise  # the owner of a row does not exist; NotFound is a UsageError, but does not mean a taken id
    except UsageError as error:
        raise IdTaken(error.message) from error
    for thread in made:
        _read_back(store, thread)
        store.versions.changed(thread.id)
    return made


def _is_stored(store: Store, table: str, ids: set[str]) -> bool:
    query = {"turns": "turn_by_id", "runs": "run_by_id", "jobs": "job_by_id"}[table]
    return any(store.database.one(query, id=each_) is not None for each_ in ids)


def _without_foreign_session(store: Store, pin: Pin) -> Pin:
    """The pin, retired if another thread owns its session: a session has one writer, but files may repeat its id."""
    if pin.state not in (PinState.GOOD, PinState.PROVISIONAL) or pin.borrowed_at is not None:
        return pin
    owner = store.pins.of_session(pin.session_id)
    is_free = owner is None or owner.thread_id == pin.thread_id
    return pin if is_free else replace(pin, state=PinState.RETIRED)


def _insert(store: Store, table: str, rows: Sequence[Row]) -> None:
    """Inserts rows with the same columns together. Rows of an older file may lack columns that have a default."""
    by_names: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        by_names.setdefault(tuple(sorted(row)), []).append(row)
    for names, alike in by_names.items():
        store.database.insert(table, names, alike)


def _adapted(store: Store, content: Content) -> dict[str, list[Row]]:
    """The rows as they may be written, with numbers and names of this store where they must be unique."""
    catalogue = store.database.catalogue()
    adapted = {table: [checked(table, row, catalogue) for row in rows] for table, rows in content.items()}
    for part in store.hosts():
        part.adapt_imported(adapted)
    turns = adapted.get("turns", [])
    # The outline is made here, because a file must not say which text a session has absorbed.
    adapted["turns"] = [row | outline_row(turn) for row, turn in zip(turns, each(turn_from, turns), strict=True)]
    return adapted


def _read_back(store: Store, thread: Thread) -> None:
    """Reads everything that surfaces read, so that a row that is not valid is found now, not by `threads show`."""
    first(thread_from, store.database.one("thread_by_id", id=thread.id))
    for stored in store.turns.all(thread.id):
        store.turns.revisions(stored.turn.id) if stored.turn.revision else None
    store.pins.of_thread(thread.id)
    for run in store.runs.newest(thread_id=thread.id, limit=ALL_ROWS):
        store.runs.attempts(run.id)
        store.events.of_run(run.id)
    each(question_from, store.database.all("dump_questions", id=thread.id))
    for part in store.hosts():
        part.read_back(thread.id)
