"""What the parts of the store have in common: the connection that they share, and the versions that they move."""

from __future__ import annotations

from clew.store.database.database import Database
from clew.store.database.versions import Versions


class Table:
    """One part of the store. `Store` makes each of them once and holds it."""

    def __init__(self, database: Database, versions: Versions) -> None:
        self._database = database
        self._versions = versions
