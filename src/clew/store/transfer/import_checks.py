"""Rows that come out of a file, before any of them is believed: the one check of imports, pulls and archives.

Columns and types must be those of the migrations, and numbers within bounds in which sums still work and times have a
date. Ids and names become parts of paths and of what a terminal shows, models go on command lines: none may be more
than a word. And every row belongs to one that came with it, or a file would reach into threads that are here already.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from clew.core.thread import KINDS, NAME, How, is_word
from clew.errors import UsageError
from clew.store import sql
from clew.store.records import dumps
from clew.store.review_rows import is_packed
from clew.store.threads import DUMPED

Row = dict[str, Any]
Tables = Mapping[str, Sequence[Row]]  # "threads", "pins" and the rest, by table

JSON_COLUMNS = frozenset({("events", "body"), ("questions", "input"), ("pins", "runtime"), ("pins", "pending")})

COUNT_MOST = 10**12  # a million rows of it can still be added up
TIME_MOST = 253_402_300_799.0  # the last second of the year 9999
PACKED_MOST = 64 * 1024**2  # bytes of what a review's round keeps packed, when it is unpacked
AMOUNT_MOST = 1e9  # of money; and of seconds, where it is not a time
SOURCES_MOST = 100  # threads that one came of

_HINT = "Write the file again where it comes from."
_AGENT = re.compile(r"[^\W_][\w.-]{0,79}\Z")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}\Z")
_NAMES = frozenset({("threads", "name"), ("pairs", "name"), ("pairs", "id")})  # they become parts of paths
_OWN_IDS = frozenset({"threads", "turns", "runs", "attempts", "pins", "jobs", "reviews", "pairs"})  # have an `id`
_SAID_BY_OTHERS = frozenset({"message_id", "hook_id"})  # agents' and forges' own, which are only compared
_MAY_BE_NEGATIVE = frozenset({"exit_status", "session_age_s"})

# What a row must name, in the file.
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
    "pins": {"thread_id": "threads"},
    "pin_absorbed": {"pin_id": "pins"},
}
# What it may name: in the file, or nowhere. The turn of a prompt that was never sent is nowhere.
_MAY_NAME = {
    "turns": {"run_id": "runs"},
    "runs": {"prompt_turn_id": "turns", "answer_turn_id": "turns"},
    "jobs": {"run_id": "runs", "saved_run_id": "runs", "prompt_turn_id": "turns"},
    "job_markers": {"run_id": "runs"},
    "review_rounds": {"run_id": "runs", "first_run_id": "runs"},
    "pairs": {"run_id": "runs"},
    "pair_rounds": {"instructor_run_id": "runs", "worker_run_id": "runs"},
}

# JSON that is stored as text: what it is made of.
_OBJECTS = frozenset(
    {
        ("threads", "origin"),
        ("runs", "asked"),
        ("questions", "reply"),
        ("jobs", "limits"),
        ("review_rounds", "answer"),
        ("pair_rounds", "instructor_order"),
    }
)
_LISTS = {
    ("jobs", "allowed_tools"): str,
    ("jobs", "conflicts"): str,
    ("reviews", "paths"): str,
    ("review_rounds", "changed_since"): str,
    ("review_rounds", "changes"): dict,
    ("pairs", "models"): str,
    ("pairs", "changed_files"): str,
    ("pair_rounds", "changed_files"): str,
}

_TYPE = r"(TEXT|BIGINT|SMALLINT|DOUBLE PRECISION)( NOT NULL)?"
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*)\)\Z", re.DOTALL)
_COLUMN = re.compile(rf"^\s+(\w+) {_TYPE}", re.MULTILINE)
_ADDED = re.compile(rf"ALTER TABLE (\w+) ADD COLUMN (\w+) {_TYPE}")


class Column(NamedTuple):
    kind: str
    required: bool


@cache
def columns() -> dict[str, dict[str, Column]]:
    """Every table's, as the migrations have them."""
    found: dict[str, dict[str, Column]] = {}
    for file in sql.migrations():
        for statement in sql.statements(file):
            made = _TABLE.match(statement)
            if made is not None:
                found[made[1]] = {name: Column(kind, bool(must)) for name, kind, must in _COLUMN.findall(made[2])}
            added = _ADDED.match(statement)
            if added is not None:
                found[added[1]][added[2]] = Column(added[3], bool(added[4]))
    return found


def check(tables: object) -> None:
    """Raises UsageError, in one line, for a file's rows that may not come in."""
    if not isinstance(tables, dict) or not tables.keys() <= {"threads", *DUMPED}:
        raise UsageError("The file holds what this Clew does not know.", hint="Update Clew.")
    for table, rows in tables.items():
        if not isinstance(rows, list):
            raise UsageError(f"The file's {table} are no rows.", hint=_HINT)
        for row in rows:
            checked(table, row)
            _check_words(table, row)
    ids = {table: {row["id"] for row in tables.get(table, ())} for table in _OWN_IDS}
    for table, belongs in _BELONGS.items():
        for row in tables.get(table, ()):
            if any(row.get(column) not in ids[owner] for column, owner in belongs.items()):
                raise UsageError("The file's rows do not fit together.", hint=_HINT)


def checked(table: str, row: object) -> Row:
    """The row as it may be written. Raises UsageError for a column, a type or a value that the table does not have."""
    known = columns()[table]
    if not isinstance(row, dict) or not row.keys() <= known.keys():
        raise UsageError(f"The file holds a row of {table} that this Clew does not know.", hint="Update Clew.")
    return {name: _value(table, name, known[name], value) for name, value in row.items()}


def named_elsewhere(tables: Tables) -> dict[str, set[str]]:
    """By table, the ids that rows name without having brought them: what is here must have none of these."""
    found: dict[str, set[str]] = {"turns": set(), "runs": set()}
    for table, may_name in _MAY_NAME.items():
        for row in tables.get(table, ()):
            for column, owner in may_name.items():
                if row.get(column) is not None:
                    found[owner].add(row[column])
    return {owner: named - {row["id"] for row in tables.get(owner, ())} for owner, named in found.items()}


def _value(table: str, name: str, column: Column, value: Any) -> Any:
    if value is None and not column.required:
        return None
    try:
        match column.kind:
            case "TEXT" if isinstance(value, str):
                return value
            case "TEXT" if (table, name) in JSON_COLUMNS and isinstance(value, dict):
                return dumps(value)
            case "SMALLINT" if type(value) is int and value in (0, 1):
                return value
            case "BIGINT" if type(value) is int and _is_within(name, value, COUNT_MOST):
                return value
            case "DOUBLE PRECISION" if type(value) in (int, float) and _is_within(name, value, _most(name)):
                return float(value)
    except RecursionError:
        pass
    raise _senseless(table, name)


def _most(name: str) -> float:
    is_time = name == "at" or name.endswith(("_at", "_started", "_before"))
    return TIME_MOST if is_time else AMOUNT_MOST


def _is_within(name: str, value: float, most: float) -> bool:
    return math.isfinite(value) and (-most if name in _MAY_BE_NEGATIVE else 0) <= value <= most


def _check_words(table: str, row: Row) -> None:
    """What is more than a number, or a text that somebody said."""
    if table in _OWN_IDS and "id" not in row:
        raise _senseless(table, "id")
    for name, value in row.items():
        if value is not None and not _fits(table, name, value):
            raise _senseless(table, name)


def _fits(table: str, name: str, value: Any) -> bool:
    if (table, name) in _NAMES:
        return NAME.match(value) is not None
    if (table, name) == ("threads", "kind"):
        return value in KINDS
    if name == "agent":
        return _AGENT.match(value) is not None
    if name in ("kind", "model") or name.endswith("_model"):
        return is_word(value)
    if name == "session_id" and not value:
        return True  # it had none yet
    if (table, name) == ("pins", "borrowed_at"):
        return not value or _ID.match(value) is not None  # a message's id, which goes on a command line
    if (name == "id" and table in _OWN_IDS) or (name.endswith("_id") and name not in _SAID_BY_OTHERS):
        return _ID.match(value) is not None
    if table == "review_rounds" and name in ("diff", "files"):
        return is_packed(value, files=name == "files", most=PACKED_MOST)
    return _fits_json(table, name, value)


def _fits_json(table: str, name: str, value: Any) -> bool:
    place = (table, name)
    if place == ("pins", "runtime"):
        return isinstance(value, dict) and all(isinstance(each, str | int | None) for each in value.values())
    if place == ("pins", "pending"):
        return isinstance(value, dict) and _can_be_pending(value)
    if place not in _OBJECTS and place not in _LISTS:
        return True
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return False
    if place in _LISTS:
        is_list = isinstance(found, list) and all(isinstance(each, _LISTS[place]) for each in found)
        return is_list and (name != "models" or all(is_word(each) for each in found))
    if not isinstance(found, dict):
        return False
    if place == ("threads", "origin"):
        return _can_be_origin(found)
    if place == ("jobs", "limits"):
        return all(_is_number_or_none(each) for each in found.values())
    if place == ("runs", "asked"):
        retry_of = found.get("retry_of")
        is_turn = all(
            each is None or (isinstance(each, str) and _ID.match(each) is not None)
            for each in (retry_of, found.get("continues"))
        )
        return is_turn and all(_is_number_or_none(found.get(name)) for name in ("timeout_s", "not_before"))
    return True


def _can_be_origin(value: Mapping[str, Any]) -> bool:
    of, at_round = value.get("of"), value.get("round")
    return (
        value.keys() == {"how", "of", "round"}
        and value["how"] in list(How)
        and isinstance(of, list)
        and 1 <= len(of) <= SOURCES_MOST
        and all(isinstance(each, dict) and each.keys() == {"id", "name"} for each in of)
        and all(isinstance(each["id"], str) and _ID.match(each["id"]) is not None for each in of)
        and all(isinstance(each["name"], str) and NAME.match(each["name"]) is not None for each in of)
        and (at_round is None or (type(at_round) is int and 0 <= at_round <= COUNT_MOST))
    )


def _can_be_pending(value: Mapping[str, Any]) -> bool:
    shown = value.get("shown")
    return (
        isinstance(value.get("user_uuid"), str)
        and isinstance(shown, list)
        and all(isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in shown)
        and all(isinstance(each, str | None) for each in (value.get("standing"), *(known for _, known in shown)))
    )


def _is_number_or_none(value: object) -> bool:
    return value is None or (type(value) in (int, float) and _is_within("", value, TIME_MOST))  # type: ignore[arg-type]


def _senseless(table: str, name: str) -> UsageError:
    return UsageError(f"The file holds a row of {table} whose {name} makes no sense.", hint=_HINT)
