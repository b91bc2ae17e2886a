"""`Idempotency-Key`: a POST that is sent again because its answer was lost is answered again, not carried out again.

The first answer is stored before it is sent, so it survives a restart. The id of what a request creates is stored with
the key first (`api/requests.py`), so nothing is created twice if the daemon dies in between.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.api.client import Client
from clew.api.requests import StoredRequest
from clew.core.record import Record
from clew.errors import NotFound
from clew.server.models.problems import RequestRefused
from clew.server.security.guards import HOOK_PATHS, with_body_again

HEADER = b"idempotency-key"
REPLAYED = b"idempotency-replayed"
KEY = re.compile(rb"[!-~]{1,200}")
CREATION = "clew.creation"


class Creation(Record):
    """The id for what a request creates."""

    id: str | None = None  # None: the request has no key, so any id will do
    is_retry: bool = False  # an earlier request with the same key may have created it already


def creation_of(connection: HTTPConnection) -> Creation:
    creation = connection.scope.get(CREATION, Creation())
    assert isinstance(creation, Creation)
    return creation


TheCreation = Annotated[Creation, Depends(creation_of)]


def creates_something(routes: Iterable[APIRoute]) -> Callable[[str], bool]:
    """Returns a function: does the call at this path create something under the id that was stored with its key?

    The route of such a call takes `TheCreation`. If the call was interrupted, the id shows whether it was carried out;
    for any other call that is not known.
    """
    creating = [
        route.path_regex
        for route in routes
        if any(dependency.call is creation_of for dependency in route.dependant.dependencies)
    ]
    return lambda path: any(each.match(path) for each in creating)


async def created_before(creation: Creation, response_for: Callable[[str], Awaitable[Response]]) -> Response | None:
    """The response for what an earlier request with the same key created; None: it created nothing."""
    if creation.id is None or not creation.is_retry:
        return None
    try:
        return await response_for(creation.id)
    except NotFound:
        return None


class Idempotency:
    """The ASGI app between the guards and the routes. Each `caller` (each token) has its own keys."""

    def __init__(self, app: ASGIApp, client: Client, caller: str, creates: Callable[[str], bool]) -> None:
        self._app = app
        self._client = client
        self._caller = caller
        self._creates = creates
        self._being_answered: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope.get("headers", ()) if name.lower() == HEADER]
        if not given or scope["type"] != "http" or scope["method"] != "POST" or scope["path"] in HOOK_PATHS:
            await self._app(scope, receive, send)
            return
        if len(given) != 1 or not KEY.fullmatch(given[0]):
            raise RequestRefused(400, "The Idempotency-Key is not 1 to 200 visible ASCII characters.")
        key = _digest(self._caller.encode(), scope["path"].encode(), scope["query_string"], given[0])
        if key in self._being_answered:
            detail = "The first request with this Idempotency-Key is still being answered."
            raise RequestRefused(409, detail, headers={"Retry-After": "1"})
        self._being_answered.add(key)
        try:
            await self._once(key, scope, receive, send)
        finally:
            self._being_answered.discard(key)

    async def _once(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestRefused(400, "The body is incomplete.")
        body = message.get("body", b"")  # the guards have read the whole body, so it is one message
        stored, is_new = await self._client.requests.claim(key, _digest(body))
        if stored.sent != _digest(body):
            raise RequestRefused(422, "Another body was sent with this Idempotency-Key before.", hint="Use a key once.")
        if stored.status is not None:
            await _replay(stored, scope, receive, send)
            return
        if not is_new and not self._creates(scope["path"]):
            raise RequestRefused(
                409,
                "The first request with this Idempotency-Key was interrupted; it may have been carried out.",
                hint="Check whether it was; if not, send it with another key.",
            )
        scope[CREATION] = Creation(stored.made_id, is_retry=not is_new)
        response = _HeldResponse()
        await self._app(scope, with_body_again(body, receive), response)
        if 200 <= response.status < 300:
            await self._client.requests.finish(key, response.status, response.location, response.body.decode())
        elif response.status < 500:
            await self._client.requests.release(key)
        for message in response.messages:
            await send(message)


class _HeldResponse:
    """Collects a response, which is stored before it is sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.status = 500

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def location(self) -> str | None:
        headers = self.messages[0].get("headers", ())
        return next((value.decode("latin-1") for name, value in headers if name.lower() == b"location"), None)


async def _replay(stored: StoredRequest, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {REPLAYED.decode().title(): "true", **({"Location": stored.location} if stored.location else {})}
    assert stored.status is not None
    response = Response((stored.answer or "").encode(), stored.status, headers, media_type="application/json")
    await response(scope, receive, send)


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8) + part)
    return digest.hexdigest()
