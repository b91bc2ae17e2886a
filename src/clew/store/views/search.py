"""Finding threads: a page of all by age, size or cost, and turns by their words.

The index of words is the database's own (FTS5, text search), kept by triggers: see the migration 0007.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from clew.core.history import Role
from clew.core.record import Record
from clew.core.thread import Thread
from clew.store.database.database import Database, Row
from clew.store.records import ThreadSummary, each
from clew.store.tables.threads import ThreadTable
from clew.store.views.thread_views import ThreadViews, pattern_of

if TYPE_CHECKING:
    from clew.core.search import SearchQuery, Snippet

SORTS = {"updated": "listed_by_updated", "size": "listed_by_size", "cost": "listed_by_cost"}
FEW_TURNS = 500  # that are looked at one by one
MOST_LOOKED_AT = 1_000_000  # characters of a turn in which the hit is looked for


class ListedThread(Record):
    """A thread in a list, with its size."""

    summary: ThreadSummary
    chars: int  # of the turns that stand


class SearchHit(Record):
    """A turn that was found."""

    thread: Thread
    turn_id: str
    role: Role
    agent: str | None
    model: str | None
    created_at: float
    archived: bool
    snippet: Snippet


class ThreadSearch:
    def __init__(self, database: Database, threads: ThreadTable, views: ThreadViews) -> None:
        self._database, self._threads, self._views = database, threads, views

    def threads(
        self,
        *,
        q: str | None = None,
        cwd: str | None = None,
        project: str | None = None,
        kind: str | None = None,
        agent: str | None = None,
        used_before: float | None = None,
        used_after: float | None = None,
        sort: str = "updated",
        limit: int = 50,
        offset: int = 0,
    ) -> list[ListedThread]:
        """The last used, the largest or the dearest come first.

        `cwd` is a work directory, `project` one with all that is below it.
        """
        with self._database.reading():
            rows = self._database.all(
                SORTS[sort],
                q=None if q is None else pattern_of(q),
                cwd=cwd,
                below=_below(project),
                kind=kind,
                agent=agent,
                before=used_before,
                after=used_after,
                limit=limit,
                offset=offset,
            )
            return [
                ListedThread(summary, row["size_chars"])
                for summary, row in zip(self._views.summaries(rows), rows, strict=True)
            ]

    def turns(
        self,
        text: str,
        *,
        project: str | None = None,
        kind: str | None = None,
        agent: str | None = None,
        archived: bool = False,
        limit: int = 20,
        offset: int = 0,
    ) -> list[SearchHit]:
        """Turns with all of these words, those stored last first; a text without any word finds nothing."""
        from clew.core.search import parse_query

        words = parse_query(text)
        if not words:
            return []
        looked_for = {
            "words": self._database.dialect.search_words(words),
            "archived": int(archived),
            "most": MOST_LOOKED_AT,
        }
        page = {"limit": limit, "offset": offset}
        of = {"kind": kind, "below": _below(project), "agent": agent}
        with self._database.reading():
            space = self._space(of)
            if space is None:
                rows = self._database.all("search", **looked_for, **of, **page)
            else:
                rows = self._database.all("search_within", numbers=json.dumps(space), **looked_for, **page)
            return each(lambda row: self._hit(row, words), rows)

    def _space(self, of: Row) -> list[int] | None:
        """The turns of the threads that are asked about, where they are few: a common word that stands in none of them
        would have to be looked for in all others. None: they are many, or all."""
        if all(value is None for value in of.values()):
            return None
        found = self._database.all("search_space", **of, limit=FEW_TURNS + 1)
        return [row["n"] for row in found] if len(found) <= FEW_TURNS else None

    def _hit(self, row: Row, words: SearchQuery) -> SearchHit:
        from clew.core.search import snippet

        return SearchHit(
            self._threads.require_by_id(row["thread_id"]),
            row["id"],
            Role(row["role"]),
            row["agent"],
            row["model"],
            row["created_at"],
            row["archived_at"] is not None,
            snippet(row["text"], words),
        )


def _below(project: str | None) -> str | None:
    return None if project is None else f"{project.rstrip('/')}/"
