"""One run a thread, and a cap on agents: both are leases in the store, kept alive by a heartbeat.

A lease is held by a process. On the same machine its death is seen at once (pid and start time); from elsewhere, when
its heartbeat stops. Heartbeats and expiries go by the store's clock (`now`), so that a machine whose own clock is wrong
takes nobody for dead. Whoever finds a dead holder cleans up after it before taking over (see recovery).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from clew.core.ids import RunId, ThreadId
from clew.core.run import Owner
from clew.engine import processes
from clew.engine.database import Access, never
from clew.engine.settings import EngineSettings, Slots, Surroundings
from clew.errors import AgentFailed, StoreError
from clew.store.records import Lease
from clew.store.store import Store


def thread_key(thread_id: ThreadId) -> str:
    return f"thread/{thread_id}"


def waiting_key(run_id: RunId) -> str:
    """Held by a run that waits for its thread: its heartbeat, for those who cannot see its process."""
    return f"waiting/{run_id}"


def slot_prefix(owner: Owner) -> str:
    return f"agents/{owner.host}"


# Runs that this very process is carrying out. One that is not here although this process owns it could not be brought
# to its end (the store failed): recovery may have it, as after a crash.
ours: set[str] = set()


def now(store: Store, surroundings: Surroundings) -> float:
    """What leases and heartbeats are written with and compared to."""
    return store.time(surroundings.clock)


def is_dead(store: Store, lease: Lease, surroundings: Surroundings) -> bool:
    """The holder is gone: surely (same machine), or as far as its silence tells."""
    if lease.owner == surroundings.owner:
        return lease.run_id is not None and lease.run_id not in ours
    return is_gone(store, lease.owner, lease.expires_at, surroundings)


def is_gone(store: Store, owner: Owner, heard_until: float, surroundings: Surroundings) -> bool:
    """A process on this machine that is not there; one elsewhere that has not been heard of for too long."""
    if owner.host == surroundings.owner.host:
        return not processes.is_alive(owner.pid, owner.started)
    return heard_until < now(store, surroundings)


class Leases:
    """The leases of one run; `lost` is set when one could not be kept."""

    def __init__(self, database: Access, settings: EngineSettings, surroundings: Surroundings, run_id: RunId) -> None:
        self._database = database
        self._settings = settings
        self._around = surroundings
        self._run_id = run_id
        self._tokens: list[str] = []
        self._thread = ("", "")
        self.lost = asyncio.Event()

    async def take_slot(
        self, slots: Slots, on_wait: Callable[[], Awaitable[None]], given_up: Callable[[], Awaitable[bool]]
    ) -> None:
        """Waits for a free place among so many."""
        token = self._around.new_id()
        told = False
        while True:
            lease = await self._database.atomically(lambda store: self._try_slot(store, slots, token), never)
            if lease is not None:
                self._tokens.append(token)
                return
            if not told:
                told = True
                await on_wait()
            await asyncio.sleep(self._settings.poll_s)
            if await given_up():
                return

    def _try_slot(self, store: Store, slots: Slots, token: str) -> Lease | None:
        with store.transaction():
            leases = store.leases(f"{slots.prefix}/")
            for lease in leases if len(leases) >= slots.most else ():  # else there is a place that nobody has
                if is_dead(store, lease, self._around):
                    store.release_lease(lease.token)
                elif lease.expires_at <= now(store, self._around):
                    # Late but alive (the machine slept, the clock jumped): its place is not free for the taking.
                    store.renew_lease(lease.token, now(store, self._around), self._settings.lease_s)
            return store.acquire_slot(
                slots.prefix,
                slots.most,
                token=token,
                owner=self._around.owner,
                run_id=self._run_id,
                now=now(store, self._around),
                ttl_s=self._settings.lease_s,
            )

    def holds(self, token: str) -> None:
        """Keeps a lease alive that was taken elsewhere."""
        self._tokens.append(token)

    def holds_thread(self, thread_id: ThreadId, token: str) -> None:
        """Keeps the thread's lease alive that was taken elsewhere (together with the run's first row)."""
        self._tokens.append(token)
        self._thread = (thread_key(thread_id), token)

    @property
    def held_thread(self) -> bool:
        """It had its turn, whoever has the thread by now."""
        return bool(self._thread[0])

    def fence(self, store: Store) -> None:
        """Inside a transaction: raises when the thread is somebody else's by now, so that nothing is written."""
        key, token = self._thread
        held = store.lease(key)
        if held is None or held.token != token:
            self.lost.set()
            raise AgentFailed("Another process took this thread over while the run was silent.", hint="Ask again.")

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """The heartbeat runs inside; everything is given back at the end."""
        beat = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beat
            with contextlib.suppress(StoreError):
                await self.release()  # or the next start frees it: an answer that is stored is not failed by this

    async def release(self) -> None:
        if self._tokens:
            await self._database.atomically(self.give_back, never)
            self.given_back()

    def give_back(self, store: Store) -> None:
        """In a transaction; `given_back` when that is stored."""
        for token in self._tokens:
            store.release_lease(token)

    def given_back(self) -> None:
        self._tokens = []

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._settings.lease_s / 3)
            with contextlib.suppress(StoreError):  # it may be well again at the next beat; the fence is what counts
                if not await self._database.atomically(self._renew):
                    self.lost.set()

    def _renew(self, store: Store) -> bool:
        at = now(store, self._around)
        kept = [store.renew_lease(token, at, self._settings.lease_s) for token in self._tokens]
        return all(kept)
