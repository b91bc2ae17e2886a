"""The store, called from async code: in one thread, on one connection, in order.

While another process writes, the database may block. That must not stop the reading of an agent's pipe, so no call
runs on the event loop. Only a few large reads are admitted at a time, so that other calls do not wait behind many of
them. On PostgreSQL a call that meets a lock of another process does not delay the other calls: if it has written
nothing yet, it is given up after a moment and made again.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from clew.errors import StoreError
from clew.store.store import Store

T = TypeVar("T")
Seen = TypeVar("Seen")
Found = TypeVar("Found")

TRIES = 3
LOCK_S = 0.25  # how long a call waits for a lock before it lets other calls pass
MAX_LOCKED_S = 30.0  # how long a call waits for locks in total
LARGE_AT_ONCE = 2  # how many reads of whole conversations may wait for the thread at once


class StoreAccess(ABC):
    """Calls into the store."""

    @abstractmethod
    async def call(self, work: Callable[[Store], T]) -> T:
        """Runs `work(store)`."""

    async def commit_surely(self, work: Callable[[Store], T], committed: Callable[[Store], tuple[T] | None]) -> T:
        """Like `call`, but the work is certainly committed, even if the connection breaks during the commit.

        In that case `committed` checks the store, and returns the result in a tuple. If it returns None, the work is
        not stored, and is repeated.
        """
        while True:
            try:
                return await self.call(work)
            except StoreError as error:
                if not error.in_doubt:
                    raise
            found = await self.call(committed)
            if found is not None:
                return found[0]

    async def atomically(self, work: Callable[[Store], T], done: Callable[[Store], bool] | None = None) -> T:
        """Runs `work(store)` in one transaction.

        If the connection breaks during the commit, `done` checks whether the work is stored; if not, it is repeated.
        Without `done`, this raises StoreError.
        """
        results: list[T] = []

        def inside(store: Store) -> T:
            with store.transaction():
                results.append(work(store))
            return results[-1]

        if done is None:
            return await self.call(inside)
        return await self.commit_surely(inside, lambda store: (results[-1],) if done(store) else None)


def IDEMPOTENT(_: Store) -> bool:
    """The `done` of idempotent work: it may simply be repeated."""
    return False


class AsyncStore(StoreAccess):
    def __init__(self, store: Store) -> None:
        self._store = store
        store.wait_for_locks(LOCK_S)
        self._thread = StoreThread("clew-store")
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self.answered = 0  # completed calls: while this number grows, a slow store is only busy
        self._changes_seen = 0
        self._rescued: str | None = None
        self._change = asyncio.Event()

    async def call(self, work: Callable[[Store], T]) -> T:
        """Runs `work(store)` in the store's thread. A cancelled call still runs to its end: no write is cut in half."""
        loop = asyncio.get_running_loop()
        until = loop.time() + MAX_LOCKED_S
        while True:
            commits = self._store.database.commits
            try:
                return await self._once(work)
            except StoreError as error:
                in_the_way = error.kind == "locked" and error.passing
                if not in_the_way or self._store.database.commits != commits or loop.time() > until:
                    raise
            await asyncio.sleep(LOCK_S / 10)

    async def read_large(self, work: Callable[[Store], T]) -> T:
        """Like `call`, for a result that may be as large as a conversation."""
        async with self._large:
            return await self.call(work)

    async def _once(self, work: Callable[[Store], T]) -> T:
        try:
            result = await self._thread.run(partial(work, self._store))
            self.answered += 1
            return result
        finally:
            if self._store.versions.changes_made != self._changes_seen:
                self._changes_seen = self._store.versions.changes_made
                self._change.set()

    async def rescue(self) -> str:
        """Saves a copy of a lost store, as far as this process can still read it. Returns a sentence about the result.

        Only the first call makes a copy.
        """

        def copy(store: Store) -> str:
            if self._rescued is None:
                try:
                    self._rescued = f"A copy of all that this process had stored is {store.rescue()}."
                except (StoreError, OSError) as error:
                    self._rescued = f"No copy could be made ({error})."
            return self._rescued

        return await self.call(copy)

    async def changed(self) -> None:
        """Waits until this process has changed something that a surface shows. Only one task may wait."""
        await self._change.wait()
        self._change.clear()

    async def optimistic_read(
        self,
        look: Callable[[Store], Seen],
        read: Callable[[Seen], Found],
        settle: Callable[[Seen, Found, Store], T | None],
    ) -> T | None:
        """Reads something slow, such as a session's file, without making other calls wait, in any process.

        `look` returns what is to be read, and `read` reads it outside of any transaction. `settle` completes the work
        if the store still agrees with what `look` saw; otherwise it returns None, and all three are repeated. After a
        few tries this returns None: the store kept changing.
        """
        for _ in range(TRIES):
            seen = await self.call(look)
            found = await asyncio.to_thread(read, seen)
            done = await self.call(partial(settle, seen, found))
            if done is not None:
                return done
        return None

    def close(self, *, process_ends: bool = False) -> None:
        self._thread.end(partial(self._store.close, process_ends=process_ends))


class StoreThread:
    """One thread that makes calls for an event loop, one at a time and in order.

    It does what `run_in_executor` does at half the cost. A turn makes about twenty calls into the store, and with an
    executor the two futures for each result took longer than most of the calls.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = False

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work()` in the thread. When cancelled, it still waits until the work has ended."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()
        over: asyncio.Future[None] = loop.create_future()

        def end(value: T | None, error: BaseException | None) -> None:
            if not over.done():
                over.set_result(None)
            if result.done():
                return
            if error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)  # type: ignore[arg-type]

        def call() -> None:
            value: T | None = None
            failed: BaseException | None = None
            try:
                value = work()
            except StopIteration as error:  # a future cannot carry it, so the caller would wait forever
                failed = RuntimeError("a StopIteration was raised in the store's thread")
                failed.__cause__ = error
            except BaseException as error:  # noqa: BLE001 - raised in the caller
                failed = error
            with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for the result
                loop.call_soon_threadsafe(end, value, failed)

        self._put(call)
        try:
            return await result
        except asyncio.CancelledError:
            if not over.done():
                await asyncio.wait([over])
            raise

    def end(self, last: Callable[[], None] | None = None) -> None:
        """Ends the thread after all calls so far and after `last`. It may be called twice."""
        if self._ended:
            return
        if last is not None:
            self._put(last)
        self._ended = True
        atexit.unregister(self.end)
        if self._thread is not None:
            self._calls.put(None)
            self._thread.join()

    def _put(self, call: Callable[[], None]) -> None:
        if self._ended:
            raise RuntimeError(f"the thread {self._name} has ended")
        if self._thread is None:
            # A daemon thread is killed when the process exits, so `end` runs before that.
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            atexit.register(self.end)
            self._thread.start()
        self._calls.put(call)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # else its objects would stay in memory until the next call
