"""A run's events on their way: numbered, stored, and handed to whoever listens.

State changes are stored before anybody hears of them. Text and tool events are batched and stored at most 50 ms after
they came. A listener that joins late is given everything from where it asks; one that wants only what is stored (a
client that comes back after a crash must not have seen more than the store has) waits for that.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from clew.core.events import Event, RunEnded
from clew.core.ids import RunId
from clew.core.record import Record
from clew.errors import StoreError

if TYPE_CHECKING:
    from clew.engine.database import Access
    from clew.store.store import Store

BATCH_S = 0.05


class Noted(Record):
    """An event with its place in the run and its time."""

    seq: int
    at: float
    event: Event


class Journal:
    def __init__(
        self, database: Access, run_id: RunId, clock: Callable[[], float], earlier: Sequence[Noted] = ()
    ) -> None:
        """`earlier`: what is stored of the run already, by a process that could not begin it."""
        self._database = database
        self._run_id = run_id
        self._clock = clock
        self._all: list[Noted] = list(earlier)
        self._seq = earlier[-1].seq if earlier else 0
        self._stored = self._seq  # the last that is on disk
        self._unstored: list[Noted] = []
        self._news = asyncio.Condition()
        self._flushing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._closed = False

    async def note(self, event: Event, also: Callable[[Store], object] | None = None) -> None:
        """Takes an event. Raises what the store raised, if an earlier batch could not be stored.

        `also` is written in the transaction that stores an urgent one, so that nobody sees the one without the other.
        """
        if self._failure is not None:
            # Told once: the run's last words may find the store well again.
            failure, self._failure = self._failure, None
            raise failure
        [noted] = self.upcoming(event)
        self._seq = noted.seq
        self._unstored.append(noted)
        self._all.append(noted)
        if event.urgent:
            await self.flush(also)
            return
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush_soon())
        await self._wake()

    @property
    def has_ended(self) -> bool:
        return bool(self._all) and isinstance(self._all[-1].event, RunEnded)

    def upcoming(self, *events: Event) -> list[Noted]:
        """As they would be numbered next: for a transaction of somebody else's. `tell_stored` when that is done."""
        return [Noted(self._seq + number, self._clock(), event) for number, event in enumerate(events, 1)]

    async def tell_stored(self, noted: Sequence[Noted]) -> None:
        self._all += noted
        self._seq = self._stored = noted[-1].seq
        await self._wake()

    async def _wake(self) -> None:
        async with self._news:
            self._news.notify_all()

    @asynccontextmanager
    async def taking(self) -> AsyncIterator[list[Noted]]:
        """What is not stored yet, for a transaction of somebody else's that stores it. Nothing is flushed meanwhile."""
        async with self._flushing:
            batch, self._unstored = self._unstored, []
            try:
                yield batch
            except BaseException:
                self._unstored = [*batch, *self._unstored]  # no gap: whoever flushes next stores these too
                raise

    async def flush(self, also: Callable[[Store], object] | None = None) -> None:
        async with self.taking() as batch:  # in order, also while the store is away
            if not batch:
                return
            last = batch[-1].seq
            await self._database.atomically(
                lambda store: self._write(store, batch, also), lambda store: store.last_seq(self._run_id) >= last
            )
            self._stored = max(self._stored, last)
        await self._wake()

    def _write(self, store: Store, batch: list[Noted], also: Callable[[Store], object] | None) -> None:
        store.append_events(self._run_id, [(noted.seq, noted.at, noted.event) for noted in batch])
        if also is not None:
            also(store)

    async def close(self) -> None:
        """Stores the rest and lets the listeners go."""
        try:
            if self._flusher is not None:
                await self._flusher
            await self.flush()
        except StoreError:
            pass  # whoever ended the run has been told; recovery ends what is stored of it
        finally:
            self._closed = True
            await self._wake()

    async def listen(self, *, after: int = 0, stored: bool = False) -> AsyncIterator[Noted]:
        """Every event after that one to the last; `stored`: each only when it is on disk."""
        position = bisect_right(self._all, after, key=lambda noted: noted.seq)
        while True:
            while self._may_hear(position, stored):
                yield self._all[position]
                position += 1
            if self._closed:
                return
            async with self._news:
                while not self._may_hear(position, stored) and not self._closed:
                    await self._news.wait()

    def _may_hear(self, position: int, stored: bool) -> bool:
        if position >= len(self._all):
            return False
        noted = self._all[position]
        return noted.seq <= self._stored or not (stored or noted.event.urgent)

    async def _flush_soon(self) -> None:
        try:
            while self._unstored:  # also what came while the batch before was written
                await asyncio.sleep(BATCH_S * 0.8)
                await self.flush()
        except Exception as error:  # noqa: BLE001 - kept, and raised to whoever notes the next event
            self._failure = error
