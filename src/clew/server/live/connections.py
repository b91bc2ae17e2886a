"""uvicorn's connections, with time limits, and with problem details for errors of the HTTP protocol too.

uvicorn answers broken HTTP with plain text and lets a client take as long as it likes to send its headers. Here a
request's head must arrive within ten seconds and its body within half a minute, and what is not HTTP is answered with
problem details like every other error.

The number of connections is limited, and clients without the token can open them too. So every connection is accepted,
and when there are too many, one of them is closed: `first_to_evict` says which.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState
from websockets.http11 import Request

from clew.server.live.event_encoding import Parts, pieces
from clew.server.live.send_buffers import CONNECTION
from clew.server.models import problems
from clew.server.security.guards import AUTHENTICATED, BODY_S, NO_STORE, SECURITY_HEADERS

HEAD_S = 10.0
ANSWER_S = 60.0  # a client that reads nothing of its answer for this long is disconnected (slow_clients.py)
PAGE_S = 20.0  # the same for a page's WebSocket: the page reconnects and catches up
PARTS = "clew.parts"  # the key of a WebSocket message that is given as a list of parts
MAX_CONNECTIONS = 512  # half of the files that a process may usually open: agents need some too
MAX_ACCEPTED = 128  # how many connections are accepted at once, before the first of them is handled


class HttpConnection(H11Protocol):
    stall_limit_s = ANSWER_S

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.resumed = 0
        self.paused_at: float | None = None
        self.connected_at = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_for: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.connected_at = self.loop.time()
        connections: set[Any] = self.connections
        others = [each for each in connections if each is not self and not each.transport.is_closing()]
        if len(others) >= MAX_CONNECTIONS:
            (first_to_evict(others) or self).evict()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    @property
    def rank(self) -> int | None:
        """When there are too many connections, the one with the lowest rank is closed. None: it is never closed."""
        is_idle = self.cycle is None or self.cycle.response_complete
        scope: Any = self.scope
        if scope is None or not scope.get(AUTHENTICATED):
            return 0 if is_idle else 1
        return 2 if is_idle else None

    def evict(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._send_problem(503, "There are too many connections.")
        else:
            self.transport.abort()

    def pause_writing(self) -> None:
        self.paused_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.resumed += 1
        self.paused_at = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_deadline()

    def handle_events(self) -> None:
        """Adds the connection to the scope, where the app finds it: the app runs only after this returns."""
        super().handle_events()
        scope: Any = self.scope
        if scope is not None:
            scope.setdefault(CONNECTION, self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_deadline()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._clear_deadline()
        self._waits_for = "nothing"  # the WebSocket has time limits of its own
        super().handle_websocket_upgrade(event)

    def _set_deadline(self) -> None:
        """The time counts from when the server began to wait, not from the last byte: slow sending cannot extend it."""
        waits_for = self._missing_part()
        if waits_for == self._waits_for or self._waits_for == "nothing":
            return
        self._clear_deadline()
        self._waits_for = waits_for
        if waits_for is not None:
            seconds = HEAD_S if waits_for == "head" else BODY_S
            self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _missing_part(self) -> str | None:
        if self.transport is None or self.transport.is_closing():
            return None
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return "body"
        begun = bool(self.conn.trailing_data[0]) or self.cycle is None
        return "head" if state is h11.IDLE and begun else None  # an idle connection has uvicorn's keep-alive time-out

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._waits_for != "nothing":
            self._waits_for = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self._send_problem(408, "The request took too long to arrive.")

    def send_400_response(self, msg: str) -> None:
        """uvicorn calls this while it handles the parser's error, which says whether the headers were too large."""
        if getattr(sys.exception(), "error_status_hint", 400) == 431:
            self._send_problem(431, "The headers are too large.")
        else:
            self._send_problem(400, "This is not HTTP.")

    def _send_problem(self, status: int, detail: str) -> None:
        """Sends problem details, unless a response is already being sent, and closes the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = problems.problem(status, detail, headers={"Connection": "close"})
            headers = [*response.raw_headers, *SECURITY_HEADERS, NO_STORE]
            phrase = HTTPStatus(status).phrase.encode()
            for event in (
                h11.Response(status_code=status, headers=headers, reason=phrase),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class WebSocketConnection(WebSocketsSansIOProtocol):
    """A page's WebSocket. A large message is sent in fragments, each when the send buffer has room: uvicorn would copy
    the whole message into the buffer of every page's connection."""

    stall_limit_s = PAGE_S

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.resumed = 0
        self.paused_at: float | None = None
        self.connected_at = self.loop.time()
        self._sending = asyncio.Lock()

    @property
    def rank(self) -> int | None:
        """None for an authenticated page; before that, the rank of a busy HTTP connection without the token."""
        scope: Any = getattr(self, "scope", {})
        return None if scope.get(AUTHENTICATED) else 1

    def evict(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        self.paused_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.resumed += 1
        self.paused_at = None
        super().resume_writing()

    def handle_ping(self) -> None:
        """A client that does not read gets no pong: the pongs would fill the memory."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self.response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            scope: Any = self.scope
            scope["extensions"][PARTS] = {}
            scope[CONNECTION] = self

    async def send(self, message: Any) -> None:
        async with self._sending:
            if PARTS in message:
                await self._send_parts(message[PARTS])
                return
            await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # the request was refused properly; else uvicorn would log an error

    async def _send_parts(self, parts: Parts) -> None:
        last = b""
        begun = False
        try:
            for piece in pieces(parts):
                if last:
                    await self._send_fragment(last, begun=begun, fin=False)
                    begun = True
                last = piece
            await self._send_fragment(last, begun=begun, fin=True)
        except InvalidState:
            raise ClientDisconnected from None

    async def _send_fragment(self, data: bytes, *, begun: bool, fin: bool) -> None:
        await self.writable.wait()
        if self.disconnected or self.close_sent:
            raise ClientDisconnected
        send = self.conn.send_continuation if begun else self.conn.send_text
        send(data, fin=fin)
        self.transport.write(b"".join(self.conn.data_to_send()))


class Evictable(Protocol):
    """What `first_to_evict` needs to know about a connection."""

    connected_at: float

    @property
    def rank(self) -> int | None: ...


E = TypeVar("E", bound=Evictable)


def first_to_evict(connections: Iterable[E]) -> E | None:
    """Prefers idle connections without the token, then any without the token, then idle ones with it. Of equals, the
    oldest is closed."""
    ranked = [(each.rank, each.connected_at, each) for each in connections]
    evictable = [(rank, at, each) for rank, at, each in ranked if rank is not None]
    return min(evictable, key=lambda candidate: candidate[:2])[2] if evictable else None
