"""Rows of a thread that arrive from a file or a remote, adjusted to this machine before they are stored.

What the sender left out (directories, processes, hosts) gets the values of this machine. Nothing arrives as running,
and nothing arrives with more permissions than the user who imports it would give.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from clew.core.history import Turn, digest
from clew.core.jobs.job import ACTIVE
from clew.core.pins import Pin
from clew.core.record import Record, replace
from clew.core.runs.run import LIVE, Owner
from clew.core.thread import Permissions, Thread, Trust, narrower
from clew.errors import StoreError, UsageError
from clew.hosts.pairs.folder import new_pair_id
from clew.store.database.dialect import Catalogue
from clew.store.records import dumps, each, thread_from, turn_from
from clew.store.store import Store
from clew.store.transfer.codec import AGAIN, MACHINE_COLUMNS, PLAIN_TABLES, PROCESS_COLUMNS, SHOWN_COLUMNS, Row, Tables
from clew.store.transfer.restoring import IdTaken, pins_of, restore

T = TypeVar("T")

# Columns whose values stay when a pull replaces rows: the user chose them here, or they are never sent.
LOCAL_COLUMNS = {"threads": ("name", "permissions", "trust"), "jobs": ("full_prompt",)}

_TEXT_OF = {"turns": "text", "runs": "prompt"}  # the tables with a column `typed`, and what it stands for

_STOPPED = "The thread was archived or exported before this run had ended."


class Destination(Record):
    """What an imported thread gets on this machine."""

    cwd: str
    top: str  # the root of the repository, or the directory itself
    owner: Owner
    permissions: Permissions  # the widest that an import may have
    trust: Trust
    now: float


def localized(tables: Tables, here: Destination, catalogue: Catalogue) -> Tables:
    """The rows with the values of this machine, nothing running, and no more permissions than are allowed here."""
    filled = {table: [_filled(row, here, catalogue[table]) for row in rows] for table, rows in tables.items()}
    return narrowed(stopped(filled, here.now), here.permissions, here.trust)


def stopped(tables: Tables, now: float) -> Tables:
    """The rows with everything stopped, and last used now, so that a clean-up does not remove them at once.

    Only threads of hooks keep the keys by which events of a forge find them.
    """
    fitted = {
        table: [row | _STOP[table](row) if table in _STOP else row for row in rows] for table, rows in tables.items()
    }
    if not any(row.get("kind") == "hook" for row in fitted["threads"]):
        fitted |= {"hook_keys": [], "hook_jobs": []}
    for table in ("threads", "pairs"):
        fitted[table] = [row | {"updated_at": now} for row in fitted.get(table, ())]
    return fitted


def narrowed(tables: Tables, permissions: Permissions, trust: Trust) -> Tables:
    """The rows with no more permissions than these, and without anything that could get into a prompt unseen.

    So threads lose what was allowed in them for good, prompts lose what was typed (it is shown in their place), jobs
    lose their full prompt, and attempts lose their process: a job's prompt reports the tool calls of attempts that have
    one. Raises UsageError.
    """
    threads = [
        row
        | _narrowed(row, permissions)
        | {"trust": row.get("trust") if trust is Trust.PROJECT else Trust.USER.value, "tool_rules": None}
        for row in tables["threads"]
    ]
    hidden = {"allowed_tools": "[]", "full_prompt": None}
    jobs = [row | _narrowed(row, permissions) | hidden for row in tables.get("jobs", ())]
    attempts = [row | dict.fromkeys(PROCESS_COLUMNS) for row in tables.get("attempts", ())]
    prompts = {
        table: [row | dict.fromkeys(SHOWN_COLUMNS) if "typed" in row else row for row in tables.get(table, ())]
        for table in _TEXT_OF
    }
    return tables | prompts | {"threads": threads, "jobs": jobs, "attempts": attempts}


def with_local_values(tables: Tables, before: Tables) -> Tables:
    """The rows with the local values (directories, permissions) of the rows that they replace, except processes."""
    kept = MACHINE_COLUMNS - {*PROCESS_COLUMNS}
    own = {
        (table, row["id"]): {name: row[name] for name in (*kept, *LOCAL_COLUMNS.get(table, ())) if name in row}
        for table, rows in before.items()
        for row in rows
        if "id" in row
    }
    for table, text in _TEXT_OF.items():
        texts = {row["id"]: row[text] for row in tables.get(table, ())}
        for row in before.get(table, ()):
            if texts.get(row["id"]) != row[text]:
                own[table, row["id"]].pop("typed", None)  # it stood for another text
    return {table: [row | own.get((table, row.get("id")), {}) for row in rows] for table, rows in tables.items()}


def _filled(row: Row, here: Destination, known: Collection[str]) -> Row:
    values: Row = {
        "cwd": here.cwd,
        "work_dir": here.cwd,
        "top": here.top,
        "owner_host": here.owner.host,
        "owner_pid": here.owner.pid,
        "owner_started": here.owner.started,
    }
    kept = {name: value for name, value in row.items() if name not in MACHINE_COLUMNS}
    return kept | {name: value for name, value in values.items() if name in known}


def _narrowed(row: Row, widest: Permissions) -> Row:
    try:
        found = Permissions(str(row.get("permissions")))
    except ValueError:
        raise UsageError("The file names permissions that this Clew does not know.") from None
    return {"permissions": narrower(found, widest).value}


def _run(row: Row) -> Row:
    if row.get("status") not in LIVE:
        return {}
    return {"status": "interrupted", "outcome": "killed", "error": _STOPPED, "ended_at": row.get("created_at")}


def _attempt(row: Row) -> Row:
    return {} if row.get("ended_at") is not None else {"outcome": "killed", "ended_at": row.get("started_at")}


def _question(row: Row) -> Row:
    return {"state": "withdrawn", "reply": None} if row.get("state") == "open" else {}


def _job(row: Row) -> Row:
    if row.get("status") not in ACTIVE:
        return {}
    hint = "clew jobs retry continues it here."
    error = "The thread was archived or exported before it had ended."
    return {"status": "cancelled", "worker": None, "error": error, "hint": hint}


def _round(row: Row) -> Row:
    return {"status": "failed", "error": _STOPPED} if row.get("status") == "running" else {}


def _hook_job(row: Row) -> Row:
    return {"reply": "none"} if row.get("reply") in ("waiting", "posting") else {}


_STOP: dict[str, Callable[[Row], Row]] = {
    "runs": _run,
    "attempts": _attempt,
    "questions": _question,
    "jobs": _job,
    "review_rounds": _round,
    "hook_jobs": _hook_job,
}


def store_rows(
    store: Store, tables: Tables, pins: Sequence[Pin], new_id: Callable[[], str], *, may_copy: bool = True
) -> tuple[list[Thread], bool]:
    """Stores the rows, within a transaction. If their ids are taken, stores a copy under new ids, and returns True.

    `pins` are those of the tables, in their order, adjusted to this machine. Raises UsageError for rows that contradict
    each other, and IdTaken if no copy may be made.
    """
    try:
        return _restore(store, tables, pins), False
    except IdTaken:
        if not may_copy:
            raise
    copy = _with_new_ids(tables, read_rows(lambda: each(turn_from, tables.get("turns", []))), new_id)
    copied = [
        replace(pin, state=known.state, runtime=known.runtime, mark=known.mark)
        for pin, known in zip(pins_of(copy), pins, strict=True)
    ]
    try:
        return _restore(store, copy, copied), True
    except IdTaken as error:
        raise UsageError("The file's rows do not fit together.", hint=AGAIN) from error


def read_rows(read: Callable[[], T]) -> T:
    """Makes records of rows. Raises UsageError for invalid rows: the fault is the file's, not the store's."""
    try:
        return read()
    except (StoreError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError("The file holds a row that is not valid.", hint=AGAIN) from error


def _restore(store: Store, tables: Tables, pins: Sequence[Pin]) -> list[Thread]:
    content = {table: tables.get(table, []) for table in PLAIN_TABLES}
    return restore(store, each(thread_from, tables["threads"]), pins, content)


def _with_new_ids(tables: Tables, turns: Sequence[Turn], new_id: Callable[[], str]) -> Tables:
    """A copy of the rows. The digests of what a session absorbed contain ids, so they change, too."""
    ids = {
        str(row["id"]): new_id()
        for table in ("threads", "turns", "runs", "attempts", "pins", "jobs")
        for row in tables.get(table, ())
    }
    ids |= {str(row["id"]): new_pair_id(row["updated_at"], new_id()) for row in tables.get("pairs", ())}
    for run in tables.get("runs", ()):
        ids.setdefault(str(run.get("prompt_turn_id")), new_id())  # a prompt that was never sent has no turn
    digests = {digest(turn): digest(turn.replace(id=ids[turn.id])) for turn in turns if turn.id in ids}
    fitted = {table: [_renamed(row, ids) for row in rows] for table, rows in tables.items()}
    for absorbed in fitted.get("pin_absorbed", ()):
        known = absorbed["digest"]
        absorbed["digest"] = digests.get(known, known)  # a digest that matched no turn still matches none
    for pin in fitted.get("pins", ()):
        if pin.get("pending"):
            shown = [[ids.get(turn, turn), digests.get(known, known)] for turn, known in pin["pending"]["shown"]]
            pin["pending"] = pin["pending"] | {"shown": shown}
    for run in fitted.get("runs", ()):
        run["asked"] = _asked(run.get("asked", "{}"), ids)
    return fitted


def _renamed(row: Row, ids: Mapping[str, str]) -> Row:
    return {
        name: ids.get(value, value) if name in ("id", "key") or name.endswith("_id") else value
        for name, value in row.items()
    }


def _asked(body: str, ids: Mapping[str, str]) -> str:
    asked = json.loads(body)
    if asked.get("retry_of") in ids:
        asked["retry_of"] = ids[asked["retry_of"]]
    return dumps(asked)
