"""An event's JSON, made once for all who listen: an answer of 30 MB is held once, however many are slow to take it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from clew.client import Client
from clew.server import bodies
from clew.server.json_body import json_bytes
from clew.server.unsent import LARGE_BYTES
from clew.store.records import StoredEvent

PIECE_BYTES = 64 * 1024  # of what is handed to a connection at once

Parts = Sequence[bytes | memoryview]  # that make up one message
T = TypeVar("T")
Made = TypeVar("Made")


class Encoded:
    """One event. Lives as long as somebody has it to send."""

    __slots__ = ("__weakref__", "data", "kind", "seq")

    def __init__(self, seq: int, kind: str, data: bytes) -> None:
        self.seq = seq
        self.kind = kind
        self.data = data


class Encoder:
    """One a daemon."""

    def __init__(self) -> None:
        self._large: WeakValueDictionary[tuple[str, int], Encoded] = WeakValueDictionary()

    def following(self, client: Client, run_id: str, after: int) -> AsyncGenerator[Encoded, None]:
        """A run's events after that one, as they become durable, to the last."""

        async def encode(stored: StoredEvent) -> Encoded:
            return self.of(run_id, stored)

        return converted(client.follow(run_id, after), encode)

    def of(self, run_id: str, stored: StoredEvent) -> Encoded:
        """What is stored never changes, so its place (run, seq) says which it is."""
        held = self._large.get((run_id, stored.seq))
        if held is not None:
            return held
        made = Encoded(stored.seq, stored.kind, json_bytes(bodies.event(stored)))
        if len(made.data) >= LARGE_BYTES:  # smaller ones are not worth the book-keeping
            self._large[run_id, stored.seq] = made
        return made


async def converted(
    source: AsyncGenerator[T, None], convert: Callable[[T], Awaitable[Made]]
) -> AsyncGenerator[Made, None]:
    """Each item as it goes out. The item itself is not kept: a client may take long, and others share what goes out."""
    async with contextlib.aclosing(source):
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield await convert(await anext(source))


def pieces(parts: Parts) -> Iterator[bytes]:
    """The message in pieces of a bounded size; small parts go together."""
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
