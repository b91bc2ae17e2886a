"""The events of one thread for one page: of every run that is live or starts later, without those that the page has.

A run is followed by a task of its own once it has started or is the first in the queue, so a long queue costs nothing.
Little is buffered for a page, and a slow page delays only its own reading.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing

from clew.api.client import Client, Thread
from clew.core.runs.run import LIVE, RunStatus
from clew.errors import ClewError, NotFound
from clew.server.live.event_encoding import EncodedEvent, EventEncoder
from clew.server.live.send_buffers import ClientBuffer
from clew.server.models.problems import log

RUNS_READ = 100  # the newest runs: those that started and ended between two reads are among them
MAX_QUEUED = 1_000
MAX_FOLLOWED = 8  # runs at once: the active one, the first queued one, and some that have ended
STARTED = LIVE - {RunStatus.QUEUED}
MAX_WAITING_BYTES = 128 * 1024  # of the events that wait for one page; one event may be larger
BATCH_BYTES = 64 * 1024
RETRY_S = 1.0

Batch = tuple[str, list[EncodedEvent]]  # a run and some of its events, in order


class ThreadWatch:
    """Call `start` first and `close` at the end. It calls `ready` when there are events to `take`."""

    def __init__(
        self,
        client: Client,
        thread: Thread,
        after: Mapping[str, int],
        encoder: EventEncoder,
        buffer: ClientBuffer,
        ready: Callable[[], None],
    ) -> None:
        self.thread_id: str = thread.record.id
        self._client = client
        self._thread = thread
        self._after = after
        self._encoder = encoder
        self._buffer = buffer
        self._ready = ready
        self._waiting: deque[tuple[str, EncodedEvent]] = deque()
        self._waiting_bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._handled: set[str] = set()  # runs that are followed, or had ended before the page connected
        self._queued: list[str] = []  # runs that were seen queued and are not followed yet
        self._slots = asyncio.Semaphore(MAX_FOLLOWED)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        self._changed.set()
        self._spawn(self._follow_new_runs())

    def changed(self) -> None:
        """Call this when the thread changed: a run may have started."""
        self._changed.set()

    def take(self) -> Batch | None:
        """The next events of one run, if there are any."""
        if not self._waiting:
            return None
        run_id = self._waiting[0][0]
        events: list[EncodedEvent] = []
        size = 0
        while self._waiting and self._waiting[0][0] == run_id and size < BATCH_BYTES:
            event = self._waiting.popleft()[1]
            events.append(event)
            size += len(event.data)
        self._waiting_bytes -= size
        if self._waiting_bytes < MAX_WAITING_BYTES:
            self._has_room.set()
        return run_id, events

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._waiting.clear()
        self._buffer.release()

    async def _follow_new_runs(self) -> None:
        first = True
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                run_ids = await self._runs_to_follow(first=first)
            except ClewError as error:
                log.warning("the runs of a thread could not be read: %s", error.code)
                await asyncio.sleep(RETRY_S)
                self._changed.set()
                continue
            for run_id in run_ids:
                if run_id not in self._handled:
                    self._handled.add(run_id)
                    self._spawn(self._follow(run_id))
            first = False

    async def _runs_to_follow(self, *, first: bool) -> list[str]:
        """The oldest first. Runs that had ended before the page connected are followed only if the page names them."""
        # `newest` is read first: a run that ends between the reads is live in it, and so is not skipped as ended.
        newest = await self._client.runs(thread=self._thread, limit=RUNS_READ)
        started = await self._client.runs(thread=self._thread, statuses=STARTED, limit=RUNS_READ)
        waiting = await self._client.runs(thread=self._thread, statuses=(RunStatus.QUEUED,), limit=MAX_QUEUED)
        queued: list[str] = [run.id for run in reversed(waiting)]
        dequeued = [run_id for run_id in self._queued if run_id not in set(queued)]
        self._queued = queued[1:]
        ended = [run.id for run in reversed(newest) if run.status not in LIVE]
        if first:
            self._handled.update(run_id for run_id in ended if run_id not in self._after)
        over = self._after if first else ended
        return [*dequeued, *over, *(run.id for run in reversed(started)), *queued[:1]]

    async def _follow(self, run_id: str) -> None:
        async with self._slots:
            await self._collect_events(run_id)

    async def _collect_events(self, run_id: str) -> None:
        after = self._after.get(run_id, 0)
        while True:
            try:
                async with aclosing(self._encoder.following(self._client, run_id, after)) as followed:
                    async for event in followed:
                        await self._enqueue(run_id, event)
                        after = event.seq
            except NotFound:
                return  # the page asked for a run that was deleted
            except ClewError as error:
                log.warning("the events of a run could not be read: %s", error.code)
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _enqueue(self, run_id: str, event: EncodedEvent) -> None:
        """Waits while the page's queue is full."""
        self._buffer.hold(event.data)
        await self._has_room.wait()
        self._waiting.append((run_id, event))
        self._waiting_bytes += len(event.data)
        if self._waiting_bytes >= MAX_WAITING_BYTES:
            self._has_room.clear()
        self._ready()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
