"""The table of pins.

A session may have absorbed ten thousand turns, and each answer adds two. So the list of absorbed turns has its own
table, and the pin's row has the length and a digest of the list: when the stored list is the beginning of the new one,
as it nearly always is, only the rest is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from clew.core.pins import Absorbed, Pin, PinState, move
from clew.core.record import replace
from clew.store.database.database import Row
from clew.store.records import absorbed_from, each, pin_from, pin_row
from clew.store.tables.table import Table


class PinTable(Table):
    def of_thread(self, thread_id: str, *, retired: bool = True, absorbed: bool = True) -> tuple[Pin, ...]:
        """The pins of the thread in the order in which they were first saved.

        `retired=False` leaves out retired pins: no turn can resume them, and each may hold thousands of turns.
        `absorbed=False` gives pins that have absorbed nothing, for a caller that only looks at the sessions' files.
        """
        rows = self._database.all("pins_of_thread", thread_id=thread_id)
        wanted = [row for row in rows if retired or row["state"] != PinState.RETIRED.value]
        return tuple(each(self._pin if absorbed else lambda row: pin_from(row, ()), wanted))

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

    def _pin(self, row: Row) -> Pin:
        absorbed = self._database.all("absorbed", pin_id=row["id"]) if row["absorbed_count"] else []
        return pin_from(row, tuple(each(absorbed_from, absorbed)))

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


def _pin_columns(pin: Pin, summary: hashlib.blake2b) -> Row:
    return {**pin_row(pin), "absorbed_count": len(pin.absorbed), "absorbed_digest": summary.hexdigest()}


def _summary(absorbed: Sequence[Absorbed]) -> hashlib.blake2b:
    return hashlib.blake2b(_encoded(absorbed), digest_size=16)


def _encoded(absorbed: Sequence[Absorbed]) -> bytes:
    """A unique encoding of the list: the length before each id makes it unique if an id contains a separator."""
    parts = (f"{len(known.turn_id)}:{known.turn_id}:{known.digest or ''};" for known in absorbed)
    return "".join(parts).encode("utf-8", "surrogatepass")
