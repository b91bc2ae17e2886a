"""An event's JSON, encoded once for all clients: an answer of 30 MB is held once, however many read it slowly."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from clew.api.client import Client
from clew.server.live.send_buffers import LARGE_BYTES
from clew.server.models import bodies
from clew.server.models.json_body import json_bytes
from clew.store.records import StoredEvent

PIECE_BYTES = 64 * 1024  # the most that a connection is given at once

Parts = Sequence[bytes | memoryview]  # that make up one message
T = TypeVar("T")
U = TypeVar("U")


class EncodedEvent:
    """One event. It lives as long as somebody has it to send."""

    __slots__ = ("__weakref__", "data", "kind", "seq")

    def __init__(self, seq: int, kind: str, data: bytes) -> None:
        self.seq = seq
        self.kind = kind
        self.data = data


class EventEncoder:
    """One per daemon."""

    def __init__(self) -> None:
        self._large: WeakValueDictionary[tuple[str, int], EncodedEvent] = WeakValueDictionary()

    def following(self, client: Client, run_id: str, after: int) -> AsyncGenerator[EncodedEvent, None]:
        """A run's events after that one, as they become durable, up to the last."""

        async def encode(stored: StoredEvent) -> EncodedEvent:
            return self.of(run_id, stored)

        return map_stream(client.views.follow(run_id, after), encode)

    def of(self, run_id: str, stored: StoredEvent) -> EncodedEvent:
        """A stored event never changes, so its run and sequence number identify it."""
        cached = self._large.get((run_id, stored.seq))
        if cached is not None:
            return cached
        event = EncodedEvent(stored.seq, stored.kind, json_bytes(bodies.event(stored)))
        if len(event.data) >= LARGE_BYTES:  # a cache of smaller ones would cost more than it saves
            self._large[run_id, stored.seq] = event
        return event


async def map_stream(source: AsyncGenerator[T, None], convert: Callable[[T], Awaitable[U]]) -> AsyncGenerator[U, None]:
    """Each item converted. The original is not kept: clients may take long, and they share the converted one."""
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
