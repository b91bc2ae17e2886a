"""One thread that works for an event loop, a call at a time and in order.

What `run_in_executor` does, at half its cost: there are some twenty calls into the store in a turn, and the futures of
two kinds that hand each result over took longer than most of the calls.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class StoreThread:
    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = False

    async def run(self, work: Callable[[], T]) -> T:
        """Cancelled, it still waits for the work's end: that is done or not done."""
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
            except BaseException as error:  # noqa: BLE001 - raised where it was asked for
                failed = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
                loop.call_soon_threadsafe(end, value, failed)

        self._put(call)
        try:
            return await result
        except asyncio.CancelledError:
            if not over.done():
                await asyncio.wait([over])
            raise

    def end(self, last: Callable[[], None] | None = None) -> None:
        """After all that was asked for, and `last`. Safe to call twice."""
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
            # Nobody waits for it when the process ends, unless it is told to end: so it is.
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            atexit.register(self.end)
            self._thread.start()
        self._calls.put(call)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # or what it holds would be kept until the next one comes
