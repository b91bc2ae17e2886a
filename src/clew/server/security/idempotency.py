"""`Idempotency-Key`: a POST that is sent again because its answer was lost is answered again, not carried out again.

The first answer is stored before anybody gets it, also over a restart. What a request makes gets an id that was stored
before (`hosts/requests.py`), so a daemon that died in between leaves nothing that could be made twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clew.client import Client
from clew.core.record import Record
from clew.errors import NotFound
from clew.server.guards import HOOK_PATHS
from clew.server.problems import Refusal
from clew.store.records import Request

HEADER = b"idempotency-key"
REPLAYED = b"idempotency-replayed"
KEY = re.compile(rb"[!-~]{1,200}")
# What is made by these has the id that was stored with the key. Of the others nobody can say whether it was made.
FOUND_AGAIN = re.compile(r"/api/(?:threads|jobs|threads/[^/]+/(?:runs|retry)|runs/[^/]+/continue)")
MADE = "clew.made"


class Made(Record):
    """The id of what a request makes; None: any."""

    id: str | None = None
    again: bool = False  # an earlier try may have made it already


ANY = Made()


def made_of(connection: HTTPConnection) -> Made:
    made = connection.scope.get(MADE, ANY)
    assert isinstance(made, Made)
    return made


TheMade = Annotated[Made, Depends(made_of)]


async def found(made: Made, look: Callable[[str], Awaitable[Response]]) -> Response | None:
    """The answer about what an earlier try has made, if it came so far."""
    if made.id is None or not made.again:
        return None
    try:
        return await look(made.id)
    except NotFound:
        return None


class Idempotency:
    """Between the guards and the app. `caller` tells one token from another."""

    def __init__(self, app: ASGIApp, client: Client, caller: str) -> None:
        self._app = app
        self._client = client
        self._caller = caller
        self._being_answered: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value for name, value in scope.get("headers", ()) if name.lower() == HEADER]
        if not given or scope["type"] != "http" or scope["method"] != "POST" or scope["path"] in HOOK_PATHS:
            await self._app(scope, receive, send)
            return
        if len(given) != 1 or not KEY.fullmatch(given[0]):
            raise Refusal(400, "The Idempotency-Key is not 1 to 200 visible ASCII characters.")
        key = _digest(self._caller.encode(), scope["path"].encode(), scope["query_string"], given[0])
        if key in self._being_answered:
            words = "The first request with this Idempotency-Key is still being answered."
            raise Refusal(409, words, headers={"Retry-After": "1"})
        self._being_answered.add(key)
        try:
            await self._once(key, scope, receive, send)
        finally:
            self._being_answered.discard(key)

    async def _once(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _whole(receive)
        known, is_new = await self._client.requests.claim(key, _digest(body))
        if known.sent != _digest(body):
            raise Refusal(422, "Another body was sent with this Idempotency-Key before.", hint="Use a key once.")
        if known.status is not None:
            await _replay(known, scope, receive, send)
            return
        if not is_new and not FOUND_AGAIN.fullmatch(scope["path"]):
            raise Refusal(
                409,
                "The first request with this Idempotency-Key broke off; it may have been carried out.",
                hint="Look whether it was; if not, send it with another key.",
            )
        scope[MADE] = Made(known.made_id, again=not is_new)
        answer = _Held()
        await self._app(scope, _replayed(body, receive), answer)
        if 200 <= answer.status < 300:
            await self._client.requests.finish(key, answer.status, answer.location, answer.body.decode())
        elif answer.status < 500:
            await self._client.requests.release(key)
        for message in answer.messages:
            await send(message)


class _Held:
    """A response that is kept back until it is stored."""

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


async def _replay(known: Request, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {REPLAYED.decode().title(): "true", **({"Location": known.location} if known.location else {})}
    assert known.status is not None
    response = Response((known.answer or "").encode(), known.status, headers, media_type="application/json")
    await response(scope, receive, send)


async def _whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The body broke off.")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def _digest(*parts: bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8) + part)
    return made.hexdigest()
