"""The pool of the daemon, as a process of Clew sees it that keeps no agent itself.

Without a daemon of this user and this version that answers at once, no agent is kept, and every turn starts its own.
An agent that could not be given to the daemon is ended: none is left that nobody keeps.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clew.core.record import Record
from clew.core.runs.run import Owner
from clew.engine.faults import passed
from clew.engine.process.agent import AgentProcess
from clew.engine.process.handing import AgentInTransit, HandedAgent
from clew.engine.warm.channel import BadMessage, Channel, Message, record_of
from clew.engine.warm.pool import KeptAgent, WarmAgents
from clew.engine.warm.session import WarmSession
from clew.system.peers import peer_uid

_FAILURES = (OSError, TimeoutError, BadMessage)


class RemoteLimits(Record):
    connect_s: float = 0.05  # for the connection and the first answer, and again before every turn
    answer_s: float = 10.0  # the pool may have to end another agent before it answers
    keep_s: float = 1.0  # how long a daemon may take to answer before it is given an agent
    retry_s: float = 30.0  # how long a daemon that hangs is left alone
    grace_s: float = 2.0  # how long an agent that is not kept may take to exit before it is killed


class RemotePool(WarmAgents):
    """Agents that the daemon keeps. Ask for `key` first: from then on `owner` is the daemon, if it is there."""

    def __init__(
        self,
        path: Path,
        version: str,
        owner: Owner,
        environ: Mapping[str, str],
        *,
        limits: RemoteLimits | None = None,
    ) -> None:
        """`owner`: this process. `environ`: its environment. Its secrets are removed from what a taken agent writes."""
        self._path = path
        self._version = version
        self._this = owner
        self._environ = environ
        self._limits = limits or RemoteLimits()
        self._ended: Callable[[str], object] = lambda mark: None
        self._lock = asyncio.Lock()  # one question at a time
        self._channel: Channel | None = None
        self._owner = owner
        self._key: bytes | None = None
        self._key_given: bytes | None = None
        self._not_before = 0.0  # on the event loop's clock

    @property
    def owner(self) -> Owner:
        return self._owner

    def when_ended(self, ended: Callable[[str], object]) -> None:
        """Those that are ended here, because the daemon did not keep them. The daemon looks after the others."""
        self._ended = ended

    async def key(self) -> bytes | None:
        async with self._lock:
            if self._channel is not None:
                await self._greet(self._channel)  # it may have ended since the last turn
            await self._connected()
            self._key_given = self._key
            return self._key

    async def holds(self, thread_id: str) -> bool:
        async with self._lock:
            answer = await self._answer_to({"op": "holds", "thread_id": thread_id})
            return answer.get("holds") is True

    async def discard(self, thread_id: str) -> None:
        async with self._lock:
            await self._answer_to({"op": "discard", "thread_id": thread_id})

    async def kept(self) -> list[KeptAgent]:
        """The agents that the daemon keeps now."""
        async with self._lock:
            answer = await self._answer_to({"op": "kept"})
            found = answer.get("kept")
            try:
                return [record_of(KeptAgent, each) for each in found] if isinstance(found, list) else []
            except BadMessage:
                return []

    async def take(self, wanted: WarmSession) -> AgentProcess | None:
        async with self._lock:
            channel = await self._connected()
            if channel is None:
                return None
            try:
                return await self._take(channel, wanted)
            except _FAILURES:
                self._disconnect()
                return None
            except BaseException:
                self._disconnect()
                raise

    async def keep(self, process: AgentProcess, session: WarmSession) -> None:
        try:
            async with self._lock:
                await self._keep_or_end(process, session)
        except BaseException:
            if not process.is_handed_over:
                await process.end(grace_s=0)
                self._ended(process.mark)
            raise

    async def _keep_or_end(self, process: AgentProcess, session: WarmSession) -> None:
        if self._channel is not None:  # in the queue of a daemon that hangs, the agent's pipes would stay open
            await self._greet(self._channel, self._limits.keep_s)
        # The session was digested with the key that was given: another daemon could never match it.
        channel = self._channel if self._key_given is not None and self._key == self._key_given else None
        transit = None if channel is None else process.hand_over()
        if channel is None or transit is None:
            await self._end(process, session)
            return
        is_kept = False
        try:
            passed("agent_released")
            is_kept = await self._keep(channel, transit, session)
        finally:
            if is_kept:
                transit.close()
                passed("agent_given")
            else:
                self._disconnect()
                await self._end(await AgentProcess.from_handed(transit, {}), session)

    async def close(self) -> None:
        """The agents stay with the daemon."""
        self._disconnect()

    async def _take(self, channel: Channel, wanted: WarmSession) -> AgentProcess | None:
        message = await self._ask(channel, {"op": "take", "session": wanted.as_dict()}, point="take_asked")
        try:
            if message.content.get("agent") is None:
                return None
            transit = AgentInTransit(message.record(HandedAgent, "agent"), message.take_descriptors())
        finally:
            message.close()
        if not transit.agent.is_running:
            transit.close()
            raise BadMessage("there is no such agent")  # without a confirmation the daemon ends what is left of it
        process = await AgentProcess.from_handed(transit, self._environ)
        passed("agent_received")
        try:
            await channel.send({"op": "taken"})
        except BaseException:
            await process.end(grace_s=0)
            raise
        passed("agent_taken")
        return process

    async def _keep(self, channel: Channel, transit: AgentInTransit, session: WarmSession) -> bool:
        content = {"op": "keep", "session": session.as_dict(), "agent": transit.agent.as_dict()}
        try:
            message = await self._ask(channel, content, transit.descriptors, point="keep_asked")
        except _FAILURES:
            return False
        message.close()
        return message.content.get("kept") is True

    async def _end(self, process: AgentProcess, session: WarmSession) -> None:
        try:
            if session.is_untouched:
                await process.retire(grace_s=self._limits.grace_s)
            else:
                await process.end(grace_s=0, at_once=True)
        except BaseException:
            await process.end(grace_s=0)
            raise
        self._ended(process.mark)

    async def _answer_to(self, content: Mapping[str, object]) -> Mapping[str, object]:
        """The answer; nothing if there is none."""
        channel = await self._connected()
        if channel is None:
            return {}
        try:
            message = await self._ask(channel, content)
        except _FAILURES:
            self._disconnect()
            return {}
        except BaseException:
            self._disconnect()  # the answer would be taken for that to the next question
            raise
        message.close()
        return message.content

    async def _ask(
        self, channel: Channel, content: Mapping[str, object], descriptors: Sequence[int] = (), *, point: str = ""
    ) -> Message:
        async with asyncio.timeout(self._limits.answer_s):
            await channel.send(content, descriptors)
            passed(point)
            message = await channel.receive()
        if message is None:
            raise ConnectionResetError("the daemon has closed the connection")
        return message

    async def _connected(self) -> Channel | None:
        if self._channel is not None or asyncio.get_running_loop().time() < self._not_before:
            return self._channel
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            connection.connect(str(self._path))  # never waits: it succeeds or fails at once
        except OSError:
            connection.close()
            return None
        if peer_uid(connection) != os.geteuid():
            connection.close()
            return None
        self._channel = Channel(connection)
        await self._greet(self._channel)
        return self._channel

    async def _greet(self, channel: Channel, within_s: float | None = None) -> None:
        """Asks who is there. Closes the connection if it is not a daemon of this version that answers in time."""
        try:
            async with asyncio.timeout(self._limits.connect_s if within_s is None else within_s):
                message = await self._ask(channel, {"op": "hello"})
            message.close()
            if message.text("version") != self._version:
                raise TimeoutError("another version")  # it will not change soon either
            self._owner = message.record(Owner, "owner")
            key = message.content.get("key")
            self._key = None if key is None else bytes.fromhex(message.text("key"))
        except TimeoutError:
            self._disconnect()
            self._not_before = asyncio.get_running_loop().time() + self._limits.retry_s
        except (OSError, ValueError):
            self._disconnect()
        except BaseException:
            self._disconnect()
            raise

    def _disconnect(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
        self._key, self._owner = None, self._this
