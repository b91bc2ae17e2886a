"""The events of one thread for one page: of every run that is going on or begins, after what the page has already.

Each run is followed on its own; the queue is short, so a slow page holds up its own reading and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing

from clew.client import Client, Thread
from clew.core.run import LIVE
from clew.errors import ClewError, NotFound
from clew.server.problems import log
from clew.store.records import StoredEvent

RUNS_LOOKED_AT = 100
MOST_WAITING = 500  # events of one page
BATCH_EVENTS = 200
AFTER_TROUBLE_S = 1.0

Batch = tuple[str, list[StoredEvent]]  # a run and some of its events, in order


class Watch:
    """Started with `start`, ended with `close`. `ready` is called when there is something to take."""

    def __init__(self, client: Client, thread: Thread, after: Mapping[str, int], ready: Callable[[], None]) -> None:
        self.thread_id: str = thread.record.id
        self._client = client
        self._thread = thread
        self._after = after
        self._ready = ready
        self._waiting: deque[tuple[str, StoredEvent]] = deque()
        self._room = asyncio.Semaphore(MOST_WAITING)
        self._known: set[str] = set()  # runs that are followed, or were over before the page came
        self._look = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._look.set()
        self._spawn(self._looking())

    def look(self) -> None:
        """The thread changed: a run may have begun."""
        self._look.set()

    def take(self) -> Batch | None:
        """The next events of one run, if there are any."""
        if not self._waiting:
            return None
        run_id = self._waiting[0][0]
        events: list[StoredEvent] = []
        while self._waiting and self._waiting[0][0] == run_id and len(events) < BATCH_EVENTS:
            events.append(self._waiting.popleft()[1])
            self._room.release()
        return run_id, events

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _looking(self) -> None:
        first = True
        while True:
            await self._look.wait()
            self._look.clear()
            try:
                runs = await self._client.runs(thread=self._thread, limit=RUNS_LOOKED_AT)
            except ClewError as error:
                log.warning("the runs of a thread could not be read: %s", error.code)
                await asyncio.sleep(AFTER_TROUBLE_S)
                self._look.set()
                continue
            wanted = [run.id for run in reversed(runs) if not first or run.status in LIVE or run.id in self._after]
            for run_id in wanted if not first else dict.fromkeys([*wanted, *self._after]):
                if run_id not in self._known:
                    self._spawn(self._follow(run_id))
            self._known.update(run.id for run in runs)
            self._known.update(self._after)
            first = False

    async def _follow(self, run_id: str) -> None:
        after = self._after.get(run_id, 0)
        while True:
            try:
                async with aclosing(self._client.follow(run_id, after)) as followed:
                    async for stored in followed:
                        await self._room.acquire()
                        self._waiting.append((run_id, stored))
                        self._ready()
                        after = stored.seq
            except NotFound:
                return  # the page remembers a run that is gone
            except ClewError as error:
                log.warning("the events of a run could not be read: %s", error.code)
                await asyncio.sleep(AFTER_TROUBLE_S)
            else:
                return

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
