"""The events of one thread for one page: of every run that is going on or begins, after what the page has already.

Each run is followed on its own, from when its turn has come: a long queue costs nothing. What waits for the page is
little, so a slow one holds up its own reading and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing

from clew.client import Client, Thread
from clew.core.run import LIVE, RunStatus
from clew.errors import ClewError, NotFound
from clew.server.encoded import Encoded, Encoder
from clew.server.problems import log
from clew.server.unsent import Reader

RUNS_LOOKED_AT = 100  # the newest, for those that came and went between two looks
MOST_QUEUED = 1_000
MOST_FOLLOWED = 8  # runs at once; one run a thread goes on at a time, so more are only of those that are over
STARTED = LIVE - {RunStatus.QUEUED}
MOST_WAITING_BYTES = 128 * 1024  # of one page's events, or one event that is larger
BATCH_BYTES = 64 * 1024
AFTER_TROUBLE_S = 1.0

Batch = tuple[str, list[Encoded]]  # a run and some of its events, in order


class Watch:
    """Started with `start`, ended with `close`. `ready` is called when there is something to take."""

    def __init__(
        self,
        client: Client,
        thread: Thread,
        after: Mapping[str, int],
        encoder: Encoder,
        reader: Reader,
        ready: Callable[[], None],
    ) -> None:
        self.thread_id: str = thread.record.id
        self._client = client
        self._thread = thread
        self._after = after
        self._encoder = encoder
        self._reader = reader
        self._ready = ready
        self._waiting: deque[tuple[str, Encoded]] = deque()
        self._waiting_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._known: set[str] = set()  # runs that are followed, or were over before the page came
        self._queued: list[str] = []  # runs that were seen queued and are not followed yet
        self._places = asyncio.Semaphore(MOST_FOLLOWED)
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
        events: list[Encoded] = []
        size = 0
        while self._waiting and self._waiting[0][0] == run_id and size < BATCH_BYTES:
            event = self._waiting.popleft()[1]
            events.append(event)
            size += len(event.data)
        self._waiting_bytes -= size
        if self._waiting_bytes < MOST_WAITING_BYTES:
            self._room.set()
        return run_id, events

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._waiting.clear()
        self._reader.let_go()

    async def _looking(self) -> None:
        first = True
        while True:
            await self._look.wait()
            self._look.clear()
            try:
                wanted = await self._wanted(first=first)
            except ClewError as error:
                log.warning("the runs of a thread could not be read: %s", error.code)
                await asyncio.sleep(AFTER_TROUBLE_S)
                self._look.set()
                continue
            for run_id in wanted:
                if run_id not in self._known:
                    self._known.add(run_id)
                    self._spawn(self._follow(run_id))
            first = False

    async def _wanted(self, *, first: bool) -> list[str]:
        """The runs to follow, the oldest first. Those that were over before the page came only if it asks for them."""
        newest = await self._client.runs(thread=self._thread, limit=RUNS_LOOKED_AT)  # first: what ends now is not over
        started = await self._client.runs(thread=self._thread, statuses=STARTED, limit=RUNS_LOOKED_AT)
        waiting = await self._client.runs(thread=self._thread, statuses=(RunStatus.QUEUED,), limit=MOST_QUEUED)
        queued: list[str] = [run.id for run in reversed(waiting)]
        gone = [run_id for run_id in self._queued if run_id not in set(queued)]
        self._queued = queued[1:]
        ended = [run.id for run in reversed(newest) if run.status not in LIVE]
        if first:
            self._known.update(run_id for run_id in ended if run_id not in self._after)
        over = self._after if first else ended
        return [*gone, *over, *(run.id for run in reversed(started)), *queued[:1]]

    async def _follow(self, run_id: str) -> None:
        async with self._places:
            await self._told(run_id)

    async def _told(self, run_id: str) -> None:
        after = self._after.get(run_id, 0)
        while True:
            try:
                async with aclosing(self._encoder.following(self._client, run_id, after)) as followed:
                    async for event in followed:
                        await self._keep(run_id, event)
                        after = event.seq
            except NotFound:
                return  # the page remembers a run that is gone
            except ClewError as error:
                log.warning("the events of a run could not be read: %s", error.code)
                await asyncio.sleep(AFTER_TROUBLE_S)
            else:
                return

    async def _keep(self, run_id: str, event: Encoded) -> None:
        """Until the page has taken it; waits while enough is kept already."""
        self._reader.hold(event.data)
        await self._room.wait()
        self._waiting.append((run_id, event))
        self._waiting_bytes += len(event.data)
        if self._waiting_bytes >= MOST_WAITING_BYTES:
            self._room.clear()
        self._ready()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
