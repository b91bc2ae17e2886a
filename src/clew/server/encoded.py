"""An event's JSON, made once for all who listen: an answer of 30 MB is held once, however many are slow to take it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from weakref import WeakValueDictionary

from clew.server import bodies
from clew.server.json_body import json_bytes
from clew.store.records import StoredEvent

SHARED_BYTES = 64 * 1024  # smaller ones are not worth the book-keeping
PIECE_BYTES = 64 * 1024  # of what is handed to a connection at once

Parts = Sequence[bytes | memoryview]  # that make up one message


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

    def of(self, run_id: str, stored: StoredEvent) -> Encoded:
        """What is stored never changes, so its place (run, seq) says which it is."""
        held = self._large.get((run_id, stored.seq))
        if held is not None:
            return held
        made = Encoded(stored.seq, stored.kind, json_bytes(bodies.event(stored)))
        if len(made.data) >= SHARED_BYTES:
            self._large[run_id, stored.seq] = made
        return made


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
