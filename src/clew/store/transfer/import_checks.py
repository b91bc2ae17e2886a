"""The check of rows that come from a file: imports, pulls and archives all use it before they trust a row.

Columns and types must be those of the database. Numbers must be within bounds, so that they can be added and times can
be shown as dates. Ids and names are used in paths and on terminals, and models on command lines, so each must be a
single word. And every row must belong to a row of the same file, so that a file cannot change other threads.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from clew.core.images import MAX_IMAGES, image_from
from clew.core.thread import KINDS, NAME, OriginKind, is_safe_argument
from clew.errors import UsageError
from clew.store.database.dialect import Catalogue, Column
from clew.store.rows.reviews import is_packed
from clew.store.transfer.codec import AGAIN, DUMPED, NESTED, Row, flattened
from clew.store.transfer.dumped_tables import TABLES

Tables = Mapping[str, Sequence[Row]]  # "threads", "pins" and the rest, by table

MAX_THREADS = 2  # a file holds one thread, or the two of a pair
MAX_COUNT = 10**12  # small enough that a million of them can be added
MAX_TIME = 253_402_300_799.0  # the last second of the year 9999
MAX_UNPACKED_BYTES = 64 * 1024**2  # of the diff or the files of a review's round
MAX_AMOUNT = 1e9  # of money, and of seconds in a duration
MAX_SOURCES = 100  # threads that a thread was made from

_HINT = "Write the file again where it comes from."
_AGENT = re.compile(r"[^\W_][\w.-]{0,79}\Z")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,199}\Z")
_NAMES = frozenset({("threads", "name"), ("pairs", "name"), ("pairs", "id")})  # used in paths
_FOREIGN_IDS = frozenset({"message_id", "hook_id"})  # ids of agents and forges, which are only compared
_MAY_BE_NEGATIVE = frozenset({"exit_status", "session_age_s"})


def check(tables: object, catalogue: Catalogue) -> None:
    """Raises UsageError for rows that must not be imported."""
    if not isinstance(tables, dict) or not tables.keys() <= {"threads", *DUMPED}:
        raise UsageError("The file has tables that this Clew does not know.", hint="Update Clew.")
    for name, rows in tables.items():
        if not isinstance(rows, list):
            raise UsageError(f"The file's {name} are not a list of rows.", hint=_HINT)
        for row in rows:
            checked(name, row, catalogue)
            _check_values(name, row)
    ids = {name: {row["id"] for row in tables.get(name, ())} for name, table in TABLES.items() if table.has_id}
    for name, table in TABLES.items():
        for column, owner in table.belongs_to.items():
            if any(row.get(column) not in ids[owner] for row in tables.get(name, ())):
                raise UsageError("The file's rows do not fit together.", hint=_HINT)
    if not 1 <= len(tables.get("threads", ())) <= MAX_THREADS:
        raise UsageError("The file holds no thread.", hint=AGAIN)


def checked(table: str, row: object, catalogue: Catalogue) -> Row:
    """The row for the database. Raises UsageError for a column, a type or a value that the table cannot have."""
    known = catalogue[table]
    if not isinstance(row, dict) or not row.keys() <= known.keys():
        raise UsageError(f"The file has a row of {table} that this Clew does not know.", hint="Update Clew.")
    try:
        flat = flattened(table, row)
    except RecursionError:
        raise _invalid(table, NESTED[table][0]) from None
    return {name: _value(table, name, known[name], value) for name, value in flat.items()}


def named_elsewhere(tables: Tables) -> dict[str, set[str]]:
    """By table: the ids that rows name, but that are not in the file. The store must have no row with such an id."""
    found: dict[str, set[str]] = {"turns": set(), "runs": set(), "jobs": set()}
    for name, table in TABLES.items():
        for column, owner in table.may_name.items():
            found[owner] |= {row[column] for row in tables.get(name, ()) if row.get(column) is not None}
    return {owner: named - {row["id"] for row in tables.get(owner, ())} for owner, named in found.items()}


def _value(table: str, name: str, column: Column, value: Any) -> Any:
    if value is None and not column.is_required:
        return None
    match column.kind:
        case "TEXT" if isinstance(value, str):
            return value
        case "SMALLINT" if type(value) is int and value in (0, 1):
            return value
        case "BIGINT" if type(value) is int and _is_within(name, value, MAX_COUNT):
            return value
        case "DOUBLE PRECISION" if type(value) in (int, float) and _is_within(name, value, _limit(name)):
            return float(value)
    raise _invalid(table, name)


def _limit(name: str) -> float:
    is_time = name == "at" or name.endswith(("_at", "_started", "_before"))
    return MAX_TIME if is_time else MAX_AMOUNT


def _is_within(name: str, value: float, limit: float) -> bool:
    return math.isfinite(value) and (-limit if name in _MAY_BE_NEGATIVE else 0) <= value <= limit


def _check_values(table: str, row: Row) -> None:
    """Checks names, ids, JSON and other columns that are more than a number or free text."""
    if TABLES[table].has_id and "id" not in row:
        raise _invalid(table, "id")
    for name, value in row.items():
        if value is not None and not _is_valid(table, name, value):
            raise _invalid(table, name)


def _is_valid(table: str, name: str, value: Any) -> bool:
    if (table, name) in _NAMES:
        return NAME.match(value) is not None
    if (table, name) == ("threads", "kind"):
        return value in KINDS
    if name == "agent":
        return _AGENT.match(value) is not None
    if name in ("kind", "model") or name.endswith("_model"):
        return is_safe_argument(value)
    if name == "session_id" and not value:
        return True  # there was no session yet
    if (table, name) == ("pins", "borrowed_at"):
        return not value or _ID.match(value) is not None  # the id of a message, which is used on a command line
    if (name == "id" and TABLES[table].has_id) or (name.endswith("_id") and name not in _FOREIGN_IDS):
        return _ID.match(value) is not None
    if table == "review_rounds" and name in ("diff", "files"):
        return is_packed(value, files=name == "files", max_bytes=MAX_UNPACKED_BYTES)
    return _is_valid_json(table, name, value)


def _is_valid_json(table: str, name: str, value: Any) -> bool:
    place = (table, name)
    if place == ("pins", "runtime"):
        return isinstance(value, dict) and all(isinstance(each, str | int | None) for each in value.values())
    if place == ("pins", "pending"):
        return isinstance(value, dict) and _is_pending(value)
    kept = TABLES[table].json.get(name)
    if kept is None or kept.is_nested:
        return True
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, kept.shape):
        return False
    if isinstance(found, list):
        are_items = all(isinstance(each, kept.items) for each in found)
        if name == "images":
            return are_items and len(found) <= MAX_IMAGES and all(map(_is_image, found))
        return are_items and (name != "models" or all(is_safe_argument(each) for each in found))
    if place == ("threads", "origin"):
        return _is_origin(found)
    if place == ("jobs", "limits"):
        return all(_is_number_or_none(each) for each in found.values())
    if place == ("runs", "asked"):
        ids = (found.get("retry_of"), found.get("continues"))
        are_ids = all(each is None or (isinstance(each, str) and _ID.match(each) is not None) for each in ids)
        return are_ids and all(_is_number_or_none(found.get(name)) for name in ("timeout_s", "not_before"))
    return True


def _is_origin(value: Mapping[str, Any]) -> bool:
    of, at_round = value.get("of"), value.get("round")
    return (
        value.keys() == {"how", "of", "round"}
        and value["how"] in list(OriginKind)
        and isinstance(of, list)
        and 1 <= len(of) <= MAX_SOURCES
        and all(isinstance(each, dict) and each.keys() == {"id", "name"} for each in of)
        and all(isinstance(each["id"], str) and _ID.match(each["id"]) is not None for each in of)
        and all(isinstance(each["name"], str) and NAME.match(each["name"]) is not None for each in of)
        and (at_round is None or (type(at_round) is int and 0 <= at_round <= MAX_COUNT))
    )


def _is_pending(value: Mapping[str, Any]) -> bool:
    shown = value.get("shown")
    return (
        isinstance(value.get("user_uuid"), str)
        and isinstance(shown, list)
        and all(isinstance(each, list) and len(each) == 2 and isinstance(each[0], str) for each in shown)
        and all(isinstance(each, str | None) for each in (value.get("standing"), *(known for _, known in shown)))
    )


def _is_image(value: Mapping[str, Any]) -> bool:
    try:
        return image_from(value).as_dict() == value
    except ValueError:
        return False


def _is_number_or_none(value: object) -> bool:
    return value is None or (type(value) in (int, float) and _is_within("", value, MAX_TIME))  # type: ignore[arg-type]


def _invalid(table: str, name: str) -> UsageError:
    return UsageError(f"The file has a row of {table} whose {name} is not valid.", hint=_HINT)
