"""What is held for clients that have not taken it yet, of all of them together.

A client's own queue is short (`watch.py`, `encoded.py`), but one answer may be as large as a conversation. So large
pieces are counted here, one that several clients wait for once. When there are too many, the clients that have taken
nothing for the longest time are disconnected: they come back, and say what they have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from starlette.types import Scope

LARGE_BYTES = 64 * 1024  # what is smaller is bounded by the number of connections
MOST_UNSENT_BYTES = 32_000_000  # or one answer that is larger
CONNECTION = "clew.connection"  # in a request's scope: the connection that it came by


class Connected(Protocol):
    """A connection as `wire.py` makes them."""

    transport: asyncio.Transport
    paused_at: float | None  # since when it takes nothing; None: there is room


class Unsent:
    """One a daemon."""

    def __init__(self, most_bytes: int = MOST_UNSENT_BYTES) -> None:
        self._most = most_bytes
        self._readers: list[Reader] = []
        self._waited_for: Counter[int] = Counter()  # by identity: how many readers hold that piece
        self.held_bytes = 0

    @contextmanager
    def reader(self, scope: Scope) -> Iterator[Reader]:
        """A client that may be given large pieces, until it goes."""
        made = Reader(self, scope.get(CONNECTION))
        self._readers.append(made)
        try:
            yield made
        finally:
            made.let_go()
            self._readers.remove(made)

    def add(self, piece: Any) -> None:
        self._waited_for[id(piece)] += 1
        if self._waited_for[id(piece)] == 1:
            self.held_bytes += len(piece)

    def remove(self, piece: Any) -> None:
        self._waited_for[id(piece)] -= 1
        if not self._waited_for[id(piece)]:
            del self._waited_for[id(piece)]
            self.held_bytes -= len(piece)

    def make_room(self, newest: Reader) -> None:
        """Disconnects those that have been stuck the longest, as long as too much is held."""
        while self.held_bytes > self._most:
            stuck = [each for each in self._readers if each is not newest and each.is_stuck]
            if not stuck:
                return
            min(stuck, key=lambda each: each.paused_at).drop()


class Reader:
    """One client, and the large pieces that it has not taken. A piece is held by reference until `let_go`."""

    def __init__(self, unsent: Unsent, connection: Connected | None) -> None:
        self._unsent = unsent
        self._connection = connection
        self._pieces: list[bytes] = []

    def hold(self, piece: bytes | memoryview) -> None:
        if len(piece) < LARGE_BYTES:
            return
        whole: Any = piece.obj if isinstance(piece, memoryview) else piece  # what others may hold too
        self._pieces.append(whole)
        self._unsent.add(whole)
        self._unsent.make_room(self)

    def let_go(self, piece: bytes | None = None) -> None:
        """That piece was sent; without one, all of them are."""
        gone = [each for each in self._pieces if piece is None or each is piece]
        self._pieces = [each for each in self._pieces if not (piece is None or each is piece)]
        for each in gone:
            self._unsent.remove(each)

    @property
    def is_stuck(self) -> bool:
        return bool(self._pieces) and self._connection is not None and self._connection.paused_at is not None

    @property
    def paused_at(self) -> float:
        assert self._connection is not None
        assert self._connection.paused_at is not None
        return self._connection.paused_at

    def drop(self) -> None:
        self.let_go()
        if self._connection is not None:
            self._connection.transport.abort()
