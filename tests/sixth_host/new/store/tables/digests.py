"""Digests in the store."""

from __future__ import annotations

from clew.core.digests import Digest

from clew.store.records import each
from clew.store.tables.table import DumpedTable, Table

DUMPED = (DumpedTable("digests", has_id=True, belongs_to={"thread_id": "threads"}),)


class DigestTable(Table):
    def create(self, digest: Digest) -> None:
        with self._database.transaction():
            self._database.do(
                "insert_digest", id=digest.id, thread_id=digest.thread_id, about=digest.about, text=digest.text
            )
            self._versions.changed(digest.thread_id)

    def all(self) -> list[Digest]:
        return each(lambda row: Digest(**row), self._database.all("digests"))
