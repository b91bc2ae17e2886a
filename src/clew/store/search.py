"""Finding threads: a page of all by age, size or cost, and turns by their words.

The index of words is the database's own (FTS5, text search), kept by triggers: see the migration 0007.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from clew.core.history import Role
from clew.core.thread import Thread
from clew.store.cards import Cards, pattern_of
from clew.store.database import Row
from clew.store.records import ThreadCard, each

if TYPE_CHECKING:
    from clew.core.search import Snippet, Words

SORTS = {"updated": "listed_by_updated", "size": "listed_by_size", "cost": "listed_by_cost"}
MOST_LOOKED_AT = 1_000_000  # characters of a turn in which the hit is looked for


class Listed(NamedTuple):
    """A thread in a list, with its size."""

    card: ThreadCard
    chars: int  # of the turns that stand


class Hit(NamedTuple):
    """A turn that was found."""

    thread: Thread
    turn_id: str
    role: Role
    agent: str | None
    model: str | None
    created_at: float
    archived: bool
    snippet: Snippet


class Search(Cards):
    def listed(
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
    ) -> list[Listed]:
        """The last used, the largest or the dearest come first.

        `cwd` is a work directory, `project` one with all that is below it.
        """
        with self.reading():
            rows = self._all(
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
            return [Listed(card, row["size_chars"]) for card, row in zip(self._cards(rows), rows, strict=True)]

    def search(
        self,
        text: str,
        *,
        project: str | None = None,
        kind: str | None = None,
        agent: str | None = None,
        archived: bool = False,
        limit: int = 20,
        offset: int = 0,
    ) -> list[Hit]:
        """Turns with all of these words, the last that came first; a text without any word finds nothing."""
        from clew.core.search import parse_words

        words = parse_words(text)
        if not words:
            return []
        with self.reading():
            rows = self._all(
                "search",
                words=self._dialect.search_words(words),
                kind=kind,
                below=_below(project),
                agent=agent,
                archived=int(archived),
                most=MOST_LOOKED_AT,
                limit=limit,
                offset=offset,
            )
            return each(lambda row: self._hit(row, words), rows)

    def _hit(self, row: Row, words: Words) -> Hit:
        from clew.core.search import snippet

        return Hit(
            self._thread_by_id(row["thread_id"]),
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
