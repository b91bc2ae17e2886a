"""Clients that do not read: little is held for each of them, and they are disconnected."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from uvicorn.server import ServerState

from clew.core.record import Record
from clew.server.access import SharedState
from clew.server.app import App
from clew.server.daemon import uvicorn_config
from clew.server.live.connections import ANSWER_S, PAGE_S, HttpConnection, first_to_evict
from clew.server.live.event_encoding import PIECE_BYTES, EventEncoder, pieces
from clew.server.live.send_buffers import CONNECTION, LARGE_BYTES, MAX_UNSENT_BYTES, SendBuffers
from clew.server.live.slow_clients import SlowClients
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.token import Credentials
from clew.store.records import StoredEvent
from clew.testing.stage import Stage
from server.daemons import PORT, TOKEN

ANSWER_BYTES = 12_000_000  # more than the operating system buffers for a client that does not read
CLIENTS = 4


class SocketDaemon:
    """The server's own connections on a socket, without its signals."""

    def __init__(self, stage: Stage, shared: SharedState, port: int, state: ServerState) -> None:
        self.stage = stage
        self.shared = shared
        self.port = port
        self.state = state
        self.slow_clients = SlowClients(state.connections)  # type: ignore[arg-type]
        self.open: list[socket.socket] = []

    async def slow(self, *lines: str) -> None:
        """A client that sends a request, and then reads nothing."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        self.open.append(client)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", self.port))
        head = [lines[0], "Host: localhost", f"Authorization: Bearer {TOKEN}", *lines[1:], "", ""]
        await loop.sock_sendall(client, "\r\n".join(head).encode())

    async def page(self, thread: str) -> None:
        key = base64.b64encode(b"0" * 16).decode()
        upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
        said = json.dumps({"type": "watch", "thread": thread, "after": {}}).encode()
        frame = bytes([0x81, 0x80 | len(said)]) + b"\0\0\0\0" + said
        await self.slow("GET /api/live HTTP/1.1", *upgrade, f"Sec-WebSocket-Key: {key}")
        made = self.open[-1]
        while b"\r\n\r\n" not in await asyncio.get_running_loop().sock_recv(made, 2_000):
            pass
        await asyncio.get_running_loop().sock_sendall(made, frame)

    def held(self) -> list[int]:
        return [each.transport.get_write_buffer_size() for each in self.state.connections]

    async def until(self, *, stuck: int) -> None:
        """Waits until that many clients do not read, which only the size of their buffers shows."""
        async with asyncio.timeout(60):
            while sum(held > 0 for held in self.held()) < stuck:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def socket_daemon(stage: Stage) -> AsyncIterator[SocketDaemon]:
    async with stage.open() as client:
        app = App(client, AccessPolicy(Credentials(TOKEN), PORT), stage.folder)
        config, state = uvicorn_config(app.asgi), ServerState()
        config.load()
        loop = asyncio.get_running_loop()
        async with (
            app.running(),
            await loop.create_server(lambda: HttpConnection(config, state, {}), "127.0.0.1", 0) as server,
        ):
            daemon = SocketDaemon(stage, app.shared, server.sockets[0].getsockname()[1], state)
            try:
                yield daemon
            finally:
                for each in list(state.connections):
                    each.transport.abort()
                await asyncio.gather(*state.tasks, return_exceptions=True)
                for made in daemon.open:
                    made.close()


async def asked(daemon: SocketDaemon, prompt: str) -> tuple[str, Any]:
    thread = await daemon.shared.client.thread("t", cwd=daemon.stage.work)
    return thread.record.id, await thread.ask(prompt)


@pytest.mark.rest
@pytest.mark.parametrize(("kind", "limit_s"), [("page", PAGE_S), ("events", ANSWER_S)])
async def test_a_client_that_does_not_read_is_disconnected_and_its_place_is_free(
    scripted: Stage, kind: str, limit_s: float
) -> None:
    async with socket_daemon(scripted) as daemon:
        thread, big = await asked(daemon, f"!big {ANSWER_BYTES}")
        for _ in range(CLIENTS):
            await (daemon.page(thread) if kind == "page" else daemon.slow(f"GET /api/runs/{big.id}/events HTTP/1.1"))
        await daemon.until(stuck=CLIENTS)
        await big
        assert daemon.shared.listeners >= CLIENTS
        assert max(daemon.held()) < 4 * PIECE_BYTES, "an answer of any size is sent in pieces"
        now = asyncio.get_running_loop().time()
        daemon.slow_clients.check(now)
        daemon.slow_clients.check(now + limit_s - 1)
        assert len(daemon.state.connections) >= CLIENTS, "not yet"
        daemon.slow_clients.check(now + limit_s)
        await asyncio.gather(*daemon.state.tasks, return_exceptions=True)
        assert (daemon.shared.listeners, daemon.held()) == (0, [])


@pytest.mark.rest
async def test_a_page_that_reads_again_gets_the_whole_large_answer(scripted: Stage) -> None:
    async with socket_daemon(scripted) as daemon:
        thread, run = await asked(daemon, f"!big {ANSWER_BYTES}")
        await daemon.slow(f"GET /api/runs/{run.id}/events HTTP/1.1")
        await daemon.page(thread)
        await daemon.until(stuck=2)
        loop = asyncio.get_running_loop()
        daemon.slow_clients.check(loop.time())
        for client in daemon.open:
            got = 0
            while got < ANSWER_BYTES:
                data = await loop.sock_recv(client, 1_000_000)
                assert data, "it was disconnected"
                got += data.count(b"x")
        daemon.slow_clients.check(loop.time() + PAGE_S + 1)
        assert len(daemon.state.connections) == 2, "they read something, so they stay"


@pytest.mark.rest
async def test_what_is_held_for_all_clients_is_bounded(scripted: Stage) -> None:
    """Each asks for the whole conversation and reads nothing: the one that was stuck first is disconnected."""
    async with socket_daemon(scripted) as daemon:
        _, big = await asked(daemon, f"!big {ANSWER_BYTES}")
        await big
        for _ in range(2 * CLIENTS):
            await daemon.slow("GET /api/threads/t/view HTTP/1.1")
            await daemon.until(stuck=1)
            assert daemon.shared.send_buffers.held_bytes <= MAX_UNSENT_BYTES
        fitting = MAX_UNSENT_BYTES // ANSWER_BYTES
        async with asyncio.timeout(60):
            while len(daemon.state.tasks) > fitting:
                await asyncio.sleep(0.02)
        assert 0 < len(daemon.held()) <= fitting
        assert max(daemon.held()) < 4 * PIECE_BYTES
        for each in list(daemon.state.connections):
            each.transport.abort()
        await asyncio.gather(*daemon.state.tasks, return_exceptions=True)
        assert daemon.shared.send_buffers.held_bytes == 0


class FakeTransport:
    """A transport with `size` bytes to send."""

    def __init__(self) -> None:
        self.size = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.aborted = True


class FakeConnection(Record):
    transport: Any
    stall_limit_s: float = 20.0
    resumed: int = 0

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("sizes", "disconnected"),
    [
        ([5, 5, 5], True),
        ([5, 6, 7], True),
        ([5, 4, 4], False),
        ([5, 0, 5], False),
        ([0, 0, 0], False),
    ],
)
def test_reading_anything_counts(sizes: list[int], disconnected: bool) -> None:
    connection = FakeConnection(FakeTransport())
    slow_clients = SlowClients({connection})
    for n, size in enumerate(sizes):
        connection.transport.size = size
        slow_clients.check(10.0 * n)
    assert connection.transport.aborted is disconnected


def test_at_the_end_only_stuck_clients_are_disconnected() -> None:
    stuck, fresh = FakeConnection(FakeTransport()), FakeConnection(FakeTransport())
    both: set[Any] = {stuck}
    slow_clients = SlowClients(both)
    stuck.transport.size = fresh.transport.size = 5
    slow_clients.check(0.0)
    both.add(fresh)
    slow_clients.check(3.0)
    slow_clients.end(3.0, stuck_s=2.0)
    assert (stuck.transport.aborted, fresh.transport.aborted) == (True, False)


class Client(Record):
    """A connection that has been stuck since `paused_at`; None: it is not."""

    transport: Any
    paused_at: float | None


def test_the_client_that_was_stuck_the_longest_is_disconnected_first() -> None:
    send_buffers = SendBuffers(max_bytes=3 * LARGE_BYTES)
    since = {"old": 1.0, "older": 0.5, "reading": None, "new": 2.0}
    clients = {name: Client(FakeTransport(), at) for name, at in since.items()}
    with contextlib.ExitStack() as stack:
        for client in clients.values():
            stack.enter_context(send_buffers.buffer_for({CONNECTION: client})).hold(bytes(LARGE_BYTES))
        assert [name for name, client in clients.items() if client.transport.aborted] == ["older"]
        assert send_buffers.held_bytes == 3 * LARGE_BYTES
    assert send_buffers.held_bytes == 0


def test_a_piece_that_many_clients_wait_for_counts_once_and_small_ones_do_not_count() -> None:
    send_buffers, answer = SendBuffers(), bytes(LARGE_BYTES)
    with send_buffers.buffer_for({}) as one, send_buffers.buffer_for({}) as two:
        for buffer in (one, two):
            buffer.hold(answer)
            buffer.hold(memoryview(answer))
            buffer.hold(b"small")
        assert send_buffers.held_bytes == LARGE_BYTES
        one.release(answer)
        assert send_buffers.held_bytes == LARGE_BYTES
        two.release(answer)
        assert send_buffers.held_bytes == 0


class RankedConnection(Record):
    rank: int | None
    connected_at: float


@pytest.mark.parametrize(
    ("connections", "evicted"),
    [
        (
            [
                RankedConnection(2, 0.0),
                RankedConnection(1, 1.0),
                RankedConnection(0, 3.0),
                RankedConnection(0, 2.0),
                RankedConnection(None, 0.0),
            ],
            RankedConnection(0, 2.0),
        ),
        ([RankedConnection(2, 0.0), RankedConnection(1, 1.0), RankedConnection(None, 0.0)], RankedConnection(1, 1.0)),
        ([RankedConnection(None, 0.0), RankedConnection(2, 1.0)], RankedConnection(2, 1.0)),
        ([RankedConnection(None, 0.0)], None),
    ],
)
def test_clients_without_the_token_are_evicted_before_the_owner(
    connections: list[RankedConnection], evicted: RankedConnection | None
) -> None:
    assert first_to_evict(connections) == evicted


def test_a_large_event_is_held_once_for_all() -> None:
    encoder = EventEncoder()
    large = StoredEvent(1, 0.0, "message_said", None, {"text": "ä" * 100_000})  # type: ignore[arg-type]
    one, two = encoder.of("run", large), encoder.of("run", large)
    assert one is two
    assert encoder.of("other", large) is not one


@pytest.mark.parametrize("sizes", [[], [1], [PIECE_BYTES], [1, PIECE_BYTES, 1], [3 * PIECE_BYTES + 1, 2, 2]])
def test_pieces_are_bounded_and_complete(sizes: list[int]) -> None:
    parts = [bytes([n]) * size for n, size in enumerate(sizes)]
    made = list(pieces(parts))
    assert b"".join(made) == b"".join(parts)
    assert all(0 < len(piece) <= PIECE_BYTES for piece in made)
