"""The table of pins.

A session may have absorbed ten thousand turns, and each answer adds two. So the list of absorbed turns has its own
table, and the pin's row has the length and a digest of the list: when the stored list is the beginning of the new one,
as it nearly always is, only the rest is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.hashing import blake2b
from clew.core.history import Absorbed
from clew.core.pins import Pin, PinState, move
from clew.core.record import replace
from clew.store.database.database import Row
from clew.store.records import SEPARATOR, absorbed_from, absorbed_in, each, pin_from, pin_row
from clew.store.tables.table import Table


class PinTable(Table):
    def of_thread(
        self, thread_id: str, *, retired: bool = True, absorbed: bool = True, standing: Sequence[Absorbed] = ()
    ) -> tuple[Pin, ...]:
        """The pins of the thread in the order in which they were first saved.

        `retired=False` leaves out retired pins: no turn can resume them, and each may hold thousands of turns.
        `absorbed=False` gives pins that have absorbed nothing, for a caller that only looks at the sessions' files.
        `standing` is the outline of the thread, if the caller has it. What a session absorbed is nearly always its
        beginning: the digest in the pin's row tells, and then the list need not be read.
        """
        rows = self._database.all("pins_of_thread", thread_id=thread_id)
        wanted = [row for row in rows if retired or row["state"] != PinState.RETIRED.value]
        return tuple(each(lambda row: self._pin(row, standing) if absorbed else pin_from(row, ()), wanted))

    def of_session(self, session_id: str, *, retired: bool = False) -> Pin | None:
        """The newest pin of the thread that owns the session. Pins that borrow the session or are retired do not count.

        `retired`: if no thread owns the session, the newest retired pin.
        """
        rows = self._database.all("pins_of_session", session_id=session_id)
        own = [row for row in rows if row["state"] != PinState.RETIRED.value] or (rows if retired else [])
        return each(self._pin, own[-1:])[0] if own else None

    def give_up_session(self, session_id: str) -> None:
        """Retires every pin that could continue in the session. Pins that borrow it stay: they continue in a copy."""
        self._database.do("give_up_session", session_id=session_id)

    def _pin(self, row: Row, standing: Sequence[Absorbed] = ()) -> Pin:
        beginning = tuple(standing[: row["absorbed_count"]])
        if not _is_summary(row, beginning):
            beginning = self._absorbed(row)
        return pin_from(row, beginning)

    def _absorbed(self, row: Row) -> tuple[Absorbed, ...]:
        found = self._database.one("absorbed_listed", pin_id=row["id"])
        listed = absorbed_in(found["listed"], found["n"]) if found is not None else None
        if listed is not None and _is_summary(row, listed):
            return listed
        return tuple(each(absorbed_from, self._database.all("absorbed", pin_id=row["id"])))

    def save(self, pin: Pin) -> None:
        """Inserts or updates the pin. Raises IllegalMove for a state that cannot follow the stored one."""
        with self._database.transaction():
            self._database.belongs("pin", pin.id, pin.thread_id)
            stored = self._database.one("pin_summary", id=pin.id)
            if stored is None:
                self._database.do("insert_pin", **_pin_columns(pin, _summary(pin.absorbed)))
                self._write_absorbed(pin, 0)
                return
            # Checked against the stored state, not the caller's copy: another process may have poisoned the pin.
            move(replace(pin, state=PinState(stored["state"])), pin.state)
            count = stored["absorbed_count"]
            prefix = _summary(pin.absorbed[:count])
            grows = len(pin.absorbed) >= count and prefix.hexdigest() == stored["absorbed_digest"]
            if grows:
                prefix.update(_encoded(pin.absorbed[count:]))
            else:
                self._database.do("clear_absorbed", pin_id=pin.id)
            self._write_absorbed(pin, count if grows else 0)
            self._database.do("write_pin", **_pin_columns(pin, prefix if grows else _summary(pin.absorbed)))

    def _write_absorbed(self, pin: Pin, start: int) -> None:
        rows = [
            {"pin_id": pin.id, "n": number, "turn_id": known.turn_id, "digest": known.digest}
            for number, known in enumerate(pin.absorbed[start:], start)
        ]
        if rows:
            self._database.do_many("insert_absorbed", rows)


def _pin_columns(pin: Pin, summary: blake2b) -> Row:
    return {**pin_row(pin), "absorbed_count": len(pin.absorbed), "absorbed_digest": summary.hexdigest()}


def _summary(absorbed: Sequence[Absorbed]) -> blake2b:
    return blake2b(_encoded(absorbed), digest_size=16)


def _is_summary(row: Row, absorbed: Sequence[Absorbed]) -> bool:
    """Whether the pin was saved with exactly this list."""
    count, digest = row["absorbed_count"], row["absorbed_digest"]
    return bool(len(absorbed) == count and _summary(absorbed).hexdigest() == digest)


def _encoded(absorbed: Sequence[Absorbed]) -> bytes:
    """A unique encoding of the list: the length before each id makes it unique if an id contains a separator."""
    return (SEPARATOR.join(absorbed) + SEPARATOR if absorbed else "").encode("utf-8", "surrogatepass")
