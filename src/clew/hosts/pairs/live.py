"""A pair that this process runs, as its caller sees it; and the check of the lease on a pair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from clew.core.ids import ThreadId
from clew.core.pairs.pair import Pair, PairEvent
from clew.core.pins import PinState
from clew.core.record import Record
from clew.core.runs.options import Person
from clew.engine.engine import Engine
from clew.engine.leases import HeldLeases, live_lease
from clew.engine.turn import LiveTurn
from clew.errors import Busy, ClewError
from clew.hosts.pairs.files import FileScan
from clew.store.store import Store

LEASE_PREFIX = "pair/"


class PairRunOptions(Record):
    """How this process runs a pair. These options are not stored with the pair."""

    timeout_s: float | None = None  # of a run
    auto_save: bool = True
    wait_for_limit: bool = True  # at a usage limit, wait until it has reset; False: stop the pair
    person: Person | None = None  # who answers the agents' questions; None: nobody


DEFAULT_RUN_OPTIONS = PairRunOptions()


class LivePair:
    """A pair that this process runs: its events as they happen, and its end."""

    def __init__(self, pair: Pair, leases: HeldLeases, options: PairRunOptions) -> None:
        self.pair = pair  # as it was when this process started it
        self.options = options
        self.leases = leases
        self.stopped = False
        self.task: asyncio.Task[None]
        self.not_before: float | None = None  # when the usage limit that stopped the last run resets
        self.saved: str | None = None  # the path of the state file, once it is written
        self.warned_not_scanned = False  # the warning that the files are not scanned is sent once
        self.error: ClewError | None = None  # why it stopped, once it has
        self._turn: LiveTurn | None = None
        self._killed = False
        self._scan: asyncio.Task[FileScan | None] | None = None
        self._events: asyncio.Queue[PairEvent | None] = asyncio.Queue()
        self._has_listener = True

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken the pair over."""
        return self.leases.is_lost

    async def events(self) -> AsyncIterator[PairEvent]:
        """The events as they happen, for one listener."""
        while (event := await self._events.get()) is not None:
            yield event

    def detach(self) -> None:
        """For a caller that does not iterate over the events: they are not kept. The store has those of the runs."""
        self._has_listener = False
        while not self._events.empty():
            self._events.get_nowait()

    async def finish(self) -> None:
        """Waits for the end. Cancelling the wait does not cancel the pair."""
        await asyncio.shield(self.task)

    def cancel(self) -> None:
        """Stops gently: what the agent has said is kept, and the pair can be continued."""
        self.stopped = True
        if self._turn is not None:
            self._turn.cancel()

    def kill(self) -> None:
        self.stopped = self._killed = True
        if self._scan is not None:
            self._scan.cancel()
        if self._turn is not None:
            self._turn.kill()

    def send(self, event: PairEvent | None) -> None:
        """Sends an event to the listener; None ends its iteration."""
        if self._has_listener:
            self._events.put_nowait(event)

    async def scan(self, scanning: Coroutine[Any, Any, FileScan | None]) -> FileScan | None:
        """Scans the files. A kill ends the scan: then the result is None."""
        self._scan = asyncio.create_task(scanning)
        if self._killed:
            self._scan.cancel()
        try:
            await asyncio.wait([self._scan])
            return None if self._scan.cancelled() else self._scan.result()
        finally:
            self._scan.cancel()
            self._scan = None

    def follow(self, turn: LiveTurn) -> None:
        """Passes a cancel and a kill on to this turn."""
        self._turn = turn
        if self.stopped or self.is_lost:
            turn.cancel()


def lease_key(pair: Pair) -> str:
    return f"{LEASE_PREFIX}{pair.id}"


def check_free(store: Store, engine: Engine, pair: Pair) -> None:
    """Raises Busy while a live process runs the pair."""
    if live_lease(store, lease_key(pair), engine.context) is not None:
        hint = f"Wait for it, or stop it: clew pair --stop --session {pair.name}."
        raise Busy(f"The pair {pair.name} is running in another process.", hint=hint)


def sessions_of(store: Store, thread_id: ThreadId) -> dict[str, str]:
    """The session that the next turn would resume, by model."""
    pins = store.pins.of_thread(thread_id, retired=False)
    return {
        pin.model or "default": pin.session_id for pin in pins if pin.state is PinState.GOOD and pin.borrowed_at is None
    }
