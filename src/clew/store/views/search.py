"""Lists of threads by age, size or cost, and the search for turns by their words.

The index of words is the database's own (FTS5, or PostgreSQL's text search). Triggers maintain it: see migration 0007.
"""

from __future__ import annotations

import json
from typing import TypedDict, Unpack

from clew.core.history import Role
from clew.core.record import Record, check_keywords
from clew.core.search import SearchQuery, Snippet, parse_query, snippet
from clew.core.thread import Thread
from clew.store.database.database import Database, Row
from clew.store.records import ThreadSummary, each
from clew.store.tables.threads import ThreadTable
from clew.store.views.thread_views import PageFilters as PageFilters
from clew.store.views.thread_views import ThreadViews, pattern_of

SORTS = {"updated": "listed_by_updated", "size": "listed_by_size", "cost": "listed_by_cost"}
FEW_TURNS = 500  # up to this number, turns are searched one by one
SEARCHED_CHARS = 1_000_000  # how many characters of a turn are searched for the snippet


class ThreadFilters(PageFilters, total=False):
    """Which threads are listed, and in which order."""

    project: str | None  # threads of this directory and of those below it
    agent: str | None
    used_before: float | None
    used_after: float | None
    sort: str  # "updated" (the default), "size" or "cost"; the largest value comes first


class TurnFilters(TypedDict, total=False):
    """Which turns are searched, and which page of the hits is returned."""

    project: str | None  # threads of this directory and of those below it
    kind: str | None
    agent: str | None
    archived: bool  # also archived turns; default: False
    limit: int  # default: 20
    offset: int


class ListedThread(Record):
    """A thread in a list, with its size."""

    summary: ThreadSummary
    chars: int  # of the turns that are not archived


class SearchHit(Record):
    """A turn that contains the words."""

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

    def threads(self, **filters: Unpack[ThreadFilters]) -> list[ListedThread]:
        check_keywords(ThreadFilters, filters)
        with self._database.reading():
            rows = self._database.all(
                SORTS[filters.get("sort", "updated")],
                q=pattern_of(filters.get("q")),
                cwd=filters.get("cwd"),
                below=_below(filters.get("project")),
                kind=filters.get("kind"),
                agent=filters.get("agent"),
                before=filters.get("used_before"),
                after=filters.get("used_after"),
                limit=filters.get("limit", 50),
                offset=filters.get("offset", 0),
            )
            return [
                ListedThread(summary, row["size_chars"])
                for summary, row in zip(self._views.summaries(rows), rows, strict=True)
            ]

    def turns(self, text: str, **filters: Unpack[TurnFilters]) -> list[SearchHit]:
        """Turns that contain all of these words, the last stored first. A text without any word finds nothing."""
        check_keywords(TurnFilters, filters)
        words = parse_query(text)
        if not words:
            return []
        search = {
            "words": self._database.dialect.search_words(words),
            "archived": int(filters.get("archived", False)),
            "chars": SEARCHED_CHARS,
            "limit": filters.get("limit", 20),
            "offset": filters.get("offset", 0),
        }
        of_threads = {
            "kind": filters.get("kind"),
            "below": _below(filters.get("project")),
            "agent": filters.get("agent"),
        }
        with self._database.reading():
            numbers = self._few_turns(of_threads)
            if numbers is None:
                rows = self._database.all("search", **search, **of_threads)
            else:
                rows = self._database.all("search_within", numbers=json.dumps(numbers), **search)
            return each(lambda row: self._hit(row, words), rows)

    def _few_turns(self, of_threads: Row) -> list[int] | None:
        """The numbers of the turns of these threads, if there are few. None: there are many, or all threads are meant.

        The search is then limited to these turns. Otherwise it would read all hits of a common word in other threads.
        """
        if all(value is None for value in of_threads.values()):
            return None
        found = self._database.all("search_space", **of_threads, limit=FEW_TURNS + 1)
        return [row["n"] for row in found] if len(found) <= FEW_TURNS else None

    def _hit(self, row: Row, words: SearchQuery) -> SearchHit:
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
