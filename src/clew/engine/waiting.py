"""What a run waits for before its agent may start: its turn in the thread, the reset of a usage limit, a free slot.

A wait polls the store, and ends early if the run is cancelled. `poll_now` makes it poll at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from clew.core.runs.events import RunQueued
from clew.core.runs.run import IN_TERMINAL, Run, RunStatus
from clew.engine import queue, recovery
from clew.engine.journal import Journal
from clew.engine.leases import HeldLeases, slots_for, thread_key
from clew.engine.queue import Opened
from clew.engine.request import TurnRequest
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.engine.stopping import StopConditions
from clew.engine.storage.async_store import IDEMPOTENT
from clew.engine.storage.store_retry import RetryingStore
from clew.store.store import Store

SLOW_POLL_FACTOR = 10  # polls are this much rarer for all runs in a queue except the first


class StartWait:
    """The waits of one run."""

    def __init__(
        self,
        request: TurnRequest,
        run: Run,
        store: RetryingStore,
        journal: Journal,
        leases: HeldLeases,
        stop: StopConditions,
        settings: EngineSettings,
        context: RuntimeContext,
        adapter_of: recovery.AdapterOf,
    ) -> None:
        self._request = request
        self._run = run
        self._store = store
        self._journal = journal
        self._leases = leases
        self._stop = stop
        self._settings = settings
        self._context = context
        self._adapter_of = adapter_of
        self._poll_requested = asyncio.Event()
        self._slots_taken = 0
        self.has_thread = False  # the run has, or had, the thread's lease
        self.has_waited = False  # so it may have been cancelled meanwhile

    def poll_now(self) -> None:
        """Makes the wait poll at once, because something has changed in the store."""
        self._poll_requested.set()

    async def for_thread(self, token: str, opened: Opened) -> None:
        """`token` belongs to the thread's lease if the run already has it, else to its waiting lease."""
        for slot in opened.slots:
            self._leases.keep(slot)
        self._slots_taken = len(opened.slots)
        if opened.leased:
            self._take_thread(token)
            return
        self._leases.keep(token)
        self.has_waited = True
        await self._until_thread_is_free()

    async def _until_thread_is_free(self) -> None:
        """Waits until the runs before this one have ended and it is not held, or until it is cancelled."""
        token = self._context.new_id()
        noted: str | None = None  # the run that this one waits for, as last noted in the journal
        while not await self._stop.is_cancelled():
            holder, is_next = await self._store.atomically(
                lambda store: (
                    queue.take_turn(store, self._run, token, self._context, self._settings),
                    queue.is_next(store, self._run),
                ),
                IDEMPOTENT,
            )
            if holder is None:
                self._take_thread(token)
                return
            if holder != noted:
                noted = holder
                until = await self._store.call(partial(_waits_until, holder))
                is_held = holder == self._run.id
                await self._journal.note(_queued(holder, until, is_held=is_held))
            await recovery.recover_dead(self._store, self._adapter_of, self._context, self._settings)
            await self._pause(self._settings.poll_s * (1 if is_next else SLOW_POLL_FACTOR))

    def _take_thread(self, token: str) -> None:
        self._leases.keep_as_fence(thread_key(self._run.thread_id), token)
        self.has_thread = True

    async def for_limit(self) -> None:
        """Waits until the usage limit has reset, or the run is sent or cancelled. It keeps the thread meanwhile."""
        until = self._request.not_before
        if until is None or until <= self._context.clock():
            return
        self.has_waited = True
        await self._journal.note(RunQueued("limit", until=until))
        while until is not None and not await self._stop.is_cancelled():
            left_s = until - self._context.clock()
            if left_s <= 0:
                return
            await self._pause(min(left_s, self._settings.poll_s * SLOW_POLL_FACTOR))
            until = await self._store.call(lambda store: store.runs.require(self._run.id).asked.not_before)

    async def for_slots(self) -> None:
        """Waits for a slot of this machine, which limits its agents, and for one of the host if that has a limit."""
        for slots in slots_for(self._request, self._context, self._settings)[self._slots_taken :]:
            self.has_waited = True
            if not self._stop.is_cancelled_here:
                await self._leases.take_slot(
                    slots, lambda: self._journal.note(RunQueued("slot")), self._stop.is_cancelled
                )

    async def _pause(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._poll_requested.wait()
        self._poll_requested.clear()


def _waits_until(run_id: str, store: Store) -> float | None:
    """When this run starts, if it waits for a usage limit to reset; else None."""
    run = store.runs.find(run_id)
    return run.asked.not_before if run is not None and run.status is RunStatus.QUEUED else None


def _queued(holder: str, until: float | None, *, is_held: bool) -> RunQueued:
    if is_held:
        return RunQueued("person")
    return RunQueued("terminal") if holder == IN_TERMINAL else RunQueued("thread", holder, until)
