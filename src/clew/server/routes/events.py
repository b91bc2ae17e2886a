"""A run's events as server-sent events: all of them, or those after the last one that the client has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header, Query
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from clew.errors import ClewError
from clew.server.access import RunId, SharedState, TheShared
from clew.server.live.event_encoding import EncodedEvent, Parts, pieces
from clew.server.models.openapi import fails, returns
from clew.server.models.problems import log

router = APIRouter(prefix="/api/runs", tags=["runs"])

T = TypeVar("T")
EVENT_STREAM = "text/event-stream"
HEARTBEAT_S = 15.0
HEARTBEAT: Parts = (b": still here\n\n",)
MAX_SEQ = 2**53


@router.get(
    "/{run}/events",
    response_class=StreamingResponse,
    responses={
        **fails(404, body=False),
        **returns("`id: SEQ`, `event: KIND`, `data: Event`", EVENT_STREAM),
    },
)
async def events(
    run_id: RunId,
    shared: TheShared,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only events after this number")] = 0,
    last_event_id: Annotated[
        int | None, Header(ge=0, le=MAX_SEQ, description="The same, as browsers send it when they reconnect")
    ] = None,
) -> StreamingResponse:
    """The stream ends with `run_ended`."""
    run = await shared.client.run(run_id)
    shared.check_capacity()
    last_seq = after if last_event_id is None else last_event_id
    return EventStream(shared, _sse(shared.encoder.following(shared.client, run.id, last_seq)))


class EventStream(StreamingResponse):
    """Server-sent events. Each is sent piece by piece, as the client reads it, and the source is closed at the end.

    If the source can no longer be read (the database is unreachable), the stream ends properly: clients reconnect by
    themselves and say which events they have.
    """

    def __init__(self, shared: SharedState, source: AsyncGenerator[Parts, None]) -> None:
        super().__init__(_nothing(), media_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})
        self._shared = shared
        self._source = _connected(shared, source)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._shared.send_buffers.buffer_for(scope) as self._buffer:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._source) as source:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            try:
                async for parts in source:
                    for part in parts:
                        self._buffer.hold(part)
                    for piece in pieces(parts):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                    self._buffer.release()
            except ClewError as error:
                log.warning("an event stream is closed because the store could not be read: %s", error.code)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _connected(shared: SharedState, source: AsyncGenerator[Parts, None]) -> AsyncGenerator[Parts, None]:
    with shared.listening():
        yield HEARTBEAT  # sends the headers at once, so that the client knows that it is connected
        async with aclosing(with_heartbeats(shared, source)) as followed:
            async for parts in followed:
                yield HEARTBEAT if parts is None else parts


async def with_heartbeats(
    shared: SharedState, followed: AsyncGenerator[T, None], every_s: float = HEARTBEAT_S
) -> AsyncGenerator[T | None, None]:
    """The items of a stream, and None whenever there was no item for `every_s`. Ends with the stream or the daemon."""
    closing = asyncio.create_task(shared.closing.wait())
    coming = asyncio.create_task(_next(followed))
    try:
        while not closing.done():
            await asyncio.wait({coming, closing}, timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                yield None
                continue
            item = coming.result()
            if item is None:
                return
            yield item
            coming = asyncio.create_task(_next(followed))
    finally:
        await _cancel(coming, closing)
        await followed.aclose()


async def _next(followed: AsyncGenerator[T, None]) -> T | None:
    """None: the stream has ended."""
    return await anext(followed, None)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _nothing() -> AsyncGenerator[bytes, None]:
    """StreamingResponse needs a body, which `stream_response` does not use."""
    return
    yield b""


async def _sse(events: AsyncGenerator[EncodedEvent, None]) -> AsyncGenerator[Parts, None]:
    """The JSON has no line breaks, so one data line suffices. `event` stays in the encoder's cache while it is sent."""
    async with aclosing(events):
        async for event in events:
            yield f"id: {event.seq}\nevent: {event.kind}\ndata: ".encode(), event.data, b"\n\n"
