"""A run's events as server-sent events: from the first, or after the last one that a client has, to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from clew.errors import ClewError
from clew.server.access import RunId, Shared, TheShared
from clew.server.documents import fails
from clew.server.encoded import Encoded, Parts, pieces
from clew.server.problems import log

router = APIRouter(prefix="/api/runs", tags=["runs"])

T = TypeVar("T")
HEARTBEAT_S = 15.0
HEARTBEAT: Parts = (b": still here\n\n",)
MAX_SEQ = 2**53


@router.get(
    "/{run}/events",
    response_class=StreamingResponse,
    responses={
        **fails(404, body=False),
        200: {"description": "`id: SEQ`, `event: KIND`, `data: Event`", "content": {"text/event-stream": {}}},
    },
)
async def events(
    run_id: RunId,
    shared: TheShared,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only events after this one")] = 0,
    last_event_id: Annotated[
        int | None, Header(ge=0, le=MAX_SEQ, description="The same, as browsers say it when they reconnect")
    ] = None,
) -> StreamingResponse:
    """The stream ends with `run_ended`."""
    run = await shared.client.run(run_id)
    shared.check_room()
    seen = after if last_event_id is None else last_event_id
    return EventStream(shared, _stream(shared, run.id, seen))


class EventStream(StreamingResponse):
    """Server-sent events: each goes out piece by piece, as the client takes it, and the source is closed at the end.

    A source that cannot be read any more (the database is away) ends the stream in order: clients come back by
    themselves, and say what they have.
    """

    def __init__(self, shared: Shared, source: AsyncGenerator[Parts, None]) -> None:
        super().__init__(_nothing(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._shared = shared
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._shared.unsent.reader(scope) as self._reader:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._source) as source:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                async for parts in source:
                    for part in parts:
                        self._reader.hold(part)
                    for piece in pieces(parts):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                    self._reader.let_go()
            except ClewError as error:
                log.warning("a stream of events ends early, they could not be read: %s", error.code)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _stream(shared: Shared, run_id: str, after: int) -> AsyncGenerator[Parts, None]:
    with shared.listening():
        yield HEARTBEAT  # the head goes out at once, so that a client knows that it is connected
        async with aclosing(or_heartbeat(shared, run_id, after)) as followed:
            async for event in followed:
                yield HEARTBEAT if event is None else sse(event)


async def or_heartbeat(
    shared: Shared, run_id: str, after: int, every_s: float = HEARTBEAT_S
) -> AsyncGenerator[Encoded | None, None]:
    """The run's events; None when nothing came for a while. Ends with the run, or with the daemon."""
    encoded = shared.encoder.following(shared.client, run_id, after)
    async with aclosing(beating(shared, encoded, every_s)) as heard:
        async for event in heard:
            yield event


async def beating(
    shared: Shared, followed: AsyncGenerator[T, None], every_s: float = HEARTBEAT_S
) -> AsyncGenerator[T | None, None]:
    """All that comes; None when nothing came for a while. Ends with what is followed, or with the daemon."""
    closing = asyncio.create_task(shared.closing.wait())
    coming = asyncio.create_task(_next(followed))
    try:
        while not closing.done():
            await asyncio.wait({coming, closing}, timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                yield None
                continue
            told = coming.result()
            if told is None:
                return
            yield told
            coming = asyncio.create_task(_next(followed))
    finally:
        await _end(coming, closing)
        await followed.aclose()


async def _next(followed: AsyncGenerator[T, None]) -> T | None:
    """None: the stream is over."""
    return await anext(followed, None)


async def _end(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing() -> AsyncGenerator[bytes, None]:
    """The library wants a body; `stream_response` has its own."""
    return
    yield b""


def sse(event: Encoded) -> Parts:
    """JSON has no line breaks of its own, so one data line is enough."""
    return f"id: {event.seq}\nevent: {event.kind}\ndata: ".encode(), event.data, b"\n\n"
