"""Limits how much memory is held for clients that have not read their data yet, over all clients together.

A client's own queue is short (`watch.py`, `event_encoding.py`), but one answer may be as large as a conversation. So
large pieces are counted here; a piece that several clients wait for counts once. When too much is held, the clients
that have been stuck for the longest time are disconnected. They reconnect and say which events they have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from starlette.types import Scope

LARGE_BYTES = 64 * 1024  # smaller pieces are not counted: the limit on connections bounds them
MAX_UNSENT_BYTES = 32_000_000  # a single answer may be larger, and is still sent
CONNECTION = "clew.connection"  # the key in a request's scope for the connection that received it


class Connected(Protocol):
    """What is used of a connection of `connections.py`."""

    transport: asyncio.Transport
    paused_at: float | None  # when its send buffer became full; None: it has room


class SendBuffers:
    """The buffers of all clients of a daemon."""

    def __init__(self, max_bytes: int = MAX_UNSENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._clients: list[ClientBuffer] = []
        self._holders: Counter[int] = Counter()  # by the id() of a piece: how many clients still need it
        self.held_bytes = 0

    @contextmanager
    def buffer_for(self, scope: Scope) -> Iterator[ClientBuffer]:
        """The buffer of one client, until it disconnects."""
        buffer = ClientBuffer(self, scope.get(CONNECTION))
        self._clients.append(buffer)
        try:
            yield buffer
        finally:
            buffer.release()
            self._clients.remove(buffer)

    def add(self, piece: Any) -> None:
        self._holders[id(piece)] += 1
        if self._holders[id(piece)] == 1:
            self.held_bytes += len(piece)

    def remove(self, piece: Any) -> None:
        self._holders[id(piece)] -= 1
        if not self._holders[id(piece)]:
            del self._holders[id(piece)]
            self.held_bytes -= len(piece)

    def make_room(self, newest: ClientBuffer) -> None:
        """While too much is held, disconnects the client that has been stuck the longest."""
        while self.held_bytes > self._max_bytes:
            stuck = [each for each in self._clients if each is not newest and each.is_stuck]
            if not stuck:
                return
            min(stuck, key=lambda each: each.paused_at).disconnect()


class ClientBuffer:
    """The large pieces that one client has not read yet. A piece is held by reference until `release`."""

    def __init__(self, all_buffers: SendBuffers, connection: Connected | None) -> None:
        self._all = all_buffers
        self._connection = connection
        self._pieces: list[bytes] = []

    def hold(self, piece: bytes | memoryview) -> None:
        if len(piece) < LARGE_BYTES:
            return
        whole: Any = piece.obj if isinstance(piece, memoryview) else piece  # other clients may hold the same object
        self._pieces.append(whole)
        self._all.add(whole)
        self._all.make_room(self)

    def release(self, piece: bytes | None = None) -> None:
        """Call this when the piece was sent; without an argument, when all were."""
        released = [each for each in self._pieces if piece is None or each is piece]
        self._pieces = [each for each in self._pieces if not (piece is None or each is piece)]
        for each in released:
            self._all.remove(each)

    @property
    def is_stuck(self) -> bool:
        return bool(self._pieces) and self._connection is not None and self._connection.paused_at is not None

    @property
    def paused_at(self) -> float:
        assert self._connection is not None
        assert self._connection.paused_at is not None
        return self._connection.paused_at

    def disconnect(self) -> None:
        self.release()
        if self._connection is not None:
            self._connection.transport.abort()
