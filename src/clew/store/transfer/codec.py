"""The codec of a thread's rows: what they look like in an export, in an archive and at a remote, and how they are read.

    dump       what `store.threads.dump` gives of one thread: its row, and lists of rows by table
    tables     the dumps of threads that belong together (the two of a pair), merged, by table
    portable   tables without what is meaningful only on one machine or in one store

An export is a zip of portable tables, a remote has them as chunks of lines, an archive is a JSON file of dumps. The
three differ in their container only; everything about the rows themselves is here:

1. A column with JSON that only Clew writes is an object in a dump (`NESTED`), and text in the database.
2. There is one way to write rows as JSON (`as_json`), so the same rows are the same bytes on every machine.
3. Texts may contain lone surrogates. UTF-8 with `surrogatepass` keeps them. An archive is ASCII and encodes them as the
   database does (`packed`), because JSON escapes cannot tell two lone surrogates from one character.
4. A file names the schema of its rows. Rows of an older schema lack columns, which then have their defaults; rows of a
   newer one are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from clew.core.record import Record
from clew.errors import UsageError
from clew.store.database import sql
from clew.store.database.text import pack, unpack
from clew.store.records import dumps
from clew.store.tables.table import Tables as Tables
from clew.store.transfer.dumped_tables import TABLES

Row = dict[str, Any]
Dump = Mapping[str, Any]

DUMPED = tuple(name for name in TABLES if name != "threads")  # a row's owner comes before the row
PIN_TABLES = ("pins", "pin_absorbed")  # written as records, because the store keeps a digest of them
PLAIN_TABLES = tuple(table for table in DUMPED if table not in PIN_TABLES)  # written as rows
HISTORY_TABLES = ("threads", "turns", "turn_revisions")
STATE_TABLES = (*(table for table in PLAIN_TABLES if table not in HISTORY_TABLES), *PIN_TABLES)
COUNTED = ("size_chars", "spent_usd")  # of a thread's row: triggers of the database compute them

NESTED = {name: [column for column, kept in table.json.items() if kept.is_nested] for name, table in TABLES.items()}

OWNER_COLUMNS = ("owner_host", "owner_pid", "owner_started")
DIRECTORY_COLUMNS = ("cwd", "work_dir", "top")
PROCESS_COLUMNS = ("mark", "pid", "pid_started")  # of an attempt's process on this machine
RULE_COLUMNS = ("tool_rules", "tool_rule")  # what a person has allowed, or may allow, on this machine
SHOWN_COLUMNS = ("typed",)  # what is shown in place of the text: who sends a thread must not choose it
_SESSION_FILE_COLUMNS = ("mark_size_bytes", "mark_last_entry", "mark_digest", "mark_stamp")
MACHINE_COLUMNS = frozenset(
    {
        *OWNER_COLUMNS,
        *DIRECTORY_COLUMNS,
        *PROCESS_COLUMNS,
        *_SESSION_FILE_COLUMNS,
        *RULE_COLUMNS,
        *SHOWN_COLUMNS,
        "worker",
        "imported_from",
    }
)
_PORTABLE_RUNTIME = ("agent", "product", "can_resume")  # fields that mean the same on other machines

AGAIN = "Export the thread again."


class PortableThread(Record):
    """A thread, or both threads of a pair, from an export or a remote. Nothing of it has been checked yet."""

    schema: object
    tables: Tables
    sessions: Mapping[str, bytes]  # the agents' session files, by their name in the export
    images: Mapping[str, bytes] = MappingProxyType({})  # the files of the prompts' images, by digest


def nested(table: str, row: Row) -> Row:
    """The row of the database as it is dumped."""
    return row | {name: json.loads(row[name]) if row[name] else None for name in NESTED[table]}


def flattened(table: str, row: Row) -> Row:
    """The dumped row as it is in the database. Raises RecursionError for what no JSON writer can write."""
    objects = {name: dumps(row[name]) for name in NESTED.get(table, ()) if isinstance(row.get(name), dict)}
    return row | objects


def merged(found: Sequence[Dump]) -> Tables:
    """The dumps of threads that belong together. A pair belongs to both of its threads, so it is in both dumps."""
    tables: Tables = {"threads": [dict(dump["thread"]) for dump in found]}
    for table in (*HISTORY_TABLES[1:], *STATE_TABLES):
        rows = [dict(row) for dump in found for row in dump.get(table, ())]
        tables[table] = rows
        if TABLES[table].is_shared:
            tables[table] = [row for place, row in enumerate(rows) if row not in rows[:place]]
    return tables


def portable(found: Sequence[Dump]) -> Tables:
    """The tables without directories, programs, processes, hosts and numbers of one store.

    So the same thread has the same rows on every machine.
    """
    tables = merged(found)
    for table, rows in tables.items():
        left_out = MACHINE_COLUMNS | TABLES[table].store_columns
        tables[table] = [{name: value for name, value in row.items() if name not in left_out} for row in rows]
    for pin in tables["pins"]:
        pin["runtime"] = {name: pin["runtime"].get(name) for name in _PORTABLE_RUNTIME}
    return tables


def check_schema(found: object, what: str) -> None:
    """Raises UsageError for rows that a newer Clew wrote. `what` is the file that holds them."""
    if type(found) is not int or found < 1:
        raise UsageError(f"{what} does not say which schema its rows have.", hint=AGAIN)
    if is_newer(found):
        raise UsageError(f"{what} was written by a newer Clew.", hint="Update Clew.")


def is_newer(schema: int) -> bool:
    return schema > sql.latest_version()


def as_json(value: Any, indent: int | None = None) -> bytes:
    """The JSON text of a value: equal values have the same text."""
    separators = (",", ": ") if indent else (",", ":")
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=separators, indent=indent, allow_nan=False)
    return f"{text}\n".encode("utf-8", "surrogatepass")


def from_json(content: bytes) -> Any:
    """Raises UsageError."""
    try:
        return json.loads(content.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise UsageError("The file is damaged: a part of it cannot be read.", hint=AGAIN) from error


def packed(value: Any) -> Any:
    """The same value, with every text in it as the database stores it."""
    return with_texts(value, pack)


def unpacked(value: Any) -> Any:
    """The original of what `packed` returned."""
    return with_texts(value, unpack)


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The same value, with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: with_texts(each, change) for key, each in value.items()}
    return [with_texts(each, change) for each in value] if isinstance(value, list) else value
