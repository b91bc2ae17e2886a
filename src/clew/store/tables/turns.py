"""The table of turns. They are appended, edited (the old text is kept) and archived, but never deleted alone."""

from __future__ import annotations

from clew.core.history import History, Turn
from clew.errors import NotFound, UsageError
from clew.store.database.database import Row
from clew.store.records import (
    Revision,
    StoredTurn,
    each,
    first,
    flat,
    revision_from,
    stored_turn_from,
    turn_from,
)
from clew.store.tables.table import Table


def no_such_turn(turn_id: str) -> NotFound:
    return NotFound(f"The thread has no turn {turn_id}.", hint="`clew threads show` lists its turns.")


class TurnTable(Table):
    def history(self, thread_id: str) -> History:
        """The turns that are not archived, in order."""
        return tuple(each(turn_from, self._database.all("history", thread_id=thread_id)))

    def all(self, thread_id: str) -> list[StoredTurn]:
        """All turns in order, the archived ones at their original positions."""
        return each(stored_turn_from, self._database.all("all_turns", thread_id=thread_id))

    def find(self, turn_id: str) -> Turn | None:
        """The turn, archived or not."""
        return first(turn_from, self._database.one("turn_by_id", id=turn_id))

    def add(self, thread_id: str, turn: Turn, *, before: str | None = None) -> None:
        """Appends the turn, or inserts it before that one. The thread was last used at its `created_at`."""
        with self._database.transaction():
            if before is None:
                self._database.do("insert_turn", thread_id=thread_id, **flat(turn))
            else:
                self._insert(thread_id, turn, before)
            self._database.do("touch_thread", id=thread_id, at=turn.created_at)
            self._versions.changed(thread_id)

    def _insert(self, thread_id: str, turn: Turn, before: str) -> None:
        """Moves all later turns by one. Their positions are negative in between, because no two may be the same."""
        row = self._turn_row(before)
        if row["thread_id"] != thread_id:
            raise no_such_turn(before)
        self._database.do("make_room", thread_id=thread_id, position=row["position"])
        self._database.do("take_room", thread_id=thread_id)
        self._database.do("insert_turn_at", thread_id=thread_id, position=row["position"], **flat(turn))

    def edit(self, turn_id: str, text: str, at: float, typed: str | None = None) -> Turn:
        """Replaces the turn's text; the old text is kept as a revision. Later turns stay.

        `typed`: what the user typed, if the text is what it stood for.
        """
        with self._database.transaction():
            row = self._standing_turn(turn_id)
            self._database.do("keep_revision", id=turn_id, at=at)
            self._database.do("edit_turn", id=turn_id, text=text, typed=typed)
            self._database.do("touch_thread", id=row["thread_id"], at=at)
            self._versions.changed(row["thread_id"])
            return turn_from(self._turn_row(turn_id))

    def archive(self, thread_id: str, from_turn_id: str, *, inclusive: bool, at: float, why: str) -> int:
        """Archives every turn after that one (`inclusive`: that one too). Returns how many."""
        with self._database.transaction():
            row = self._standing_turn(from_turn_id)
            if row["thread_id"] != thread_id:
                raise no_such_turn(from_turn_id)
            start = row["position"] + (0 if inclusive else 1)
            count = self._database.do("archive_turns", thread_id=thread_id, position=start, at=at, why=why)
            self._database.do("touch_thread", id=thread_id, at=at)
            self._versions.changed(thread_id)
        return count

    def revisions(self, turn_id: str) -> list[Revision]:
        """The earlier texts of the turn, the oldest first."""
        return each(revision_from, self._database.all("revisions", turn_id=turn_id))

    def _turn_row(self, turn_id: str) -> Row:
        row = self._database.one("turn_by_id", id=turn_id)
        if row is None:
            raise NotFound(f"There is no turn {turn_id}.", hint="`clew threads show` lists a thread's turns.")
        return row

    def _standing_turn(self, turn_id: str) -> Row:
        row = self._turn_row(turn_id)
        if row["archived_at"] is not None:
            raise UsageError(f"The turn {turn_id} has been archived ({row['archived_why']}).")
        return row
