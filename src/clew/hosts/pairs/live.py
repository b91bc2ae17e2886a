"""A pair that this process carries out, as its surface sees it; and whose it is: a pair belongs to one process."""

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
from clew.hosts.pairs.files import Look
from clew.store.store import Store

LEASE_PREFIX = "pair/"


class PairRunOptions(Record):
    """How a pair is carried out, this time."""

    timeout_s: float | None = None  # of a run
    auto_save: bool = True
    wait_for_limit: bool = True  # continues by itself when the account's usage limit has reset; else it stops
    person: Person | None = None  # who answers the agents' questions; None: nobody


DEFAULT_RUN_OPTIONS = PairRunOptions()


class LivePair:
    """A pair that this process carries out: its events as they come, and its end."""

    def __init__(self, pair: Pair, leases: HeldLeases, manner: PairRunOptions) -> None:
        self.pair = pair  # as it began
        self.manner = manner
        self.leases = leases
        self.stopped = False
        self.task: asyncio.Task[None]
        self.not_before: float | None = None  # when the usage limit has reset that its last run met
        self.saved: str | None = None  # its state file, once it was written
        self.told_too_much = False  # that nobody looks at the files
        self.error: ClewError | None = None  # why it stopped, once it has
        self._turn: LiveTurn | None = None
        self._killed = False
        self._looking: asyncio.Task[Look | None] | None = None
        self._events: asyncio.Queue[PairEvent | None] = asyncio.Queue()

    @property
    def lost(self) -> bool:
        """Another process took it over."""
        return self.leases.is_lost

    async def events(self) -> AsyncIterator[PairEvent]:
        """For one listener."""
        while (event := await self._events.get()) is not None:
            yield event

    async def finish(self) -> None:
        """Waits for the end; a cancelled wait does not cancel the pair."""
        await asyncio.shield(self.task)

    def cancel(self) -> None:
        """Stops gently: what was said is kept, and the pair can be gone on with."""
        self.stopped = True
        if self._turn is not None:
            self._turn.cancel()

    def kill(self) -> None:
        self.stopped = self._killed = True
        if self._looking is not None:
            self._looking.cancel()
        if self._turn is not None:
            self._turn.kill()

    def tell(self, event: PairEvent | None) -> None:
        """None: there is nothing more to come."""
        self._events.put_nowait(event)

    async def looked(self, look: Coroutine[Any, Any, Look | None]) -> Look | None:
        """At the files. A kill ends it: then nothing is known of them."""
        self._looking = asyncio.create_task(look)
        if self._killed:
            self._looking.cancel()
        try:
            await asyncio.wait([self._looking])
            return None if self._looking.cancelled() else self._looking.result()
        finally:
            self._looking.cancel()
            self._looking = None

    def follow(self, turn: LiveTurn) -> None:
        self._turn = turn
        if self.stopped or self.lost:
            turn.cancel()


def lease_key(pair: Pair) -> str:
    return f"{LEASE_PREFIX}{pair.id}"


def check_free(store: Store, engine: Engine, pair: Pair) -> None:
    """Raises Busy while a process that is alive carries it out."""
    if live_lease(store, lease_key(pair), engine.context) is not None:
        raise Busy(f"The pair {pair.name} is going on in another process.", hint="Wait for it, or stop it there.")


def sessions_of(store: Store, thread_id: ThreadId) -> dict[str, str]:
    """One a model: the one that its next turn would go on in."""
    pins = store.pins.of_thread(thread_id, retired=False)
    return {
        pin.model or "default": pin.session_id for pin in pins if pin.state is PinState.GOOD and pin.borrowed_at is None
    }
