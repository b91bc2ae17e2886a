"""Who stops reading is let go: what waits for such a reader would be held for ever, and so would its place.

A transport only says how much it still holds, so it is looked at again and again. A reader takes something when its
buffer got smaller or ran empty between two looks, or when its writer was allowed to go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Protocol

from clew.core.record import Record

LOOK_S = 1.0


class Reader(Protocol):
    """A connection as this room makes them (`wire.py`)."""

    transport: asyncio.Transport
    patience_s: float  # how long it may take nothing
    resumed: int  # how often its writer was allowed to go on


class Waiting(Record):
    """What was seen of a reader at the last look."""

    held_bytes: int
    resumed: int
    since: float  # the last moment in which it had taken something


class Patience:
    """Watches the connections of one server."""

    def __init__(self, connections: Set[Reader]) -> None:
        self._connections = connections
        self._waiting: dict[Reader, Waiting] = {}

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look(asyncio.get_running_loop().time())

    def look(self, now: float) -> None:
        """Lets those go who took nothing for as long as they may."""
        before, self._waiting = self._waiting, {}
        for reader in list(self._connections):
            held = reader.transport.get_write_buffer_size()
            if not held:
                continue
            seen = before.get(reader)
            stuck = seen is not None and held >= seen.held_bytes and reader.resumed == seen.resumed
            since = seen.since if seen is not None and stuck else now
            if now - since >= reader.patience_s:
                reader.transport.abort()
            else:
                self._waiting[reader] = Waiting(held, reader.resumed, since)

    def end(self, now: float, *, stuck_s: float) -> None:
        """At the daemon's end: lets those go who have taken nothing for so long already."""
        for reader, seen in self._waiting.items():
            if now - seen.since >= stuck_s:
                reader.transport.abort()
        self._waiting = {}
