"""Readers that do not read: little is held for each of them, and they are let go."""

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
from clew.server.access import Shared
from clew.server.app import App
from clew.server.daemon import configured
from clew.server.doors import Doors
from clew.server.encoded import PIECE_BYTES, Encoder, pieces
from clew.server.patience import Patience
from clew.server.token import Secret
from clew.server.unsent import CONNECTION, LARGE_BYTES, MOST_UNSENT_BYTES, Unsent
from clew.server.wire import ANSWER_S, PAGE_S, Connection, first_to_go
from clew.store.records import StoredEvent
from clew.testing.stage import Stage
from server.house import PORT, TOKEN

ANSWER_BYTES = 12_000_000  # more than the operating system takes in for a reader that does not read
READERS = 4


class Room:
    """The server's own connections on a socket, without its signals."""

    def __init__(self, stage: Stage, shared: Shared, port: int, state: ServerState) -> None:
        self.stage = stage
        self.shared = shared
        self.port = port
        self.state = state
        self.patience = Patience(state.connections)  # type: ignore[arg-type]
        self.open: list[socket.socket] = []

    async def slow(self, *lines: str) -> None:
        """One that asks, and then takes nothing."""
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.setblocking(False)
        self.open.append(made)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(made, ("127.0.0.1", self.port))
        head = [lines[0], "Host: localhost", f"Authorization: Bearer {TOKEN}", *lines[1:], "", ""]
        await loop.sock_sendall(made, "\r\n".join(head).encode())

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
        """So many do not take what is there for them. Only their buffers tell."""
        async with asyncio.timeout(60):
            while sum(held > 0 for held in self.held()) < stuck:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def room_of(stage: Stage) -> AsyncIterator[Room]:
    async with stage.open() as client:
        app = App(client, Doors(Secret(TOKEN), PORT), stage.folder)
        config, state = configured(app.asgi), ServerState()
        config.load()
        loop = asyncio.get_running_loop()
        async with (
            app.running(),
            await loop.create_server(lambda: Connection(config, state, {}), "127.0.0.1", 0) as server,
        ):
            room = Room(stage, app.shared, server.sockets[0].getsockname()[1], state)
            try:
                yield room
            finally:
                for each in list(state.connections):
                    each.transport.abort()
                await asyncio.gather(*state.tasks, return_exceptions=True)
                for made in room.open:
                    made.close()


async def asked(room: Room, prompt: str) -> tuple[str, Any]:
    thread = await room.shared.client.thread("t", cwd=room.stage.work)
    return thread.record.id, await thread.ask(prompt)


@pytest.mark.rest
@pytest.mark.parametrize(("kind", "patience_s"), [("page", PAGE_S), ("events", ANSWER_S)])
async def test_who_does_not_read_is_let_go_and_its_place_is_free(scripted: Stage, kind: str, patience_s: float) -> None:
    async with room_of(scripted) as room:
        thread, big = await asked(room, f"!big {ANSWER_BYTES}")
        for _ in range(READERS):
            await (room.page(thread) if kind == "page" else room.slow(f"GET /api/runs/{big.id}/events HTTP/1.1"))
        await room.until(stuck=READERS)
        await big
        assert room.shared.listeners >= READERS
        assert max(room.held()) < 4 * PIECE_BYTES, "an answer of any size is handed on in pieces"
        now = asyncio.get_running_loop().time()
        room.patience.look(now)
        room.patience.look(now + patience_s - 1)
        assert len(room.state.connections) >= READERS, "not yet"
        room.patience.look(now + patience_s)
        await asyncio.gather(*room.state.tasks, return_exceptions=True)
        assert (room.shared.listeners, room.held()) == (0, [])


@pytest.mark.rest
async def test_a_page_that_reads_again_gets_the_large_answer_whole(scripted: Stage) -> None:
    async with room_of(scripted) as room:
        thread, run = await asked(room, f"!big {ANSWER_BYTES}")
        await room.slow(f"GET /api/runs/{run.id}/events HTTP/1.1")
        await room.page(thread)
        await room.until(stuck=2)
        loop = asyncio.get_running_loop()
        room.patience.look(loop.time())
        for reader in room.open:
            got = 0
            while got < ANSWER_BYTES:
                data = await loop.sock_recv(reader, 1_000_000)
                assert data, "it was let go"
                got += data.count(b"x")
        room.patience.look(loop.time() + PAGE_S + 1)
        assert len(room.state.connections) == 2, "they took something, so they stay"


@pytest.mark.rest
async def test_all_that_is_held_for_readers_is_bounded(scripted: Stage) -> None:
    """Each asks for the whole conversation and takes nothing: who was stuck first is disconnected."""
    async with room_of(scripted) as room:
        _, big = await asked(room, f"!big {ANSWER_BYTES}")
        await big
        for _ in range(2 * READERS):
            await room.slow("GET /api/threads/t/view HTTP/1.1")
            await room.until(stuck=1)
            assert room.shared.unsent.held_bytes <= MOST_UNSENT_BYTES
        fitting = MOST_UNSENT_BYTES // ANSWER_BYTES
        async with asyncio.timeout(60):
            while len(room.state.tasks) > fitting:
                await asyncio.sleep(0.02)
        assert 0 < len(room.held()) <= fitting
        assert max(room.held()) < 4 * PIECE_BYTES
        for each in list(room.state.connections):
            each.transport.abort()
        await asyncio.gather(*room.state.tasks, return_exceptions=True)
        assert room.shared.unsent.held_bytes == 0


class Fixed:
    """A transport with so much to send."""

    def __init__(self) -> None:
        self.size = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        self.aborted = True


class Held(Record):
    transport: Any
    patience_s: float = 20.0
    resumed: int = 0

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("sizes", "dropped"),
    [
        ([5, 5, 5], True),
        ([5, 6, 7], True),
        ([5, 4, 4], False),
        ([5, 0, 5], False),
        ([0, 0, 0], False),
    ],
)
def test_taking_anything_counts(sizes: list[int], dropped: bool) -> None:
    reader = Held(Fixed())
    patience = Patience({reader})
    for n, size in enumerate(sizes):
        reader.transport.size = size
        patience.look(10.0 * n)
    assert reader.transport.aborted is dropped


def test_at_the_end_only_those_are_dropped_that_were_stuck_before() -> None:
    stuck, fresh = Held(Fixed()), Held(Fixed())
    both: set[Any] = {stuck}
    patience = Patience(both)
    stuck.transport.size = fresh.transport.size = 5
    patience.look(0.0)
    both.add(fresh)
    patience.look(3.0)
    patience.end(3.0, stuck_s=2.0)
    assert (stuck.transport.aborted, fresh.transport.aborted) == (True, False)


class Client(Record):
    """A connection that is stuck since then; None: it is not."""

    transport: Any
    paused_at: float | None


def test_who_was_stuck_the_longest_goes_first() -> None:
    unsent = Unsent(most_bytes=3 * LARGE_BYTES)
    since = {"old": 1.0, "older": 0.5, "reading": None, "new": 2.0}
    clients = {name: Client(Fixed(), at) for name, at in since.items()}
    with contextlib.ExitStack() as stack:
        for client in clients.values():
            stack.enter_context(unsent.reader({CONNECTION: client})).hold(bytes(LARGE_BYTES))
        assert [name for name, client in clients.items() if client.transport.aborted] == ["older"]
        assert unsent.held_bytes == 3 * LARGE_BYTES
    assert unsent.held_bytes == 0


def test_what_many_wait_for_counts_once_and_small_pieces_do_not() -> None:
    unsent, answer = Unsent(), bytes(LARGE_BYTES)
    with unsent.reader({}) as one, unsent.reader({}) as two:
        for reader in (one, two):
            reader.hold(answer)
            reader.hold(memoryview(answer))
            reader.hold(b"small")
        assert unsent.held_bytes == LARGE_BYTES
        one.let_go(answer)
        assert unsent.held_bytes == LARGE_BYTES
        two.let_go(answer)
        assert unsent.held_bytes == 0


class Seat(Record):
    rank: int | None
    since: float


@pytest.mark.parametrize(
    ("seats", "going"),
    [
        ([Seat(2, 0.0), Seat(1, 1.0), Seat(0, 3.0), Seat(0, 2.0), Seat(None, 0.0)], Seat(0, 2.0)),
        ([Seat(2, 0.0), Seat(1, 1.0), Seat(None, 0.0)], Seat(1, 1.0)),
        ([Seat(None, 0.0), Seat(2, 1.0)], Seat(2, 1.0)),
        ([Seat(None, 0.0)], None),
    ],
)
def test_strangers_give_way_before_the_owner(seats: list[Seat], going: Seat | None) -> None:
    assert first_to_go(seats) == going


def test_a_large_event_is_held_once_for_all() -> None:
    encoder = Encoder()
    large = StoredEvent(1, 0.0, "message_said", None, {"text": "ä" * 100_000})  # type: ignore[arg-type]
    one, two = encoder.of("run", large), encoder.of("run", large)
    assert one is two
    assert encoder.of("other", large) is not one


@pytest.mark.parametrize("sizes", [[], [1], [PIECE_BYTES], [1, PIECE_BYTES, 1], [3 * PIECE_BYTES + 1, 2, 2]])
def test_pieces_are_bounded_and_make_up_the_whole(sizes: list[int]) -> None:
    parts = [bytes([n]) * size for n, size in enumerate(sizes)]
    made = list(pieces(parts))
    assert b"".join(made) == b"".join(parts)
    assert all(0 < len(piece) <= PIECE_BYTES for piece in made)
