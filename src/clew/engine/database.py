"""The store, called from async code: one thread, one connection, in order.

A blocked database (another process writes) must not stop the reading of an agent's pipe, so no call runs on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from clew.store.store import Store

T = TypeVar("T")


class Database:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="clew-store")
        self._changes_seen = 0
        self._change = asyncio.Event()

    async def call(self, work: Callable[[Store], T]) -> T:
        """Runs `work(store)` in the store's thread. Not cut short by cancellation: a write is done or not done."""
        future = asyncio.get_running_loop().run_in_executor(self._thread, work, self._store)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if not future.done():
                await asyncio.wait([future])
            raise
        finally:
            if self._store.changes_made != self._changes_seen:
                self._changes_seen = self._store.changes_made
                self._change.set()

    async def changed(self) -> None:
        """Waits until this process has changed something that a surface shows. For one waiter."""
        await self._change.wait()
        self._change.clear()

    async def atomically(self, work: Callable[[Store], T]) -> T:
        """The same in one transaction."""

        def inside(store: Store) -> T:
            with store.transaction():
                return work(store)

        return await self.call(inside)

    def close(self) -> None:
        self._thread.submit(self._store.close).result()
        self._thread.shutdown()
