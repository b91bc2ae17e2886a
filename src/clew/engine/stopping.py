"""When a run must stop: somebody cancels it, its time is used up, or another process took its thread over.

A cancel comes from this process, or from another one through the store. A run that is stopped because this process
ends was not cancelled by anybody: when it is a daemon's and has not started, the next daemon carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clew.core.ids import RunId
from clew.engine.leases import HeldLeases
from clew.engine.storage.store_retry import RetryingStore


class Budget:
    """A run's wall clock, over all its attempts."""

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.spent_s = 0.0

    @property
    def is_spent(self) -> bool:
        return self.limit_s is not None and self.spent_s >= self.limit_s


class StopConditions:
    """Of one run, over all its attempts."""

    def __init__(
        self,
        run_id: RunId,
        store: RetryingStore,
        clock: Callable[[], float],
        timeout_s: float | None,
        leases: HeldLeases,
    ) -> None:
        self._run_id = run_id
        self._store = store
        self._clock = clock
        self.budget = Budget(timeout_s)
        self._leases = leases
        self.cancelled_at: float | None = None  # by this process
        self.is_abandoned = False  # by this process, which ends or hands its work back: nobody cancelled the run
        self.at_once = asyncio.Event()  # the agent gets no time to stop by itself

    @property
    def is_lost(self) -> bool:
        """Another process took the thread over: stop at once and write nothing."""
        return self._leases.is_lost

    @property
    def is_cancelled_here(self) -> bool:
        return self.cancelled_at is not None

    def cancel(self) -> None:
        if self.cancelled_at is None:
            self.cancelled_at = self._clock()

    def kill(self) -> None:
        self.cancel()
        self.at_once.set()

    def abandon(self) -> None:
        self.is_abandoned = True
        self.cancel()

    async def is_cancelled(self) -> bool:
        return self.is_cancelled_here or await self.is_cancelled_in_store()

    async def is_cancelled_in_store(self) -> bool:
        """Somebody asked for it, in any process."""
        return await self._store.call(lambda store: store.runs.cancel_requested(self._run_id))

    async def is_cancelled_so_far(self) -> bool:
        """As far as is known. While the store is away, a run does not wait for it: its clocks must be watched."""
        if self.is_cancelled_here:
            return True
        return await self._store.glance(lambda store: store.runs.cancel_requested(self._run_id), else_=False)
