"""Leases: exclusive rights that hold on all machines (law 5), and the heartbeat that keeps them.

Theory of operation
1. A lease is a row of the store. A process holds it under a token of its own. A run that waits holds a waiting lease;
   a run that has started holds its thread's lease, and slots, which limit how many agents run at once. A pair that is
   in progress holds a lease too.
2. On the same machine a dead holder is detected at once, by pid and start time; on another machine, when its heartbeat
   stops. Heartbeats and expiry times use the store's clock (`now`), so that a machine with a wrong clock declares no
   live process dead.
3. The token is the fence: a holder checks it in every transaction that writes what the lease guards. So a process that
   was suspended while another one took the lease over writes nothing more.
4. A process that finds a dead holder cleans up after it before it takes the lease over (see recovery).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from clew.core.ids import RunId, ThreadId
from clew.core.runs.run import Owner
from clew.core.thread import Thread
from clew.engine.process.family import is_alive
from clew.engine.request import Slots, TurnRequest
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.engine.storage.async_store import IDEMPOTENT, StoreAccess
from clew.errors import Busy, ClewError, StoreError
from clew.store.records import Lease
from clew.store.store import Store

# The runs that this process is carrying out. If this process owns a run that is not listed here, the end of that run
# could not be stored. Recovery may end such a run, as after a crash.
runs_of_this_process: set[str] = set()


COMPACTION = "compaction/"  # the beginning of the token under which a thread's session is compacted
WARM = "warm/"  # the beginning of the key of a lease on a process that is kept between two turns; the token is the key
WARM_LEASE_S = 10 * 365 * 86_400.0  # it has no heartbeat: only on its own machine can anybody end the process


def thread_key(thread_id: ThreadId) -> str:
    return f"thread/{thread_id}"


def waiting_key(run_id: RunId) -> str:
    """The lease of a run that waits for its thread. It tells other machines that the run's process is alive."""
    return f"waiting/{run_id}"


def warm_key(mark: str) -> str:
    """The lease on an agent's process that is kept between two turns (engine/warm)."""
    return f"{WARM}{mark}"


def slot_prefix(owner: Owner) -> str:
    return f"agents/{owner.host}"


def now(store: Store, context: RuntimeContext) -> float:
    """The store's time, which all leases and heartbeats are written with and compared to."""
    return store.leases.time(context.clock)


def is_process_dead(store: Store, owner: Owner, heard_until: float, context: RuntimeContext) -> bool:
    """Whether the process is gone from this machine or, on another one, sent no heartbeat by `heard_until`."""
    if owner.host == context.owner.host:
        return not is_alive(owner.pid, owner.started)
    return heard_until < now(store, context)


def is_holder_dead(store: Store, lease: Lease, context: RuntimeContext) -> bool:
    if lease.owner == context.owner:
        return lease.run_id is not None and lease.run_id not in runs_of_this_process
    return is_process_dead(store, lease.owner, lease.expires_at, context)


def live_lease(store: Store, key: str, context: RuntimeContext) -> Lease | None:
    """The lease of this key, if a live process holds it."""
    held = store.leases.find(key)
    return None if held is None or is_holder_dead(store, held, context) else held


def in_use(thread: Thread, held: Lease | None, run_id: str | None = None) -> Busy:
    """The error of a change that must not happen during a run. `held` is the thread's lease, if it has one."""
    if held is not None and held.run_id is None:
        return open_in_terminal(thread, held)
    hint = "Wait for it, or stop it with clew runs cancel."
    return Busy(f"A run is in progress in {thread.name}.", hint=hint, run_id=held.run_id if held else run_id)


def open_in_terminal(thread: Thread, held: Lease | None) -> Busy:
    """The error while the thread is used without a run: in a terminal, or to compact its session."""
    if held is not None and held.token.startswith(COMPACTION):
        return Busy(f"The session of {thread.name} is being compacted.", hint="Wait for it.")
    where = ""
    if held is not None:
        since = time.strftime("%H:%M", time.localtime(held.acquired_at))
        where = f" since {since} (process {held.owner.pid} on {held.owner.host})"
    return Busy(f"{thread.name} is open in a terminal{where}.", hint="Leave the agent there first.")


def acquire(
    store: Store, key: str, token: str, context: RuntimeContext, settings: EngineSettings, run_id: RunId | None = None
) -> bool:
    """Takes a lease that is free or has expired. False: another holder has it."""
    at = now(store, context)
    lease = store.leases.acquire(key, token=token, owner=context.owner, run_id=run_id, now=at, ttl_s=settings.lease_s)
    return lease is not None


def take_over(
    store: Store, key: str, token: str, context: RuntimeContext, settings: EngineSettings, run_id: RunId | None = None
) -> bool:
    """Inside a transaction: takes a lease that is free, or whose holder is dead. False: a live process has it."""
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


def slots_for(request: TurnRequest, context: RuntimeContext, settings: EngineSettings) -> list[Slots]:
    """Of each of these limits, a run needs a slot: the agents of this machine, and the host's limit if it has one."""
    here = Slots(slot_prefix(context.owner), settings.max_agents)
    return [here] if request.slots is None else [here, request.slots]


def take_slot(
    store: Store, slots: Slots, token: str, context: RuntimeContext, settings: EngineSettings, run_id: RunId | None
) -> bool:
    """Takes a slot that is free, or whose holder is dead. False: live processes have all of them."""
    with store.transaction():
        held = store.leases.under(f"{slots.prefix}/")
        for lease in held if len(held) >= slots.limit else ():  # with fewer leases a slot is free
            if is_holder_dead(store, lease, context):
                store.leases.release(lease.token)
            elif lease.expires_at <= now(store, context):
                # The holder is late but alive (the machine slept, or its clock jumped), so its slot is not free.
                store.leases.renew(lease.token, now(store, context), settings.lease_s)
        at, owner = now(store, context), context.owner
        taken = store.leases.acquire_slot(
            slots.prefix, slots.limit, token=token, owner=owner, run_id=run_id, now=at, ttl_s=settings.lease_s
        )
        return taken is not None


def take_slots(
    store: Store, wanted: Sequence[Slots], token: str, context: RuntimeContext, settings: EngineSettings, run_id: RunId
) -> tuple[str, ...]:
    """Takes a slot of each limit, in this order, up to the first one that has none free. Returns their tokens, which
    are made from `token`."""
    taken: tuple[str, ...] = ()
    for slots in wanted:
        mine = f"{token}/{len(taken)}"
        if not take_slot(store, slots, mine, context, settings, run_id):
            break
        taken += (mine,)
    return taken


class HeldLeases:
    """The leases that this process holds for one run or one pair. It renews, checks and releases them."""

    def __init__(
        self,
        async_store: StoreAccess,
        settings: EngineSettings,
        context: RuntimeContext,
        taken_over: Callable[[], ClewError],
        run_id: RunId | None = None,
    ) -> None:
        """`taken_over` makes the error that `fence` raises."""
        self._store = async_store
        self._settings = settings
        self._context = context
        self._taken_over = taken_over
        self._run_id = run_id
        self._tokens: list[str] = []
        self._fence: tuple[str, str] | None = None  # key and token
        self.is_lost = False  # another process has taken one of the leases over

    def keep(self, token: str) -> None:
        """Adds a lease, which the caller has acquired, to those that are renewed."""
        self._tokens.append(token)

    def keep_as_fence(self, key: str, token: str) -> None:
        """Like `keep`, for the lease that `fence` checks."""
        self.keep(token)
        self._fence = key, token

    @property
    def has_fence(self) -> bool:
        """Whether `keep_as_fence` was called, even if another process has taken the lease over since."""
        return self._fence is not None

    def fence(self, store: Store) -> None:
        """Call it inside a transaction. Raises if this process no longer has the lease, so that nothing is written."""
        assert self._fence is not None
        key, token = self._fence
        held = store.leases.find(key)
        if held is None or held.token != token:
            self.is_lost = True
            raise self._taken_over()

    async def take_slot(
        self, slots: Slots, on_wait: Callable[[], Awaitable[None]], is_given_up: Callable[[], Awaitable[bool]]
    ) -> None:
        """Waits for a free slot until `is_given_up` is true. `on_wait` is called once, if no slot is free at first."""
        token = self._context.new_id()
        is_waiting = False
        while True:
            if await self._store.atomically(
                lambda store: take_slot(store, slots, token, self._context, self._settings, self._run_id), IDEMPOTENT
            ):
                self.keep(token)
                return
            if not is_waiting:
                is_waiting = True
                await on_wait()
            await asyncio.sleep(self._settings.poll_s)
            if await is_given_up():
                return

    @asynccontextmanager
    async def kept(self, on_lost: Callable[[], object] = lambda: None) -> AsyncIterator[None]:
        """Renews the leases while inside, and releases them at the end. `on_lost` is called when one was taken over."""
        heartbeat = asyncio.create_task(self._beat(on_lost))
        try:
            yield
        finally:
            heartbeat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await heartbeat
            with contextlib.suppress(StoreError):
                await self.release()  # if this fails, recovery frees them; it is no reason to fail a run that is stored

    async def _beat(self, on_lost: Callable[[], object]) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_s / 3)
            with contextlib.suppress(StoreError):  # the next heartbeat may succeed, and `fence` protects all writes
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
        """Releases the leases in the caller's transaction. After the commit the caller calls `given_back`."""
        for token in self._tokens:
            store.leases.release(token)

    def given_back(self) -> None:
        self._tokens = []
