"""The jobs that one worker has claimed from the queue: as many as it can run at once.

Theory of operation
1. The queue of jobs is in the store (`store/tables/jobs.py`). A worker claims the most urgent jobs that may start, and
   of those the oldest: one for each free slot, and the next job as soon as a slot is free. So a backlog stays in the
   queue, every worker takes jobs at its own pace, and a claim costs the same however long the queue is.
2. A claimed job holds a slot while it runs. A job that waits (for a usage limit) keeps its claim, because its session
   is on this machine, but it releases its slot to another job.
3. A claim ends when the job stops, when it is released because the job may not start yet, or when its worker is
   removed from the store.
4. If the store's answer to a claim is lost, the store has a claim that this worker does not know. `check` releases it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from clew.engine.storage.async_store import AsyncStore
from clew.errors import StoreError
from clew.store.store import Store

CHECKED_AT_ONCE = 500  # how many waiting jobs one check looks at


class WorkerSlot:
    """One of the slots for jobs that a worker runs at once. A new one is already held, by the job that was claimed."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._is_held = True

    async def acquire(self) -> None:
        if not self._is_held:
            await self._slots.acquire()
            self._is_held = True

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._slots.release()


# Runs a claimed job. Returns the time from which the job may be claimed again; None: the job has stopped.
RunClaimed = Callable[[str, WorkerSlot], Awaitable[float | None]]


class Claims:
    def __init__(
        self,
        async_store: AsyncStore,
        clock: Callable[[], float],
        worker_id: str,
        concurrency: int,
        run_claimed: RunClaimed,
        *,
        own: bool = True,
    ) -> None:
        """`own=False`: only jobs of hooks are claimed, not those that somebody submitted."""
        self._store = async_store
        self._clock = clock
        self._worker_id = worker_id
        self._run_claimed = run_claimed
        self._own = own
        self._slots = asyncio.Semaphore(concurrency)
        self._held: dict[str, asyncio.Task[None]] = {}
        self._claiming = asyncio.Lock()  # `check` must not release a job between its claim and its entry in `_held`
        self._one_ended = asyncio.Event()
        self._checked = 0  # the number of the last waiting job that was checked

    @property
    def held(self) -> frozenset[str]:
        """The claimed jobs, including those that wait."""
        return frozenset(self._held)

    async def fill(self) -> bool:
        """Waits for a free slot, then claims and starts a job for each one. False: there were fewer jobs than slots."""
        await self._slots.acquire()
        slots = [WorkerSlot(self._slots)]
        try:
            while not self._slots.locked():
                await self._slots.acquire()
                slots.append(WorkerSlot(self._slots))
            limit = len(slots)
            async with self._claiming:
                now = self._clock()
                claimed = await self._store.call(
                    lambda store: store.jobs.claim(self._worker_id, now, limit, own=self._own)
                )
                for job_id in claimed:
                    self._held[job_id] = asyncio.create_task(self._run(job_id, slots.pop()))
            return len(claimed) == limit
        finally:
            for slot in slots:
                slot.release()

    async def _run(self, job_id: str, slot: WorkerSlot) -> None:
        try:
            ready_at = await self._run_claimed(job_id, slot)
            if ready_at is not None:
                with contextlib.suppress(StoreError):  # the next `check` releases the claim
                    await self._store.call(lambda store: store.jobs.release_claim(self._worker_id, job_id, ready_at))
        finally:
            if self._held.get(job_id) is asyncio.current_task():
                del self._held[job_id]
            slot.release()
            self._one_ended.set()

    async def until_one_ends(self, timeout_s: float) -> None:
        """Waits until a job ends, since the next job of its key may start then, or for `timeout_s`."""
        self._one_ended.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._one_ended.wait()

    async def check(self) -> None:
        """Releases claims that the store has for this worker but that are not held here, and repairs the queue."""
        async with self._claiming:
            held = self.held

            def release(store: Store) -> int:
                for job_id in store.jobs.claimed_by(self._worker_id):
                    if job_id not in held:
                        store.jobs.release_claim(self._worker_id, job_id, None)
                return store.jobs.repair_queue(self._checked, CHECKED_AT_ONCE)

            self._checked = await self._store.call(release)

    async def end(self) -> None:
        """Cancels the jobs that are held. Each of them is queued again."""
        held = list(self._held.values())
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
