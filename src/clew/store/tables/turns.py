"""The table of turns. They are appended, edited (the old text is kept) and archived, but never deleted alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clew.core.history import Absorbed, History, LongHistory, Turn
from clew.core.images import Image
from clew.core.record import replace
from clew.errors import NotFound, StoreError, UsageError
from clew.store.database.database import Database, Row
from clew.store.records import (
    Revision,
    StoredTurn,
    absorbed_in,
    each,
    first,
    images_from,
    is_outlined,
    outline_row,
    revision_from,
    stored_turn_from,
    turn_from,
    turn_row,
)
from clew.store.tables.table import Table


def no_such_turn(turn_id: str) -> NotFound:
    return NotFound(f"The thread has no turn {turn_id}.", hint="`clew threads show` lists its turns.")


class TurnTable(Table):
    def history(self, thread_id: str) -> History:
        """The turns that are not archived, in order."""
        return tuple(each(turn_from, self._database.all("history", thread_id=thread_id)))

    def long_history(self, thread_id: str) -> Sequence[Turn]:
        """The same as `history`, but the turns are read when somebody looks at them: a `LongHistory`.

        All of them are read now if the outline lacks a turn, because an older Clew wrote or edited it. Call it within
        `reading` or a transaction if the thread may change meanwhile.
        """
        found = self._database.one("outline", thread_id=thread_id)
        if found is None or found["outlined"] != found["n"]:
            return self.history(thread_id)
        outline = absorbed_in(found["listed"], found["n"])
        if outline is None:
            return self.history(thread_id)
        return LongHistory(outline, int(found["chars"]), _StoredTurns(self._database, self, thread_id))

    def complete_outline(self, thread_id: str) -> None:
        """Writes what the outline lacks, so that `long_history` needs to read no turns from now on."""
        with self._database.transaction():
            turns = each(turn_from, self._database.all("not_outlined", thread_id=thread_id))
            if turns:
                self._database.do_many("write_outline", [{"id": turn.id, **outline_row(turn)} for turn in turns])

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
                self._database.do("insert_turn", thread_id=thread_id, **turn_row(turn))
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
        self._database.do("insert_turn_at", thread_id=thread_id, position=row["position"], **turn_row(turn))

    def edit(self, turn_id: str, text: str, at: float, typed: str | None = None) -> Turn:
        """Replaces the turn's text; the old text is kept as a revision. Later turns stay.

        `typed`: what the user typed, if the text is what it stood for.
        """
        with self._database.transaction():
            row = self._standing_turn(turn_id)
            self._database.do("keep_revision", id=turn_id, at=at)
            edited = replace(turn_from(row), text=text, revision=row["revision"] + 1)
            self._database.do("edit_turn", id=turn_id, text=text, typed=typed, **outline_row(edited))
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

    def images(self, thread_id: str | None = None) -> list[Image]:
        """The images that any turn names, or any run: of a thread, or of all."""
        named = {} if thread_id is None else {"thread_id": thread_id}
        rows = self._database.all("images_named" if thread_id is None else "images_of_thread", **named)
        return [image for images in each(lambda row: images_from(row["images"]), rows) for image in images]

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


class _StoredTurns:
    """Reads the turns of a `LongHistory`."""

    def __init__(self, database: Database, table: TurnTable, thread_id: str) -> None:
        self._database = database
        self._table = table
        self._thread_id = thread_id

    def turns(self, outline: Sequence[Absorbed], after: int) -> History:
        """Normally they are still in the thread and unchanged. Else the thread was edited since the outline was read,
        and the texts of that time are found by their digests, among the archived turns and the revisions."""
        rows = self._database.all("newest_turns", thread_id=self._thread_id, count=len(outline), after=after)[::-1]
        if [row["absorbed_as"] for row in rows] == [*outline] and all(map(is_outlined, rows)):
            return tuple(each(turn_from, rows))
        known = {stored.turn.id: stored.turn for stored in self._table.all(self._thread_id)}
        return tuple(self._as_it_was(known.get(absorbed.turn_id), absorbed) for absorbed in outline)

    def _as_it_was(self, turn: Turn | None, absorbed: Absorbed) -> Turn:
        for text in self._texts(turn) if turn is not None else ():
            if Absorbed.of(text) == absorbed:
                return text
        raise StoreError(
            "A turn of the thread was removed from the database while its next turn was planned.",
            kind="corrupt",
            hint="Ask again; if it happens again, `clew doctor` checks the database.",
        )

    def _texts(self, turn: Turn) -> Iterator[Turn]:
        """The turn as it is, and as it was before each edit."""
        yield turn
        for earlier in self._table.revisions(turn.id):
            yield replace(turn, text=earlier.text, typed=None, revision=earlier.revision)

    def chars(self, first: int, stop: int) -> int:
        return self._database.number("chars_of_turns", thread_id=self._thread_id, first=first, count=stop - first)

    def end_of_others(self, agent: str, stop: int) -> int:
        return self._database.number("end_of_others", thread_id=self._thread_id, agent=agent, stop=stop)
