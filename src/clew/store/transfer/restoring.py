"""Rows that were dumped, put back: of one thread, or of several that belong together.

Rows may come from a file: `foreign.check` has seen those before. Here is what only the store can tell: nothing that
they name is another thread's, a session keeps its owner, and all that was written is read back as records before the
transaction ends. What must be unique in the whole store and is no id (a job's number, a review's, a pair's name) is
chosen anew when it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.core.pins import Absorbed, Pin, PinState
from clew.core.record import replace
from clew.errors import Conflict, NotFound, StoreError, UsageError
from clew.store import sql
from clew.store.database import _packed as packed
from clew.store.database import provisional_number
from clew.store.foreign import checked, named_elsewhere
from clew.store.records import absorbed_from, dumps, each, first, pin_from, question_from, thread_from
from clew.store.threads import DUMPED

if TYPE_CHECKING:
    from clew.core.thread import Thread
    from clew.store.store import Store

Row = dict[str, Any]
Content = Mapping[str, Sequence[Row]]  # rows by table

# What a row belongs to comes before it. Pins are written as records.
TABLES = tuple(table for table in DUMPED if table not in ("pins", "pin_absorbed"))
RUNS_MOST = 10_000_000
_NOWHERE: Row = {"binary": "", "config_dir": "", "product": "", "can_resume": False}


class Taken(Conflict):
    """An id of the rows is in the store already, or they contradict each other."""


def pins_of(tables: Content) -> list[Pin]:
    """Pins and what they absorbed, of rows as they were dumped. What tells of a machine may be missing."""
    absorbed: dict[str, list[Absorbed]] = {}
    for known in sorted(tables.get("pin_absorbed", ()), key=lambda known: int(known["n"])):
        absorbed.setdefault(known["pin_id"], []).append(absorbed_from(known))

    def pin(row: Row) -> Pin:
        runtime = _NOWHERE | row["runtime"] | {"agent": row["agent"]}
        pending = None if row["pending"] is None else dumps(row["pending"])
        return pin_from(row | {"runtime": dumps(runtime), "pending": pending}, tuple(absorbed.get(row["id"], ())))

    return each(pin, tables.get("pins", ()))


def restore(store: Store, threads: Sequence[Thread], pins: Sequence[Pin], content: Content) -> list[Thread]:
    """Within a transaction. A thread's name gets a number when it is taken. Raises Taken for ids that are.

    A pin whose session belongs to another thread is given up.
    """
    try:
        with store.savepoint():  # whoever called may have another way to bring it in
            return _restore(store, threads, pins, content)
    except (NotFound, StoreError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        if isinstance(error, StoreError) and error.kind != "corrupt":
            raise
        raise UsageError("The file's rows do not fit together.", hint="Export the thread again.") from error


def _restore(store: Store, threads: Sequence[Thread], pins: Sequence[Pin], content: Content) -> list[Thread]:
    if any(store._one("thread_by_id", id=thread.id) is not None for thread in threads):
        raise Taken("The thread is in the store already.")
    made = [store.create_thread(thread) for thread in threads]
    fitted = _fitted(store, content)
    if any(_names_what_is_here(store, owner, named) for owner, named in named_elsewhere(fitted).items()):
        raise UsageError("The file's rows name what belongs to another thread.", hint="Export the thread again.")
    try:
        for table in TABLES:
            _insert(store, table, fitted.get(table, ()))
        for pin in pins:
            if store._one("pin_summary", id=pin.id) is not None:
                raise Taken("The thread's session is in the store already.")
            store.save_pin(_without_the_sessions_of_others(store, pin))
    except NotFound:
        raise  # a row whose owner is not there
    except UsageError as error:
        raise Taken(error.message) from error
    for thread in made:
        _read_back(store, thread)
        store._changed(thread.id)
    return made


def _names_what_is_here(store: Store, table: str, ids: set[str]) -> bool:
    query = {"turns": "turn_by_id", "runs": "run_by_id"}[table]
    return any(store._one(query, id=each_) is not None for each_ in ids)


def _without_the_sessions_of_others(store: Store, pin: Pin) -> Pin:
    """Law 5: two processes may bring the same session in, and one file may name it for two threads."""
    if pin.state not in (PinState.GOOD, PinState.PROVISIONAL) or pin.borrowed_at is not None:
        return pin
    owner = store.pin_by_session(pin.session_id)
    is_free = owner is None or owner.thread_id == pin.thread_id
    return pin if is_free else replace(pin, state=PinState.RETIRED)


def _insert(store: Store, table: str, rows: Sequence[Row]) -> None:
    """Many at once; an older file's rows may lack columns that have a default."""
    by_names: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        fit = checked(table, row)
        if table == "jobs":
            fit["number"] = provisional_number()
        by_names.setdefault(tuple(sorted(fit)), []).append(fit)
    session = store._session()
    for names, alike in by_names.items():
        values = ", ".join(f":{name}" for name in names)
        statement = sql.spell(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})", store._dialect.style)
        session.written += 1
        try:
            session.connection.executemany(statement, [packed(row) for row in alike])
        except store._dialect.errors as error:
            raise store._failed(session, error) from error


def _fitted(store: Store, content: Content) -> dict[str, list[Row]]:
    """With numbers and names of this store's own, where they must be unique."""
    fitted = {table: [dict(row) for row in rows] for table, rows in content.items()}
    for job in fitted.get("jobs", ()):
        job["number"] = 0  # the last step of the transaction gives it one
        store._at_commit("number_job", id=str(job.get("id")))
    for review in fitted.get("reviews", ()):
        _fit_review(store, review, fitted.get("review_rounds", ()))
    fitted["hook_keys"] = [
        key for key in fitted.get("hook_keys", ()) if store._one("hook_key", key=str(key.get("key"))) is None
    ]
    for pair in fitted.get("pairs", ()):
        pair["name"] = store._free_pair_name(str(pair.get("name")))
    return fitted


def _fit_review(store: Store, review: Row, rounds: Sequence[Row]) -> None:
    old = str(review.get("id"))
    if store._one("review_by_id", id=old) is None:
        return
    day = str(review.get("day"))
    last = store._one("last_review_of_day", day=day)
    number = (int(last["number"]) if last else 0) + 1
    review.update(id=f"{day}-{number:03d}", number=number)
    for round_ in rounds:
        if round_.get("review_id") == old:
            round_["review_id"] = review["id"]


def _read_back(store: Store, thread: Thread) -> None:
    """Whatever a surface will read: a row that makes no record is found now, and not by the next `threads show`."""
    first(thread_from, store._one("thread_by_id", id=thread.id))
    for stored in store.all_turns(thread.id):
        store.revisions(stored.turn.id) if stored.turn.revision else None
    store.pins(thread.id)
    for run in store.runs(thread_id=thread.id, limit=RUNS_MOST):
        store.attempts(run.id)
        store.events(run.id)
    each(question_from, store._all("dump_questions", id=thread.id))
    for row in store._all("dump_jobs", id=thread.id):
        store.job(row["id"])
    for row in store._all("dump_reviews", id=thread.id):
        store.review(row["id"])
        store.rounds(row["id"])
    for row in store._all("dump_pairs", id=thread.id):
        store.pair(row["id"])
        store.pair_rounds(row["id"])
