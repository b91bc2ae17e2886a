"""The daemon's side of the pool: other processes of Clew take agents out of it for a turn, and give them back.

A client asks, the server answers, one question after the other:

    hello                      the version of Clew; the pool's key and owner
    holds THREAD               whether an agent of the thread is kept
    take SESSION               the agent and the descriptors of its pipes; the client confirms that it has them
    keep SESSION, AGENT        with the descriptors; the answer says that it is kept, so the client closes its own
    discard THREAD
    kept                       the agents, for `clew status`

Between an answer and its confirmation both sides hold the descriptors. So whichever of the two dies, the other can end
the agent, and an agent that nobody can end exits by itself, because its input ends. What is no message closes its
connection, and nothing else happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from clew.engine.process.agent import AgentProcess
from clew.engine.process.handing import AgentInTransit, HandedAgent
from clew.engine.warm.channel import BadMessage, Channel, Message
from clew.engine.warm.pool import WarmPool
from clew.engine.warm.session import WarmSession
from clew.resident.confinement import difference
from clew.system.forks import closed_in_forks
from clew.system.peers import peer_pid, peer_uid

MAX_CLIENTS = 64
CONFIRM_S = 10.0  # how long a client may take to confirm that it has an agent


class PoolServer:
    """Serves the pool on a Unix socket. Close it before the pool."""

    def __init__(self, pool: WarmPool, path: Path, version: str) -> None:
        """`path`: in a folder of which the caller has made sure that only this user can write to it. `version`: of
        Clew; another version may mean something else by an equal session."""
        self._pool = pool
        self._path = path
        self._version = version
        self._listening: socket.socket | None = None
        self._made: tuple[int, int] | None = None  # the file of the socket
        self._accepting: asyncio.Task[None] | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._answers: dict[str, Callable[[Channel, Message], Awaitable[None]]] = {
            "hello": self._hello,
            "holds": self._holds,
            "take": self._take,
            "keep": self._keep,
            "discard": self._discard,
            "kept": self._kept,
        }

    async def start(self) -> None:
        """Raises OSError if there can be no socket, for example because another process serves it."""
        self._listening = closed_in_forks(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        try:
            self._made = _listen(self._listening, self._path)
        except BaseException:
            self._listening.close()
            raise
        self._accepting = asyncio.create_task(self._accept(self._listening))

    @property
    def is_found(self) -> bool:
        """Whether its socket has its name still (reads the disk)."""
        try:
            return self._made is not None and _file(self._path) == self._made
        except OSError:
            return False

    async def close(self) -> None:
        """An agent that is on its way is ended by the pool. It can be started again."""
        if self._accepting is None or self._listening is None:
            return
        tasks = {self._accepting, *self._clients}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        self._listening.close()
        if self.is_found:
            with contextlib.suppress(OSError):
                self._path.unlink()
        self._accepting = self._listening = self._made = None

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError:  # this process has too many open files
                await asyncio.sleep(0.1)
                continue
            if not _may_ask(connection) or len(self._clients) >= MAX_CLIENTS:
                connection.close()
                continue
            task = asyncio.create_task(self._serve(Channel(connection)))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve(self, channel: Channel) -> None:
        try:
            while (message := await channel.receive()) is not None:
                try:
                    await self._answer(channel, message)
                finally:
                    message.close()
        except (OSError, BadMessage):
            pass  # the client is gone, or it is none
        finally:
            channel.close()

    async def _answer(self, channel: Channel, message: Message) -> None:
        answer = self._answers.get(message.text("op"))
        if answer is None:
            raise BadMessage("there is no such operation")
        await answer(channel, message)

    async def _hello(self, channel: Channel, message: Message) -> None:
        key = await self._pool.key()
        owner = self._pool.owner.as_dict()
        await channel.send({"version": self._version, "owner": owner, "key": None if key is None else key.hex()})

    async def _holds(self, channel: Channel, message: Message) -> None:
        await channel.send({"holds": await self._pool.holds(message.text("thread_id"))})

    async def _discard(self, channel: Channel, message: Message) -> None:
        await self._pool.discard(message.text("thread_id"))
        await channel.send({"discarded": True})

    async def _kept(self, channel: Channel, message: Message) -> None:
        await channel.send({"kept": [agent.as_dict() for agent in await self._pool.kept()]})

    async def _take(self, channel: Channel, message: Message) -> None:
        wanted = message.record(WarmSession, "session")
        process = await self._pool.take(wanted)
        transit = None if process is None else process.hand_over()
        if transit is None:
            if process is not None:  # it has written something just now, or it has no parent of its own
                await self._pool.drop(process, wanted)
            await channel.send({"agent": None})
            return
        is_taken = False
        try:
            await channel.send({"agent": transit.agent.as_dict()}, transit.descriptors)
            is_taken = await _confirmed(channel)
        finally:
            if is_taken:
                transit.close()
            else:
                self._pool.give_up(transit, wanted)

    async def _keep(self, channel: Channel, message: Message) -> None:
        """If anything is wrong with the agent, it is not touched: the client still has it, and ends it."""
        session = message.record(WarmSession, "session")
        transit = AgentInTransit(message.record(HandedAgent, "agent"), message.take_descriptors())
        if not transit.agent.is_running:
            transit.close()
            raise BadMessage("there is no such agent")
        await self._pool.keep(await AgentProcess.from_handed(transit, {}), session)
        await channel.send({"kept": True})


def _may_ask(connection: socket.socket) -> bool:
    """Whether it is this user, and confined as this process is: an agent that runs outside of a sandbox must not work
    for somebody in it."""
    if peer_uid(connection) != os.geteuid():
        return False
    pid = peer_pid(connection)
    try:
        return pid is None or difference(pid) is None
    except OSError:
        return False


async def _confirmed(channel: Channel) -> bool:
    try:
        async with asyncio.timeout(CONFIRM_S):
            message = await channel.receive()
    except TimeoutError:
        return False
    if message is None:
        return False
    message.close()
    return message.text("op") == "taken"


def _listen(listening: socket.socket, path: Path) -> tuple[int, int]:
    """The socket gets its name when nobody else can connect to it any more. One that a dead daemon left is replaced."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        listening.bind(str(draft))
        draft.chmod(0o600)
        listening.listen(MAX_CLIENTS)
        listening.setblocking(False)
        if _is_served(path):
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), str(path))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return _file(path)


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trying:
        trying.setblocking(False)
        try:
            trying.connect(str(path))
        except BlockingIOError:  # so many clients wait that no other can
            return True
        except OSError:
            return False
        return True


def _file(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino
