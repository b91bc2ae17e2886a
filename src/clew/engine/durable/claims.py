"""What one worker has claimed of the jobs in line: as many as it can run, and no more.

Theory of operation
1. The line of jobs stands in the store (`store/tables/jobs.py`). A worker claims the oldest ones that may begin, one a
   free place, and the next one as soon as a place is free. So a backlog stays in the line, where every worker
   takes from it at its own pace, and a look at it costs the same however long it is.
2. A claimed job holds a place while it runs. One that waits for a time (a usage limit) keeps its claim, because its
   session is on this machine, and leaves its place to another.
3. A claim ends with the job, when it is released (not the job's turn after all, or not its time), or with its worker:
   whoever forgets a worker releases what it had.
4. A claim whose answer was lost on the way is known to the store and to nobody here. `check` releases it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from clew.engine.storage.async_store import AsyncStore
from clew.errors import StoreError
from clew.store.store import Store

CHECKED_AT_ONCE = 500  # of the jobs behind others


class WorkerSlot:
    """One of those that a worker can run at once. Held from the claim on."""

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


# Carries a claimed job on as far as it goes. Says from when on it may be claimed again; None: it is over.
RunClaimed = Callable[[str, WorkerSlot], Awaitable[float | None]]


class Claims:
    def __init__(
        self,
        async_store: AsyncStore,
        clock: Callable[[], float],
        worker_id: str,
        most: int,
        carry: RunClaimed,
        *,
        own: bool = True,
    ) -> None:
        """`own=False`: it leaves alone what somebody submitted, and takes what hooks made."""
        self._store = async_store
        self._clock = clock
        self._worker_id = worker_id
        self._carry = carry
        self._own = own
        self._slots = asyncio.Semaphore(most)
        self._held: dict[str, asyncio.Task[None]] = {}
        self._claiming = asyncio.Lock()  # what is claimed and not held yet is not to be taken for lost
        self._one_ended = asyncio.Event()
        self._checked = 0

    @property
    def held(self) -> frozenset[str]:
        """The jobs that it has, those that wait included."""
        return frozenset(self._held)

    async def fill(self) -> bool:
        """Waits for a free place, then claims and begins one job for each. False: there was nothing for all of them."""
        await self._slots.acquire()
        slots = [WorkerSlot(self._slots)]
        try:
            while not self._slots.locked():
                await self._slots.acquire()
                slots.append(WorkerSlot(self._slots))
            wanted = len(slots)
            async with self._claiming:
                now = self._clock()
                claimed = await self._store.call(
                    lambda store: store.jobs.claim(self._worker_id, now, wanted, own=self._own)
                )
                for job_id in claimed:
                    self._begin(job_id, slots.pop())
            return len(claimed) == wanted
        finally:
            for slot in slots:
                slot.release()

    def _begin(self, job_id: str, slot: WorkerSlot) -> None:
        task = asyncio.create_task(self._carried(job_id, slot))
        self._held[job_id] = task

    async def _carried(self, job_id: str, slot: WorkerSlot) -> None:
        try:
            ready_at = await self._carry(job_id, slot)
            if ready_at is not None:
                with contextlib.suppress(StoreError):  # the next check releases it
                    await self._store.call(lambda store: store.jobs.release_claim(self._worker_id, job_id, ready_at))
        finally:
            if self._held.get(job_id) is asyncio.current_task():
                del self._held[job_id]
            slot.release()
            self._one_ended.set()

    async def until_one_ends(self, most_s: float) -> None:
        """The next one of its key may begin then. At the latest after that time: there may be new ones."""
        self._one_ended.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._one_ended.wait()

    async def check(self) -> None:
        """Releases what is claimed for this worker and not known here, and looks after the line."""
        async with self._claiming:
            held = self.held

            def look(store: Store) -> int:
                for job_id in store.jobs.claimed_by(self._worker_id):
                    if job_id not in held:
                        store.jobs.release_claim(self._worker_id, job_id, None)
                return store.jobs.repair_queue(self._checked, CHECKED_AT_ONCE)

            self._checked = await self._store.call(look)

    def any_left(self, store: Store) -> bool:
        """Something is under way that is for workers like this one, whoever has it."""
        return store.jobs.any_unfinished(own=self._own)

    async def end(self) -> None:
        """What is under way is handed back."""
        held = list(self._held.values())
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
