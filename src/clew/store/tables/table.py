"""What the tables share: the database, the version counter, and how a free name is found."""

from __future__ import annotations

from collections.abc import Callable

from clew.store.database.database import Database
from clew.store.database.versions import Versions


class Table:
    """One part of the store. `Store` makes each of them once and holds it."""

    def __init__(self, database: Database, versions: Versions) -> None:
        self._database = database
        self._versions = versions


def free_name(name: str, max_chars: int, is_taken: Callable[[str], object]) -> str:
    """The name, or the name with -2, -3, … when it is taken. It is shortened if the suffix makes it too long."""
    number, candidate = 1, name
    while is_taken(candidate):
        number += 1
        suffix = f"-{number}"
        candidate = name[: max_chars - len(suffix)] + suffix
    return candidate
