"""An event's JSON is encoded once for all clients: an answer of 30 MB is in memory once, however many read it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from clew.api.client import Client
from clew.api.views import StoredEvent
from clew.server.live.send_buffers import LARGE_BYTES
from clew.server.models import bodies
from clew.server.models.json_body import json_bytes

PIECE_BYTES = 64 * 1024  # the most that is written to a connection at once

Parts = Sequence[bytes | memoryview]  # joined, they are one message
T = TypeVar("T")
U = TypeVar("U")


class EncodedEvent:
    """One event. It stays in the encoder's cache as long as it is still to be sent to a client."""

    __slots__ = ("__weakref__", "data", "kind", "seq")

    def __init__(self, seq: int, kind: str, data: bytes) -> None:
        self.seq = seq
        self.kind = kind
        self.data = data


class EventEncoder:
    """Encodes events, and remembers the large ones while they are being sent. A daemon has one."""

    def __init__(self) -> None:
        self._large: WeakValueDictionary[tuple[str, int], EncodedEvent] = WeakValueDictionary()

    def following(self, client: Client, run_id: str, after: int) -> AsyncGenerator[EncodedEvent, None]:
        """The events of a run after the number `after`, as soon as each is on disk, up to the last one."""

        async def encode(stored: StoredEvent) -> EncodedEvent:
            return self.of(run_id, stored)

        return map_stream(client.views.follow(run_id, after), encode)

    def of(self, run_id: str, stored: StoredEvent) -> EncodedEvent:
        """A stored event never changes, so its run and its sequence number are the key of the cache."""
        cached = self._large.get((run_id, stored.seq))
        if cached is not None:
            return cached
        event = EncodedEvent(stored.seq, stored.kind, json_bytes(bodies.event(stored)))
        if len(event.data) >= LARGE_BYTES:  # to cache smaller ones would cost more than it saves
            self._large[run_id, stored.seq] = event
        return event


async def map_stream(source: AsyncGenerator[T, None], convert: Callable[[T], Awaitable[U]]) -> AsyncGenerator[U, None]:
    """Converts each item. A variable would keep the original in memory while a slow client reads the converted item."""
    async with contextlib.aclosing(source):
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield await convert(await anext(source))


def pieces(parts: Parts) -> Iterator[bytes]:
    """The message in pieces of a bounded size; small parts are joined."""
    pending = b""
    for part in parts:
        if len(pending) + len(part) <= PIECE_BYTES:
            pending += part
            continue
        if pending:
            yield pending
        pending = b""
        view = memoryview(part)
        for at in range(0, len(part), PIECE_BYTES):
            yield bytes(view[at : at + PIECE_BYTES])
    if pending:
        yield pending
