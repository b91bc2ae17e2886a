"""The checks before the app, as plain ASGI: every request for a route, a file or a WebSocket passes them.

Every response gets the security headers. An exception that the app did not handle becomes problem details and a line in
the log. The checks are, in this order: size of the head, host, origin, token, size of the body, type of the body. Each
has a status of its own.

A forge's message has no token and no origin: its signature, which covers the body, authenticates it. So its body is
read before the sender is authenticated, and all such bodies together may only take a limited amount of memory. The
same is true for uploads, because they are large; but their senders are authenticated first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.core.hooks.hook import MAX_EVENT_BYTES, Forge
from clew.server.live.event_encoding import PIECE_BYTES, pieces
from clew.server.live.send_buffers import SendBuffers
from clew.server.models import problems
from clew.server.models.problems import RequestRefused
from clew.server.security.access_policy import SAFE_METHODS, AccessPolicy, Headers, unauthorized
from clew.server.security.body_limits import MAX_SHORT_BYTES, MAX_UPLOADS_BYTES, check_values
from clew.server.security.login_page import STYLE_PATH

log = logging.getLogger("clew.server")

BODY_S = 30.0  # how long a whole body may take to arrive: an incomplete one occupies memory
UPLOAD_S = 300.0  # the same, for a file
MAX_HOOKS_BYTES = 100_000_000  # all forges' messages that are being received
OPEN_PATHS = ("/healthz", STYLE_PATH)
HOOK_PATHS = tuple(f"/hooks/{forge}" for forge in Forge)  # exactly these, nothing below them
KEY_PATHS = ("/api", "/metrics", "/reset")  # a browser needs its key here; elsewhere the cookie is enough
AUTHENTICATED = "clew.authenticated"  # the key in a request's scope for whether its credentials were valid
PAGE_PATHS = ("/",)  # these answer without a token too, with the login page

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
    """The outermost ASGI app. `policy` says who may call."""

    def __init__(
        self,
        app: ASGIApp,
        policy: AccessPolicy,
        send_buffers: SendBuffers | None = None,
        max_body_bytes: Callable[[str], int] = lambda _path: MAX_SHORT_BYTES,
        takes_upload: Callable[[str], bool] = lambda _path: False,
    ) -> None:
        self._app = app
        self._policy = policy
        self._max_body_bytes = max_body_bytes
        self._send_buffers = send_buffers or SendBuffers()
        self._takes_upload = takes_upload
        self._hook_bodies = _BodyBudget(MAX_HOOKS_BYTES, "Too many messages from forges are being received.")
        self._uploads = _BodyBudget(MAX_UPLOADS_BYTES, "Too many files are being uploaded.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        response = _GuardedSend(send, scope, self._send_buffers)
        try:
            if scope["type"] == "http" and scope["path"] in HOOK_PATHS:
                with self._hook_bodies.share() as take:
                    receive = await self._check_hook(scope, receive, take)
                    await self._app(scope, receive, response)
            elif scope["type"] == "http" and self._takes_upload(scope["path"]):
                self._check_head(scope)
                if scope["method"] != "POST":
                    raise problems.wrong_method(scope["method"], "POST")
                with self._uploads.share() as take:
                    max_bytes = self._max_body_bytes(scope["path"])
                    receive = await _with_body(scope["headers"], receive, max_bytes, take, form="multipart")
                    await self._app(scope, receive, response)
            else:
                self._check_head(scope)
                if scope["type"] == "http":
                    receive = await _with_body(scope["headers"], receive, self._max_body_bytes(scope["path"]))
                await self._app(scope, receive, response)
        except RequestRefused as refusal:
            await _refuse(scope, receive, response, refusal)
        except Exception as error:  # noqa: BLE001 - the client gets an answer, whatever failed
            problems.log_unexpected(error, _place(scope))
            if not response.started:
                await _refuse(scope, receive, response, problems.unexpected())
        log.debug("%s %s %d ms", _place(scope), response.status, (time.monotonic() - began) * 1000)

    def _check_head(self, scope: Scope) -> None:
        """Checks everything that comes before the body. Raises RequestRefused."""
        policy, headers = self._policy, scope["headers"]
        policy.check_size(scope.get("raw_path") or b"", scope.get("query_string") or b"", headers)
        policy.check_host(headers)
        is_socket = scope["type"] == "websocket"
        unsafe = is_socket or scope["method"] not in SAFE_METHODS
        policy.check_origin(headers, unsafe=unsafe)
        authenticated = policy.is_authenticated(headers, needs_key=scope["path"].startswith(KEY_PATHS))
        scope[AUTHENTICATED] = authenticated
        if not authenticated and not (scope["path"] in OPEN_PATHS or (scope["path"] in PAGE_PATHS and not unsafe)):
            raise unauthorized()

    async def _check_hook(self, scope: Scope, receive: Receive, take: Callable[[int], None]) -> Receive:
        """Checks a forge's message, except its signature, which the route checks. Raises RequestRefused."""
        headers = scope["headers"]
        self._policy.check_size(scope.get("raw_path") or b"", scope.get("query_string") or b"", headers)
        self._policy.check_host(headers)
        if scope["method"] != "POST":
            raise problems.wrong_method(scope["method"], "POST")
        return await _with_body(headers, receive, MAX_EVENT_BYTES, take, form="any")


class _BodyBudget:
    """Limits the memory for bodies that are large, or whose senders are not authenticated yet."""

    def __init__(self, max_bytes: int, refusal: str) -> None:
        self._max_bytes = max_bytes
        self._refusal = refusal
        self._held_bytes = 0

    @contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that counts the bytes of one body. They are released at the end."""
        taken_bytes = 0

        def take(size_bytes: int) -> None:
            nonlocal taken_bytes
            taken_bytes += size_bytes
            self._held_bytes += size_bytes
            if self._held_bytes > self._max_bytes:
                raise RequestRefused(503, self._refusal, headers={"Retry-After": "5", "Connection": "close"})

        try:
            yield take
        finally:
            self._held_bytes -= taken_bytes


class _GuardedSend:
    """A `send` that adds the security headers, sends a large body in pieces, and remembers what was sent."""

    def __init__(self, send: Send, scope: Scope, send_buffers: SendBuffers) -> None:
        self._send = send
        self._scope = scope
        self._send_buffers = send_buffers
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
        """Sends a large body in pieces: else each connection would copy the whole body into its buffer."""
        body = message["body"]
        with self._send_buffers.buffer_for(self._scope) as client_buffer:
            client_buffer.hold(body)
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
    max_bytes: int,
    take: Callable[[int], None] = lambda size: None,
    *,
    form: Literal["json", "multipart", "any"] = "json",
) -> Receive:
    """Reads the whole body, chunked or not, and checks its size and form. `take` gets the size of each part."""
    by_name = {name.lower(): value for name, value in headers}
    length = by_name.get(b"content-length", b"0")
    chunked = b"transfer-encoding" in by_name
    if not chunked and length == b"0":
        return receive
    limit = f"{max_bytes // 1_000_000} MB" if max_bytes >= 1_000_000 else f"{max_bytes // 1_000} KB"
    too_large = RequestRefused(413, f"The body is larger than {limit}.", headers={"Connection": "close"})
    if not chunked and (not length.isdigit() or len(length) > 12 or int(length) > max_bytes):
        raise too_large
    content_type = by_name.get(b"content-type", b"").split(b";")[0].strip().lower()
    if form == "multipart" and content_type != b"multipart/form-data":
        raise RequestRefused(
            415, "The body is not a form.", code="not_a_form", hint="Send the file as multipart/form-data."
        )
    parts: list[bytes] = []
    size = 0
    limit_s = UPLOAD_S if form == "multipart" else BODY_S
    deadline = time.monotonic() + limit_s
    while True:
        try:
            async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                message = await receive()
        except TimeoutError:
            raise RequestRefused(
                408, f"The body did not arrive within {limit_s:.0f} s.", headers={"Connection": "close"}
            ) from None
        if message["type"] == "http.disconnect":
            raise RequestRefused(400, "The body is incomplete.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        take(len(parts[-1]))
        if size > max_bytes:
            raise too_large
        if not message.get("more_body", False):
            break
    if form == "json" and size and content_type != b"application/json":
        raise RequestRefused(415, "The body is not JSON.", hint="Send it with Content-Type: application/json.")
    whole = b"".join(parts)
    if form == "json":
        check_values(whole)
    return with_body_again(whole, receive)


def with_body_again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns a body that was already read."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return unread.pop() if unread else await receive()

    return replay


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: RequestRefused | Response) -> None:
    response = problems.of_refusal(refusal) if isinstance(refusal, RequestRefused) else refusal
    if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    await response(scope, receive, send)


def _place(scope: Scope) -> str:
    """The route, not the address, which may contain a token, a name or an id."""
    route = getattr(scope.get("route"), "path", "(no route)")
    return f"{scope.get('method', 'WS')} {route}"
