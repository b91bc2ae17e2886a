"""A thread's rows on their way out and in: without the machine that they come from, and at home where they go to.

Out: directories, programs, processes and hosts are left out, and so are numbers that mean something in one store alone.
So the same thread gives the same rows on every machine. In: they are filled in again with what holds here; nothing
comes in that is under way, and nothing that allows more than the one who imports it would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.core.history import Turn, digest
from clew.core.job import UNDER_WAY
from clew.core.record import Record
from clew.core.run import LIVE, Owner
from clew.core.thread import Permissions, Trust
from clew.errors import UsageError
from clew.store.records import dumps
from clew.store.restoring import TABLES, checked, columns

Row = dict[str, Any]
Tables = dict[str, list[Row]]  # "threads", "pins", "pin_absorbed" and the rest, by table

DIRECTORIES = ("cwd", "work_dir", "top")
OWNER = ("owner_host", "owner_pid", "owner_started")
OF_THE_MACHINE = frozenset({*DIRECTORIES, *OWNER, "pid", "pid_started", "worker", "imported_from"})
OF_THE_STORE = {"threads": {"version"}, "jobs": {"number"}, "pins": {"absorbed_count", "absorbed_digest"}}
RUNTIME = ("agent", "product", "can_resume")  # of the runtime: what another machine's can be held against
HISTORY = ("threads", "turns", "turn_revisions")
STATE = (*(table for table in TABLES if table not in HISTORY), "pins", "pin_absorbed")

# Every row belongs to one that came with it: a file must not reach into threads that are here already.
_BELONGS = {
    "turns": {"thread_id": "threads"},
    "turn_revisions": {"turn_id": "turns"},
    "runs": {"thread_id": "threads"},
    "attempts": {"run_id": "runs"},
    "events": {"run_id": "runs"},
    "questions": {"run_id": "runs", "thread_id": "threads"},
    "jobs": {"thread_id": "threads"},
    "job_markers": {"job_id": "jobs"},
    "reviews": {"thread_id": "threads"},
    "review_rounds": {"review_id": "reviews"},
    "hook_keys": {"thread_id": "threads"},
    "hook_jobs": {"job_id": "jobs"},
    "pairs": {"instructor_thread_id": "threads", "worker_thread_id": "threads"},
    "pair_rounds": {"pair_id": "pairs"},
    "pair_files": {"pair_id": "pairs"},
    "pins": {"thread_id": "threads"},
    "pin_absorbed": {"pin_id": "pins"},
}
_WORD = re.compile(r"[A-Za-z0-9][^\s\x00-\x1f\x7f]{0,199}\Z")  # it goes on a command line, and is no option there

WIDTH = (Permissions.READ_ONLY, Permissions.ASK, Permissions.EDITS, Permissions.ALL)  # each allows more than the last
_NOT_SAID = "The thread was exported before this run had ended."


class Home(Record):
    """What holds for an imported thread here."""

    cwd: str
    top: str  # of the repository, or the directory itself
    owner: Owner
    permissions: Permissions  # the widest that an import may bring
    trust: Trust


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


def read(content: object) -> Tables:
    """Rows by table, of what a file holds. Raises UsageError."""
    if not isinstance(content, dict) or not content.keys() <= {*HISTORY, *STATE}:
        raise UsageError("The file holds what this Clew does not know.", hint="Update Clew.")
    for table, rows in content.items():
        if not isinstance(rows, list):
            raise UsageError(f"The file's {table} are no rows.")
        for row in rows:
            checked(table, row)
            _check_words(row)
    return content


def _check_words(row: Row) -> None:
    """Names of agents and models: an agent is started with them."""
    for name, value in row.items():
        if name in ("agent", "model", "kind") or name.endswith("_model"):
            if value and not _WORD.match(value):
                raise UsageError(f"The file names {'an' if name == 'agent' else 'a'} {name} that can be none.")
        elif name == "models" and re.search(r'"\s*-', value):
            raise UsageError("The file names a model that can be none.")


def check_belongings(tables: Tables) -> None:
    """Raises UsageError for a row that belongs to nothing in the file."""
    ids = {table: {row.get("id") for row in tables.get(table, ())} for table in ("threads", "turns", "runs", "pins")}
    ids |= {table: {row.get("id") for row in tables.get(table, ())} for table in ("jobs", "reviews", "pairs")}
    for table, belongs in _BELONGS.items():
        for row in tables.get(table, ()):
            if any(row.get(column) not in ids[owner] for column, owner in belongs.items()):
                raise UsageError("The file's rows do not fit together.", hint="Export the thread again.")


def inward(tables: Tables, home: Home) -> Tables:
    """At home here, and at rest."""
    fitted = {table: [_filled(table, row, home) for row in rows] for table, rows in tables.items()}
    hooked = any(row.get("kind") == "hook" for row in fitted["threads"])
    if not hooked:
        fitted["hook_keys"], fitted["hook_jobs"] = [], []
    for table, rows in fitted.items():
        rest = _AT_REST.get(table)
        if rest is not None:
            for row in rows:
                row.update(rest(row))
    for thread in fitted["threads"]:
        thread["permissions"] = _narrowed(thread.get("permissions"), home.permissions)
        thread["trust"] = thread.get("trust") if home.trust is Trust.PROJECT else Trust.USER.value
    for job in fitted.get("jobs", ()):
        job["permissions"] = _narrowed(job.get("permissions"), home.permissions)
        job["allowed_tools"] = "[]"
    return fitted


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
    return min(found, most, key=WIDTH.index).value


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
    return {"status": "cancelled", "error": "It was exported before it had ended.", "hint": hint}


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
        for table in ("threads", "turns", "runs", "attempts", "pins", "jobs", "pairs")
        for row in tables.get(table, ())
    }
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
    try:
        asked = json.loads(body)
    except ValueError:
        return body
    if isinstance(asked, dict) and asked.get("retry_of") in ids:
        asked["retry_of"] = ids[asked["retry_of"]]
    return dumps(asked)
