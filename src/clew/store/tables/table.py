"""What the tables share, and how they declare the rows that are dumped with a thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from clew.core.record import Record
from clew.store.database.database import Database
from clew.store.database.versions import Versions

Tables = dict[str, list[dict[str, Any]]]  # rows by table

_NONE: Mapping[str, Any] = MappingProxyType({})


class Json(NamedTuple):
    """A column that holds JSON as text."""

    shape: type[dict] | type[list]  # type: ignore[type-arg]
    items: type = object  # the type of a list's items
    is_nested: bool = False  # only Clew writes it, so a dump holds the object instead of the text


class DumpedTable(Record):
    """A table whose rows belong to a thread: they are archived, exported and pushed with it.

    Names, types and NOT NULL of its columns come from the database itself (`Database.catalogue`). What the database
    does not know is declared here, and a test compares it with the schema: JSON is TEXT in both databases, and not
    every id is a foreign key.
    """

    name: str
    has_id: bool = False  # its rows have an `id` that no other row has
    belongs_to: Mapping[str, str] = _NONE  # by column: the table of the owner, whose row is in the same file
    may_name: Mapping[str, str] = _NONE  # by column: the table of the named row, which is in the same file or nowhere
    json: Mapping[str, Json] = _NONE  # by column
    store_columns: frozenset[str] = frozenset()  # not exported, because they have a meaning in one store only
    is_shared: bool = False  # a row may belong to two threads


class Table:
    """One part of the store. `Store` makes each of them once and holds it."""

    def __init__(self, database: Database, versions: Versions) -> None:
        self._database = database
        self._versions = versions

    def adapt_imported(self, tables: Tables) -> None:
        """Replaces numbers and names that must be unique in the store, in rows that are about to be imported."""

    def read_back(self, thread_id: str) -> None:
        """Reads every row of the thread as a record. Raises when a row that was just imported makes no record."""


def free_name(name: str, max_chars: int, is_taken: Callable[[str], object]) -> str:
    """The name, or the name with -2, -3, … when it is taken. It is shortened if the suffix makes it too long."""
    number, candidate = 1, name
    while is_taken(candidate):
        number += 1
        suffix = f"-{number}"
        candidate = name[: max_chars - len(suffix)] + suffix
    return candidate
