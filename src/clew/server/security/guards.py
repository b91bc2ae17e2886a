"""What stands before the app, as plain ASGI: nothing reaches a route, a file or a WebSocket but through here.

From the outside in: every response gets the security headers; whatever escapes the app becomes a problem and a line in
the log; then size, host, origin, token, kind of body, size of body, each with its own status.

A forge's message has no token and no origin: it is known by its signature, which is over the body. So those bodies are
read before anybody knows whose they are, and all of them together may only take so much room.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.core.hook import Forge
from clew.server import problems
from clew.server.body_limits import check_values, most_bytes
from clew.server.doors import SAFE_METHODS, Doors, Headers, unauthorized
from clew.server.encoded import PIECE_BYTES, pieces
from clew.server.entrance import STYLE_PATH
from clew.server.problems import Refusal
from clew.server.unsent import Unsent

log = logging.getLogger("clew.server")

BODY_S = 30.0  # for the whole of it: whoever stalls takes room from others
MAX_HOOK_BYTES = 25_000_000  # of a forge's message: what GitHub sends at most
MAX_HOOKS_BYTES = 100_000_000  # of all of them that are being heard
OPEN_PATHS = ("/healthz", STYLE_PATH)
HOOK_PATHS = tuple(f"/hooks/{forge}" for forge in Forge)  # these and nothing below them
KEY_PATHS = ("/api", "/metrics", "/reset")  # the page's files hold nothing of the user's; they need the cookie alone
KNOWN = "clew.known"  # in a request's scope: it brought the token
PAGE_PATHS = ("/",)  # answers a stranger itself, with a page instead of a problem

CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
SECURITY_HEADERS = (
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
NO_STORE = (b"cache-control", b"no-store")


class Guards:
    """The outermost ASGI app. `doors` says who may come in."""

    def __init__(self, app: ASGIApp, doors: Doors, unsent: Unsent | None = None) -> None:
        self._app = app
        self._doors = doors
        self._unsent = unsent or Unsent()
        self._hooks = _Room(MAX_HOOKS_BYTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        response = _Watched(send, scope, self._unsent)
        try:
            if scope["type"] == "http" and scope["path"] in HOOK_PATHS:
                with self._hooks.taken() as taken:
                    receive = await self._hook(scope, receive, taken)
                    await self._app(scope, receive, response)
            else:
                receive = await self._admitted(scope, receive)
                await self._app(scope, receive, response)
        except Refusal as refusal:
            await _refuse(scope, receive, response, refusal)
        except Exception as error:  # noqa: BLE001 - the last net: nothing may look like a crash from outside
            problems.log_unexpected(error, _place(scope))
            if not response.started:
                await _refuse(scope, receive, response, problems.unexpected())
        log.debug("%s %s %d ms", _place(scope), response.status, (time.monotonic() - began) * 1000)

    async def _admitted(self, scope: Scope, receive: Receive) -> Receive:
        """The request's body, once its head has passed every check. Raises Refusal."""
        doors, headers = self._doors, scope["headers"]
        doors.check_size(scope.get("raw_path") or b"", scope.get("query_string") or b"", headers)
        doors.check_host(headers)
        is_socket = scope["type"] == "websocket"
        unsafe = is_socket or scope["method"] not in SAFE_METHODS
        doors.check_origin(headers, unsafe=unsafe)
        known = doors.is_known(headers, needs_key=scope["path"].startswith(KEY_PATHS))
        scope[KNOWN] = known
        if not known and not (scope["path"] in OPEN_PATHS or (scope["path"] in PAGE_PATHS and not unsafe)):
            raise unauthorized()
        return receive if is_socket else await _with_body(headers, receive, most_bytes(scope["path"]))

    async def _hook(self, scope: Scope, receive: Receive, taken: _Taken) -> Receive:
        """A forge's message: whoever can sign it may send it, from wherever. Its route checks the signature."""
        headers = scope["headers"]
        self._doors.check_size(scope.get("raw_path") or b"", scope.get("query_string") or b"", headers)
        self._doors.check_host(headers)
        if scope["method"] != "POST":
            raise Refusal(405, f"{scope['method']} is not possible here.", headers={"Allow": "POST"})
        return await _with_body(headers, receive, MAX_HOOK_BYTES, taken.more, only_json=False)


class _Room:
    """For bodies of which nobody knows whose they are yet."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held = 0

    @contextmanager
    def taken(self) -> Iterator[_Taken]:
        taken = _Taken(self)
        try:
            yield taken
        finally:
            self._held -= taken.size

    def take(self, size: int) -> None:
        self._held += size
        if self._held > self._most:
            raise Refusal(503, "Too much is being heard at once.", headers={"Retry-After": "5", "Connection": "close"})


class _Taken:
    """One message's part of the room."""

    def __init__(self, room: _Room) -> None:
        self._room = room
        self.size = 0

    def more(self, size: int) -> None:
        self.size += size
        self._room.take(size)


class _Watched:
    """A `send` that adds the security headers, hands a large body on in pieces, and remembers what was sent."""

    def __init__(self, send: Send, scope: Scope, unsent: Unsent) -> None:
        self._send = send
        self._scope = scope
        self._unsent = unsent
        self.started = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            self.started = True
            self.status = message["status"]
            message = {**message, "headers": list(_with_security(message.get("headers", ())))}
        elif message["type"] in ("websocket.accept", "websocket.close"):
            self.started = True
        if len(message.get("body") or b"") > PIECE_BYTES:
            await self._send_large(message)
        else:
            await self._send(message)

    async def _send_large(self, message: Message) -> None:
        """The connection would copy all of it into its buffer at once, for each who asks."""
        body = message["body"]
        with self._unsent.reader(self._scope) as reader:
            reader.hold(body)
            for piece in pieces([body]):
                await self._send({**message, "body": piece, "more_body": True})
        await self._send({**message, "body": b"", "more_body": message.get("more_body", False)})


def _with_security(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    given = list(headers)
    names = {name.lower() for name, _ in given}
    yield from given
    yield from (each for each in (*SECURITY_HEADERS, NO_STORE) if each[0] not in names)


async def _with_body(
    headers: Headers,
    receive: Receive,
    most: int,
    came: Callable[[int], None] = lambda size: None,
    *,
    only_json: bool = True,
) -> Receive:
    """Reads the whole body, up to the limit, before anything else looks at it; chunked ones too."""
    kinds = {name.lower(): value for name, value in headers}
    length = kinds.get(b"content-length", b"0")
    chunked = b"transfer-encoding" in kinds
    if not chunked and length == b"0":
        return receive
    size_words = f"{most // 1_000_000} MB" if most >= 1_000_000 else f"{most // 1_000} KB"
    too_large = Refusal(413, f"The body is larger than {size_words}.", headers={"Connection": "close"})
    if not chunked and (not length.isdigit() or len(length) > 12 or int(length) > most):
        raise too_large
    parts: list[bytes] = []
    size = 0
    late = time.monotonic() + BODY_S
    while True:
        try:
            async with asyncio.timeout(max(0.0, late - time.monotonic())):
                message = await receive()
        except TimeoutError:
            raise Refusal(
                408, f"The body did not come within {BODY_S:.0f} s.", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The body broke off.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        came(len(parts[-1]))
        if size > most:
            raise too_large
        if not message.get("more_body", False):
            break
    if only_json and size and not _is_json(kinds.get(b"content-type", b"")):
        raise Refusal(415, "The body is not JSON.", hint="Send it with Content-Type: application/json.")
    whole = b"".join(parts)
    if only_json:
        check_values(whole)
    body: list[Message] = [{"type": "http.request", "body": whole, "more_body": False}]

    async def replay() -> Message:
        return body.pop() if body else await receive()

    return replay


def _is_json(content_type: bytes) -> bool:
    return content_type.split(b";")[0].strip().lower() == b"application/json"


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal | Response) -> None:
    response = problems.of_refusal(refusal) if isinstance(refusal, Refusal) else refusal
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await response(scope, receive, send)


def _place(scope: Scope) -> str:
    """The route, not the address: that may hold a token, a name or an id."""
    route = getattr(scope.get("route"), "path", "(no route)")
    return f"{scope.get('method', 'WS')} {route}"
