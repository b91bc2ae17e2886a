"""Connections that do not wait for ever, and whose own refusals are problems too.

The server library answers broken HTTP with plain text and lets a client take as long as it likes over its headers. Here
a request's head has ten seconds and its body half a minute, and what is not HTTP gets the same form as everything else.

There is a limit to connections, and strangers can open them. So whoever connects is let in, and when there are too many
the one goes that has the least right to stay: `first_to_go` says which.
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

from clew.server import problems
from clew.server.encoded import Parts, pieces
from clew.server.guards import BODY_S, KNOWN, NO_STORE, SECURITY_HEADERS
from clew.server.unsent import CONNECTION

HEAD_S = 10.0
ANSWER_S = 60.0  # who takes nothing of an answer for so long is let go (patience.py)
PAGE_S = 20.0  # the same for a page's WebSocket: it comes back and catches up
PARTS = "clew.parts"  # a message as parts, which goes out piece by piece
MOST_CONNECTIONS = 512  # half of the files that a process may usually have open; agents need some too
MOST_ACCEPTED = 128  # at once, before the first of them is looked at


class Connection(H11Protocol):
    patience_s = ANSWER_S

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.resumed = 0
        self.paused_at: float | None = None
        self.since = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_for: str | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = self.loop.time()
        connections: set[Any] = self.connections
        others = [each for each in connections if each is not self and not each.transport.is_closing()]
        if len(others) >= MOST_CONNECTIONS:
            (first_to_go(others) or self).give_way()
        self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    @property
    def rank(self) -> int | None:
        """Who goes first when there are too many: a stranger before the owner. None: it stays."""
        is_idle = self.cycle is None or self.cycle.response_complete
        scope: Any = self.scope
        if scope is None or not scope.get(KNOWN):
            return 0 if is_idle else 1
        return 2 if is_idle else None

    def give_way(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._say(503, "There are too many connections.")
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
        """The app runs after this returns, so it finds the connection in the scope."""
        super().handle_events()
        scope: Any = self.scope
        if scope is not None:
            scope.setdefault(CONNECTION, self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_deadline()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._clear_deadline()
        self._waits_for = "nothing"  # the WebSocket has clocks of its own
        super().handle_websocket_upgrade(event)

    def _set_deadline(self) -> None:
        """From the first moment in which it is waited for, not from the last byte: a drip does not move it."""
        waits_for = self._wanted()
        if waits_for == self._waits_for or self._waits_for == "nothing":
            return
        self._clear_deadline()
        self._waits_for = waits_for
        if waits_for is not None:
            seconds = HEAD_S if waits_for == "head" else BODY_S
            self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _wanted(self) -> str | None:
        if self.transport is None or self.transport.is_closing():
            return None
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return "body"
        begun = bool(self.conn.trailing_data[0]) or self.cycle is None
        return "head" if state is h11.IDLE and begun else None  # an idle one has the keep-alive's own clock

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._waits_for != "nothing":
            self._waits_for = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self._say(408, "The request took too long to arrive.")

    def send_400_response(self, msg: str) -> None:
        """Called while the parser's error is being handled, which knows whether it was size."""
        if getattr(sys.exception(), "error_status_hint", 400) == 431:
            self._say(431, "The headers are too large.")
        else:
            self._say(400, "This is not HTTP.")

    def _say(self, status: int, detail: str) -> None:
        """A problem as the last word on this connection, unless a response is on its way already."""
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


class Socket(WebSocketsSansIOProtocol):
    """A page's WebSocket. A large message goes out as fragments, each when there is room for it: the library would
    copy it whole into the connection's buffer, for every page again."""

    patience_s = PAGE_S

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.resumed = 0
        self.paused_at: float | None = None
        self.since = self.loop.time()
        self._sending = asyncio.Lock()

    @property
    def rank(self) -> int | None:
        """As a connection's: a page's stays, one that nobody has looked at yet does not."""
        scope: Any = getattr(self, "scope", {})
        return None if scope.get(KNOWN) else 1

    def give_way(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        self.paused_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self.resumed += 1
        self.paused_at = None
        super().resume_writing()

    def handle_ping(self) -> None:
        """Who does not read is not answered: the answers would pile up."""
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
            self.handshake_complete = True  # refused in order; the library would log it as an error

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


class Seated(Protocol):
    """What `first_to_go` knows of a connection."""

    since: float

    @property
    def rank(self) -> int | None: ...


S = TypeVar("S", bound=Seated)


def first_to_go(connections: Iterable[S]) -> S | None:
    """A silent stranger's, then any stranger's, then one of the owner's that is not in use; of these the oldest."""
    ranked = [(each.rank, each.since, each) for each in connections]
    going = [(rank, since, each) for rank, since, each in ranked if rank is not None]
    return min(going, key=lambda known: known[:2])[2] if going else None
