"""The pool: keeps an agent's process after a turn, and gives it to the next turn of its thread.

Rules
1. A process is given only to a turn whose `WarmSession` equals its own, and only once. Any other turn of that thread
   ends it: its session is about to change, and the process would not notice.
2. A process that writes something or exits although nothing was asked of it is ended, and so is one that was not used
   for `idle_s`.
3. A process is killed as soon as somebody else has continued its session: the lines that it would write at its own end
   may take the session back, and overwrite its cost.
4. The pool holds at most `max` processes, and at most `memory_bytes` of memory, as measured. The least recently used
   goes first. Who starts agents that nobody may need waits while `max` others are being ended (`has_room`).
5. A process of the pool has a lease on its mark, which tells a later Clew to end it if the pool's owner has died. As a
   rule it has exited by itself by then, because its input ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from os import urandom
from typing import TYPE_CHECKING

from clew.core.record import Record
from clew.core.runs.run import Owner
from clew.engine.faults import passed
from clew.engine.process.agent import AgentProcess

if TYPE_CHECKING:
    from clew.engine.process.handing import AgentInTransit
    from clew.engine.warm.session import WarmSession

KEY_BYTES = 32


class WarmLimits(Record):
    idle_s: float = 600.0  # a process that was not used for this long is ended
    max: int = 2  # processes that are kept at once
    memory_bytes: int = 2 << 30  # that they may hold together
    measure_s: float = 30.0  # how often that is measured
    look_s: float = 0.5  # how often the files of the sessions are looked at
    grace_s: float = 2.0  # how long a process may take to exit before it is killed


class KeptAgent(Record):
    """A process of the pool, as `clew status` shows it."""

    thread_id: str
    pid: int
    rss_bytes: int


class WarmAgents(ABC):
    """Where agents are kept: in this process, in the daemon, or nowhere."""

    @property
    @abstractmethod
    def owner(self) -> Owner:
        """The process that keeps them."""

    def when_ended(self, ended: Callable[[str], object]) -> None:  # noqa: B027 - only who keeps agents ends some
        """From now on `ended` is called with the mark of each process that was kept and has ended."""

    @abstractmethod
    async def key(self) -> bytes | None:
        """The key for `launch_digest`. None: no agent is kept now."""

    @abstractmethod
    async def holds(self, thread_id: str) -> bool:
        """Whether an agent of the thread is kept, so that the next turn may not have to start one."""

    async def kept(self) -> list[KeptAgent]:
        """The processes that are kept, the least recently used first."""
        return []

    @abstractmethod
    async def take(self, wanted: WarmSession) -> AgentProcess | None:
        """The process that was kept for exactly this. Others of the thread are ended before this returns."""

    @abstractmethod
    async def keep(self, process: AgentProcess, session: WarmSession) -> None:
        """Takes a process over that waits for a prompt. It may be ended at once."""

    async def has_room(self) -> None:  # noqa: B027 - only the daemon starts many
        """Waits while too many processes are being ended: for somebody who starts one that nobody may need."""

    @abstractmethod
    async def discard(self, thread_id: str) -> None:
        """Ends the thread's processes."""

    @abstractmethod
    async def close(self) -> None:
        """Ends the processes that are kept in this process of Clew. Those that the daemon keeps stay."""


class NoWarmAgents(WarmAgents):
    """No agent is kept."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    @property
    def owner(self) -> Owner:
        return self._owner

    async def key(self) -> bytes | None:
        return None

    async def holds(self, thread_id: str) -> bool:
        return False

    async def take(self, wanted: WarmSession) -> AgentProcess | None:
        return None

    async def keep(self, process: AgentProcess, session: WarmSession) -> None:
        await process.end(grace_s=0)

    async def discard(self, thread_id: str) -> None:
        pass

    async def close(self) -> None:
        pass


class WarmPool(WarmAgents):
    """Agents that are kept in this process."""

    def __init__(self, owner: Owner, limits: WarmLimits) -> None:
        self._owner = owner
        self._limits = limits
        self._ended: Callable[[str], object] = lambda mark: None
        self._key = urandom(KEY_BYTES)  # for `launch_digest`; it exists only in memory
        self._kept: dict[str, _Kept] = {}  # by session id; the least recently used first
        self._ending: dict[asyncio.Task[None], str] = {}  # and the thread of the process
        self._measuring: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def owner(self) -> Owner:
        return self._owner

    async def key(self) -> bytes | None:
        return None if self._is_closed else self._key

    def when_ended(self, ended: Callable[[str], object]) -> None:
        self._ended = ended

    async def holds(self, thread_id: str) -> bool:
        return any(kept.session.thread_id == thread_id for kept in self._kept.values())

    async def kept(self) -> list[KeptAgent]:
        return [
            KeptAgent(kept.session.thread_id, kept.process.pid, kept.process.rss_bytes) for kept in self._kept.values()
        ]

    async def take(self, wanted: WarmSession) -> AgentProcess | None:
        kept = self._kept.get(wanted.session_id)
        if kept is None or kept.session != wanted or not wanted.is_untouched:
            await self.discard(wanted.thread_id)
            return None
        del self._kept[wanted.session_id]
        try:
            await kept.let_go()
            await self.discard(wanted.thread_id)
        except BaseException:
            self._drop(kept)
            raise
        if kept.process.is_quiet:
            return kept.process
        await asyncio.wait({self._drop(kept)})
        return None

    async def keep(self, process: AgentProcess, session: WarmSession) -> None:
        kept = _Kept(process, session)
        try:
            await self.discard(session.thread_id)
        except BaseException:
            self._drop(kept)
            raise
        if self._is_closed or not process.is_quiet:
            await asyncio.wait({self._drop(kept)})
            return
        if session.session_id in self._kept:  # while another one was ended, a second one came for the same session
            self._drop(self._kept[session.session_id])
        self._kept[session.session_id] = kept
        kept.watch = asyncio.create_task(self._watch(kept))
        while len(self._kept) > self._limits.max:
            self._drop(next(iter(self._kept.values())))
        self.free_memory()
        if self._measuring is None:
            self._measuring = asyncio.create_task(self._measure())

    async def has_room(self) -> None:
        while len(self._ending) >= self._limits.max:
            await asyncio.wait(set(self._ending), return_when=asyncio.FIRST_COMPLETED)

    async def discard(self, thread_id: str) -> None:
        for kept in list(self._kept.values()):
            if kept.session.thread_id == thread_id:
                self._drop(kept)
        ending = {task for task, thread in self._ending.items() if thread == thread_id}
        if ending:
            await asyncio.wait(ending)

    async def drop(self, process: AgentProcess, session: WarmSession) -> None:
        """Ends a process that was taken, but cannot be used."""
        await asyncio.wait({self._end_later(self._end(process, session), session.thread_id)})

    def give_up(self, transit: AgentInTransit, session: WarmSession) -> None:
        """Ends, in the background, a process that was to be handed over and reached nobody."""
        self._end_later(self._end_unread(transit, session), session.thread_id)

    def free_memory(self) -> None:
        """Ends the least recently used processes until the others hold no more memory than they may."""
        held = {session_id: kept.process.rss_bytes for session_id, kept in self._kept.items()}
        for session_id, size_bytes in list(held.items()):
            if sum(held.values()) <= self._limits.memory_bytes:
                return
            self._drop(self._kept[session_id])
            held[session_id] -= size_bytes

    async def close(self) -> None:
        self._is_closed = True
        if self._measuring is not None:
            self._measuring.cancel()
        for kept in list(self._kept.values()):
            self._drop(kept)
        while self._ending:
            await asyncio.wait(set(self._ending))

    async def _watch(self, kept: _Kept) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.idle_s):
                await self._until_touched(kept)
        kept.watch = None
        self._drop(kept)

    async def _until_touched(self, kept: _Kept) -> None:
        """Waits until the process writes something or exits, or its session has changed."""
        stirs = asyncio.create_task(kept.process.stirs())
        try:
            while kept.session.is_untouched and not stirs.done():
                await asyncio.wait({stirs}, timeout=self._limits.look_s)
        finally:
            stirs.cancel()
            await asyncio.wait({stirs})

    async def _measure(self) -> None:
        while self._kept:
            await asyncio.sleep(self._limits.measure_s)
            self.free_memory()
        self._measuring = None

    def _drop(self, kept: _Kept) -> asyncio.Task[None]:
        """Removes the process from the pool, and ends it in the background."""
        if self._kept.get(kept.session.session_id) is kept:
            del self._kept[kept.session.session_id]
        return self._end_later(self._end_kept(kept), kept.session.thread_id)

    def _end_later(self, ending: Coroutine[None, None, None], thread_id: str) -> asyncio.Task[None]:
        task = asyncio.create_task(ending)
        self._ending[task] = thread_id
        task.add_done_callback(self._ending.pop)
        return task

    async def _end_kept(self, kept: _Kept) -> None:
        await kept.let_go()
        await self._end(kept.process, kept.session)

    async def _end_unread(self, transit: AgentInTransit, session: WarmSession) -> None:
        await self._end(await AgentProcess.from_handed(transit, {}), session)

    async def _end(self, process: AgentProcess, session: WarmSession) -> None:
        if session.is_untouched:
            await process.retire(grace_s=self._limits.grace_s)
        else:
            await process.end(grace_s=0, at_once=True)
        passed("agent_retired")
        self._ended(process.mark)


class _Kept:
    """A process of the pool."""

    def __init__(self, process: AgentProcess, session: WarmSession) -> None:
        self.process = process
        self.session = session
        self.watch: asyncio.Task[None] | None = None

    async def let_go(self) -> None:
        """Stops watching the process."""
        watch, self.watch = self.watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})
