"""A thread's rows on their way out and in: without the machine that they come from, and at home where they go to.

Out: directories, programs, processes and hosts are left out, and so are numbers that mean something in one store alone.
So the same thread gives the same rows on every machine. In: they are filled in again with what holds here; nothing
comes in that is under way, and nothing that allows more than the one who imports it would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.core.history import Turn, digest
from clew.core.job import UNDER_WAY
from clew.core.record import Record
from clew.core.run import LIVE, Owner
from clew.core.thread import Permissions, Trust, narrower
from clew.errors import UsageError
from clew.hosts.pair_folder import pair_id
from clew.store.foreign import columns
from clew.store.records import dumps
from clew.store.restoring import TABLES

Row = dict[str, Any]
Tables = dict[str, list[Row]]  # "threads", "pins", "pin_absorbed" and the rest, by table

DIRECTORIES = ("cwd", "work_dir", "top")
OWNER = ("owner_host", "owner_pid", "owner_started")
MARK = ("mark_size_bytes", "mark_last_entry", "mark_digest", "mark_stamp")  # of a session's file
PROCESS = ("pid", "pid_started")  # of an attempt: it ran here, and so did the tools that its run's events tell of
OF_THE_MACHINE = frozenset({*DIRECTORIES, *OWNER, *MARK, *PROCESS, "worker", "imported_from"})
OF_THE_STORE = {
    "threads": {"version", "updated_at"},  # used last: there, not here
    "pairs": {"updated_at"},
    "jobs": {"number", "full_prompt"},  # no surface shows what a hook's fresh session was told
    "pins": {"absorbed_count", "absorbed_digest"},
}
OF_ONES_OWN = {"threads": ("name", "permissions", "trust"), "jobs": ("full_prompt",)}  # what whoever has it decides
RUNTIME = ("agent", "product", "can_resume")  # of the runtime: what another machine's can be held against
HISTORY = ("threads", "turns", "turn_revisions")
STATE = (*(table for table in TABLES if table not in HISTORY), "pins", "pin_absorbed")

_NOT_SAID = "The thread was put away before this run had ended."


class Home(Record):
    """What holds for an imported thread here."""

    cwd: str
    top: str  # of the repository, or the directory itself
    owner: Owner
    permissions: Permissions  # the widest that an import may bring
    trust: Trust
    now: float


def outward(dumps_of_threads: Sequence[Mapping[str, Any]]) -> Tables:
    """Of what `dump_thread` gave, for threads that belong together."""
    tables: Tables = {"threads": [dict(dump["thread"]) for dump in dumps_of_threads]}
    for table in (*HISTORY[1:], *STATE):
        rows = [dict(row) for dump in dumps_of_threads for row in dump.get(table, ())]
        tables[table] = (
            [row for place, row in enumerate(rows) if row not in rows[:place]] if _is_shared(table) else rows
        )
    for table, rows in tables.items():
        gone = OF_THE_MACHINE | OF_THE_STORE.get(table, set())
        tables[table] = [{name: value for name, value in row.items() if name not in gone} for row in rows]
    for pin in tables["pins"]:
        pin["runtime"] = {name: pin["runtime"].get(name) for name in RUNTIME}
    return tables


def _is_shared(table: str) -> bool:
    """A pair belongs to both of its threads, so both dumps have it."""
    return table.startswith("pair")


def inward(tables: Tables, home: Home) -> Tables:
    """At home here, and at rest."""
    fitted = {table: [_filled(table, row, home) for row in rows] for table, rows in tables.items()}
    return narrowed(at_rest(fitted, home.now), home.permissions, home.trust)


def at_rest(tables: Tables, now: float) -> Tables:
    """Nothing is under way, and a clean-up counts from now. Forges wake hooks alone."""
    fitted = {
        table: [row | _AT_REST[table](row) if table in _AT_REST else row for row in rows]
        for table, rows in tables.items()
    }
    if not any(row.get("kind") == "hook" for row in fitted["threads"]):
        fitted |= {"hook_keys": [], "hook_jobs": []}
    for table in ("threads", "pairs"):
        fitted[table] = [row | {"updated_at": now} for row in fitted.get(table, ())]
    return fitted


def narrowed(tables: Tables, permissions: Permissions, trust: Trust) -> Tables:
    """From elsewhere: with no more rights than these, and with nothing that would reach a prompt unseen.

    That is a job's full prompt, and what tools did: a job tells of those of processes that ran here. Raises UsageError.
    """
    threads = [
        row
        | {
            "permissions": _narrowed(row.get("permissions"), permissions),
            "trust": row.get("trust") if trust is Trust.PROJECT else Trust.USER.value,
        }
        for row in tables["threads"]
    ]
    jobs = [
        row
        | {
            "permissions": _narrowed(row.get("permissions"), permissions),
            "allowed_tools": "[]",
            "full_prompt": None,
        }
        for row in tables.get("jobs", ())
    ]
    attempts = [row | dict.fromkeys(PROCESS) for row in tables.get("attempts", ())]
    return tables | {"threads": threads, "jobs": jobs, "attempts": attempts}


def as_here(tables: Tables, before: Tables) -> Tables:
    """Rows that come instead of others: what is this machine's own stays as it was. Events do not, nor what ran."""
    kept = OF_THE_MACHINE - {*PROCESS}
    own = {
        (table, row["id"]): {name: row[name] for name in (*kept, *OF_ONES_OWN.get(table, ())) if name in row}
        for table, rows in before.items()
        for row in rows
        if "id" in row
    }
    return {table: [row | own.get((table, row.get("id")), {}) for row in rows] for table, rows in tables.items()}


def _filled(table: str, row: Row, home: Home) -> Row:
    known = columns()[table]
    here: Row = {
        "cwd": home.cwd,
        "work_dir": home.cwd,
        "top": home.top,
        "owner_host": home.owner.host,
        "owner_pid": home.owner.pid,
        "owner_started": home.owner.started,
    }
    kept = {name: value for name, value in row.items() if name not in OF_THE_MACHINE}
    return kept | {name: value for name, value in here.items() if name in known}


def _narrowed(wanted: Any, most: Permissions) -> str:
    try:
        found = Permissions(wanted)
    except ValueError:
        raise UsageError("The file names permissions that this Clew does not know.") from None
    return narrower(found, most).value


def _run(row: Row) -> Row:
    if row.get("status") not in LIVE:
        return {}
    return {"status": "interrupted", "outcome": "killed", "error": _NOT_SAID, "ended_at": row.get("created_at")}


def _attempt(row: Row) -> Row:
    return {} if row.get("ended_at") is not None else {"outcome": "killed", "ended_at": row.get("started_at")}


def _question(row: Row) -> Row:
    return {"state": "withdrawn", "reply": None} if row.get("state") == "open" else {}


def _job(row: Row) -> Row:
    if row.get("status") not in UNDER_WAY:
        return {}
    hint = "clew jobs retry goes on with it here."
    error = "The thread was put away before it had ended."
    return {"status": "cancelled", "worker": None, "error": error, "hint": hint}


def _round(row: Row) -> Row:
    return {"status": "failed", "error": _NOT_SAID} if row.get("status") == "running" else {}


def _hook_job(row: Row) -> Row:
    return {"reply": "none"} if row.get("reply") in ("waiting", "posting") else {}


_AT_REST: dict[str, Callable[[Row], Row]] = {
    "runs": _run,
    "attempts": _attempt,
    "questions": _question,
    "jobs": _job,
    "review_rounds": _round,
    "hook_jobs": _hook_job,
}


def renewed(tables: Tables, turns: Sequence[Turn], new_id: Callable[[], str]) -> Tables:
    """The same under ids that nobody has. What a session absorbed is told by digests that ids are part of."""
    ids = {
        str(row["id"]): new_id()
        for table in ("threads", "turns", "runs", "attempts", "pins", "jobs")
        for row in tables.get(table, ())
    }
    ids |= {str(row["id"]): pair_id(row["updated_at"], new_id()) for row in tables.get("pairs", ())}
    for run in tables.get("runs", ()):
        ids.setdefault(str(run.get("prompt_turn_id")), new_id())  # of a prompt that was never sent there is no turn
    digests = {digest(turn): digest(turn.replace(id=ids[turn.id])) for turn in turns if turn.id in ids}
    fitted = {table: [_renamed(row, ids) for row in rows] for table, rows in tables.items()}
    for absorbed in fitted.get("pin_absorbed", ()):
        absorbed["digest"] = digests.get(absorbed["digest"], absorbed["digest"])  # one that matched none matches none
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
