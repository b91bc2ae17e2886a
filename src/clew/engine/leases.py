"""Leases: who may do something alone, on any machine (law 5), and the heartbeat that keeps them.

Theory of operation
1. A lease is a row of the store, held by a process under a token of its own. A run holds its thread's lease, or while
   it waits a lease of its own, and slots, which cap how many agents run at once. A pair that is carried out holds one.
2. On the same machine the death of a holder is seen at once (pid and start time); from elsewhere, when its heartbeat
   stops. Heartbeats and expiries go by the store's clock (`now`), so that a machine whose own clock is wrong takes
   nobody for dead.
3. The token is the fence: whoever holds a lease checks it in every transaction that writes what the lease guards. A
   process that slept while another one took the lease over writes nothing more.
4. Whoever finds a dead holder cleans up after it before it takes the lease over (see recovery).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from clew.core.ids import RunId, ThreadId
from clew.core.runs.run import Owner
from clew.engine.process.family import is_alive
from clew.engine.request import Slots
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.engine.storage.async_store import IDEMPOTENT, StoreAccess
from clew.errors import ClewError, StoreError
from clew.store.records import Lease
from clew.store.store import Store

# Runs that this very process is carrying out. One that is not here although this process owns it could not be brought
# to its end (the store failed): recovery may end it, as after a crash.
runs_of_this_process: set[str] = set()


def thread_key(thread_id: ThreadId) -> str:
    return f"thread/{thread_id}"


def waiting_key(run_id: RunId) -> str:
    """Held by a run that waits for its thread: its heartbeat, for those who cannot see its process."""
    return f"waiting/{run_id}"


def slot_prefix(owner: Owner) -> str:
    return f"agents/{owner.host}"


def now(store: Store, context: RuntimeContext) -> float:
    """What leases and heartbeats are written with and compared to."""
    return store.leases.time(context.clock)


def is_process_dead(store: Store, owner: Owner, heard_until: float, context: RuntimeContext) -> bool:
    """A process on this machine that is not there; one elsewhere that has not been heard of for too long."""
    if owner.host == context.owner.host:
        return not is_alive(owner.pid, owner.started)
    return heard_until < now(store, context)


def is_holder_dead(store: Store, lease: Lease, context: RuntimeContext) -> bool:
    if lease.owner == context.owner:
        return lease.run_id is not None and lease.run_id not in runs_of_this_process
    return is_process_dead(store, lease.owner, lease.expires_at, context)


def live_lease(store: Store, key: str, context: RuntimeContext) -> Lease | None:
    """The lease of that key, if its holder is alive."""
    held = store.leases.find(key)
    return None if held is None or is_holder_dead(store, held, context) else held


def acquire(
    store: Store, key: str, token: str, context: RuntimeContext, settings: EngineSettings, run_id: RunId | None = None
) -> bool:
    """A lease that is free or has expired. False: somebody holds it."""
    at = now(store, context)
    lease = store.leases.acquire(key, token=token, owner=context.owner, run_id=run_id, now=at, ttl_s=settings.lease_s)
    return lease is not None


def take_over(
    store: Store, key: str, token: str, context: RuntimeContext, settings: EngineSettings, run_id: RunId | None = None
) -> bool:
    """Inside a transaction: also from a holder that is dead. False: a live process holds it."""
    held = store.leases.find(key)
    if held is None:
        return acquire(store, key, token, context, settings, run_id)
    if not is_holder_dead(store, held, context):
        return False
    at, owner = now(store, context), context.owner
    taken = store.leases.take(
        key, old_token=held.token, token=token, owner=owner, run_id=run_id, now=at, ttl_s=settings.lease_s
    )
    return taken is not None


class HeldLeases:
    """The leases that this process holds for one run or one pair: kept alive, checked before a write, given back."""

    def __init__(
        self,
        async_store: StoreAccess,
        settings: EngineSettings,
        context: RuntimeContext,
        taken_over: Callable[[], ClewError],
        run_id: RunId | None = None,
    ) -> None:
        """`taken_over` makes the error of a write after another process took over what was guarded."""
        self._store = async_store
        self._settings = settings
        self._context = context
        self._taken_over = taken_over
        self._run_id = run_id
        self._tokens: list[str] = []
        self._fence: tuple[str, str] | None = None  # key and token
        self.is_lost = False  # one of them is another process's by now

    def keep(self, token: str) -> None:
        """Keeps a lease alive that was taken already."""
        self._tokens.append(token)

    def keep_as_fence(self, key: str, token: str) -> None:
        """The same, for the lease that guards what is written (see `fence`)."""
        self.keep(token)
        self._fence = key, token

    @property
    def has_fence(self) -> bool:
        """It had that lease, whoever has it by now."""
        return self._fence is not None

    def fence(self, store: Store) -> None:
        """Inside a transaction: raises when the lease is somebody else's by now, so that nothing is written."""
        assert self._fence is not None
        key, token = self._fence
        held = store.leases.find(key)
        if held is None or held.token != token:
            self.is_lost = True
            raise self._taken_over()

    async def take_slot(
        self, slots: Slots, on_wait: Callable[[], Awaitable[None]], given_up: Callable[[], Awaitable[bool]]
    ) -> None:
        """Waits for a free slot, unless the wait is given up."""
        token = self._context.new_id()
        told = False
        while True:
            lease = await self._store.atomically(lambda store: self._try_slot(store, slots, token), IDEMPOTENT)
            if lease is not None:
                self.keep(token)
                return
            if not told:
                told = True
                await on_wait()
            await asyncio.sleep(self._settings.poll_s)
            if await given_up():
                return

    def _try_slot(self, store: Store, slots: Slots, token: str) -> Lease | None:
        with store.transaction():
            leases = store.leases.under(f"{slots.prefix}/")
            for lease in leases if len(leases) >= slots.most else ():  # else there is one that nobody has
                if is_holder_dead(store, lease, self._context):
                    store.leases.release(lease.token)
                elif lease.expires_at <= now(store, self._context):
                    # Late but alive (the machine slept, the clock jumped): its slot is not free.
                    store.leases.renew(lease.token, now(store, self._context), self._settings.lease_s)
            return store.leases.acquire_slot(
                slots.prefix,
                slots.most,
                token=token,
                owner=self._context.owner,
                run_id=self._run_id,
                now=now(store, self._context),
                ttl_s=self._settings.lease_s,
            )

    @asynccontextmanager
    async def kept(self, on_lost: Callable[[], object] = lambda: None) -> AsyncIterator[None]:
        """The heartbeat runs inside; everything is given back at the end. `on_lost`: called by the heartbeat."""
        heartbeat = asyncio.create_task(self._beat(on_lost))
        try:
            yield
        finally:
            heartbeat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await heartbeat
            with contextlib.suppress(StoreError):
                await self.release()  # or the next start frees it: an answer that is stored is not failed by this

    async def _beat(self, on_lost: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_s / 3)
            with contextlib.suppress(StoreError):  # it may be back at the next beat; the fence is what counts
                if not await self._store.atomically(self._renew):
                    self.is_lost = True
                    on_lost()

    def _renew(self, store: Store) -> bool:
        at = now(store, self._context)
        kept = [store.leases.renew(token, at, self._settings.lease_s) for token in self._tokens]
        return all(kept)

    async def release(self) -> None:
        if self._tokens:
            await self._store.atomically(self.give_back, IDEMPOTENT)
            self.given_back()

    def give_back(self, store: Store) -> None:
        """Within a transaction of the caller's, who calls `given_back` when that is stored."""
        for token in self._tokens:
            store.leases.release(token)

    def given_back(self) -> None:
        self._tokens = []
