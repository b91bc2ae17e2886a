"""Disconnects clients that stop reading: else their unsent data and their connection would be held for ever.

A transport only says how much it still holds, so it is checked periodically. A client has read something if its buffer
got smaller between two checks, or if its writer was allowed to continue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set
from typing import Protocol

from clew.core.record import Record

POLL_S = 1.0


class WatchedConnection(Protocol):
    """What is used of a connection of `connections.py`."""

    transport: asyncio.Transport
    stall_limit_s: float  # how long its client may read nothing
    resumed: int  # how often its writer was allowed to continue


class BufferState(Record):
    """The state of a connection at the last check."""

    held_bytes: int
    resumed: int
    since: float  # the last check at which its client had read something


class SlowClients:
    """Watches the connections of one server."""

    def __init__(self, connections: Set[WatchedConnection]) -> None:
        self._connections = connections
        self._waiting: dict[WatchedConnection, BufferState] = {}

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await asyncio.sleep(POLL_S)
            self.check(asyncio.get_running_loop().time())

    def check(self, now: float) -> None:
        """Disconnects the clients that have read nothing for their time limit."""
        before, self._waiting = self._waiting, {}
        for connection in list(self._connections):
            held = connection.transport.get_write_buffer_size()
            if not held:
                continue
            seen = before.get(connection)
            stuck = seen is not None and held >= seen.held_bytes and connection.resumed == seen.resumed
            since = seen.since if seen is not None and stuck else now
            if now - since >= connection.stall_limit_s:
                connection.transport.abort()
            else:
                self._waiting[connection] = BufferState(held, connection.resumed, since)

    def end(self, now: float, *, stuck_s: float) -> None:
        """Called at shutdown: disconnects the clients that have read nothing for `stuck_s`."""
        for connection, seen in self._waiting.items():
            if now - seen.since >= stuck_s:
                connection.transport.abort()
        self._waiting = {}
