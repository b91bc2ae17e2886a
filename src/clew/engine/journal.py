"""A run's events: numbered, stored, and passed to every listener.

State changes are stored before a listener gets them. Text and tool events are batched, and stored at most 50 ms after
they arrived. A listener that joins late gets every event after the number that it names. A listener may ask for stored
events only: a client that reconnects after a crash must not have seen more than the store has.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from clew.core.ids import RunId
from clew.core.record import Record
from clew.core.runs.events import Event, RunEnded
from clew.errors import StoreError

if TYPE_CHECKING:
    from clew.engine.storage.async_store import StoreAccess
    from clew.store.store import Store

BATCH_S = 0.05


class JournalEntry(Record):
    """An event with its number in the run and its time."""

    seq: int
    at: float
    event: Event


class Journal:
    def __init__(
        self,
        async_store: StoreAccess,
        run_id: RunId,
        clock: Callable[[], float],
        earlier: Sequence[JournalEntry] = (),
        batch_s: float = BATCH_S,
    ) -> None:
        """`earlier`: the events that another process stored before it left the run queued. `batch_s`: how long events
        may wait until they are stored together."""
        self._store = async_store
        self._run_id = run_id
        self._clock = clock
        self._batch_s = batch_s
        self._all: list[JournalEntry] = list(earlier)
        self._seq = earlier[-1].seq if earlier else 0
        self._stored_seq = self._seq
        self._unstored: list[JournalEntry] = []
        self._news = asyncio.Condition()
        self._flushing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closing = asyncio.Event()
        self._closed = False

    async def note(self, event: Event, also: Callable[[Store], object] | None = None) -> None:
        """Adds an event. If an earlier batch could not be stored, raises that error.

        `also` writes more in the transaction that stores an urgent event, so that no reader sees one without the other.
        """
        if self._failure is not None:
            # The error is raised only once: the store may be available again when the end of the run is noted.
            failure, self._failure = self._failure, None
            raise failure
        [entry] = self.numbered(event)
        self._seq = entry.seq
        self._unstored.append(entry)
        self._all.append(entry)
        if event.urgent:
            await self.flush(also)
            return
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush_soon())
        await self._wake()

    @property
    def has_ended(self) -> bool:
        return bool(self._all) and isinstance(self._all[-1].event, RunEnded)

    def numbered(self, *events: Event) -> list[JournalEntry]:
        """The events with the next numbers. The caller stores them, and then calls `stored`."""
        return [JournalEntry(self._seq + number, self._clock(), event) for number, event in enumerate(events, 1)]

    async def stored(self, entries: Sequence[JournalEntry]) -> None:
        self._all += entries
        self._seq = self._stored_seq = entries[-1].seq
        await self._wake()

    async def _wake(self) -> None:
        async with self._news:
            self._news.notify_all()

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[list[JournalEntry]]:
        """The entries that are not stored yet. The caller stores them inside; nothing else is flushed meanwhile."""
        async with self._flushing:
            batch, self._unstored = self._unstored, []
            try:
                yield batch
            except BaseException:
                self._unstored = [*batch, *self._unstored]  # the next flush stores these first: no gap
                raise

    async def flush(self, also: Callable[[Store], object] | None = None) -> None:
        async with self.taking() as batch:  # its lock keeps the order of batches, even while a call is retried
            if not batch:
                return
            last = batch[-1].seq
            await self._store.atomically(
                lambda store: self._write(store, batch, also), lambda store: store.events.last_seq(self._run_id) >= last
            )
            self._stored_seq = max(self._stored_seq, last)
        await self._wake()

    def _write(self, store: Store, batch: list[JournalEntry], also: Callable[[Store], object] | None) -> None:
        store.events.append(self._run_id, [(entry.seq, entry.at, entry.event) for entry in batch])
        if also is not None:
            also(store)

    async def close(self) -> None:
        """Stores the remaining events and ends the listeners."""
        self._closing.set()
        try:
            if self._flusher is not None:
                await self._flusher
            await self.flush()
        except StoreError:
            pass  # the end of the run has reported this error, and recovery ends the run
        finally:
            self._closed = True
            await self._wake()

    async def listen(self, *, after: int = 0, stored: bool = False) -> AsyncIterator[JournalEntry]:
        """Every event after number `after`, up to the last one. `stored`: each only once it is stored."""
        position = bisect_right(self._all, after, key=lambda entry: entry.seq)
        while True:
            while self._may_pass(position, stored):
                yield self._all[position]
                position += 1
            if self._closed:
                return
            async with self._news:
                while not self._may_pass(position, stored) and not self._closed:
                    await self._news.wait()

    def _may_pass(self, position: int, stored: bool) -> bool:
        if position >= len(self._all):
            return False
        entry = self._all[position]
        return entry.seq <= self._stored_seq or not (stored or entry.event.urgent)

    async def _flush_soon(self) -> None:
        try:
            while self._unstored:  # events may have arrived while the last batch was written
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._batch_s * 0.8):
                        await self._closing.wait()
                await self.flush()
        except Exception as error:  # noqa: BLE001 - kept, and raised when the next event is noted
            self._failure = error
