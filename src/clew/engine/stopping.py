"""When a run must stop: it is cancelled, its time is used up, or another process took its thread over.

A cancel comes from this process, or from another one through the store. A run that is stopped because this process
ends was not cancelled. If it is a daemon's run and has not started, the next daemon carries it out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clew.core.ids import RunId
from clew.engine.leases import HeldLeases
from clew.engine.storage.store_retry import RetryingStore


class StopConditions:
    """The stop conditions of one run, over all its attempts."""

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
        self._timeout_s = timeout_s
        self._leases = leases
        self.spent_s = 0.0  # wall-clock time of the run, without the time that it waited for a person
        self.cancelled_at: float | None = None  # when this process stopped the run
        self.is_abandoned = False  # stopped because this process ends or returns its work, which is no cancel
        self.at_once = asyncio.Event()  # set: the agent gets no time to stop by itself

    @property
    def is_lost(self) -> bool:
        """Whether another process took the thread over. The run then stops at once and writes nothing."""
        return self._leases.is_lost

    @property
    def is_timed_out(self) -> bool:
        return self._timeout_s is not None and self.spent_s >= self._timeout_s

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
        """Whether any process asked through the store to cancel the run."""
        return await self._store.call(lambda store: store.runs.cancel_requested(self._run_id))

    async def is_cancelled_so_far(self) -> bool:
        """Like `is_cancelled`, but does not wait for an unavailable store: the caller also watches time limits."""
        if self.is_cancelled_here:
            return True
        return await self._store.call_once(lambda store: store.runs.cancel_requested(self._run_id), default=False)
