"""Operations: long calls that other routes start, such as an export or a push. They can be followed and cancelled."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response, StreamingResponse

from clew.api.operations import Operation
from clew.api.wire import operations as wire
from clew.errors import Conflict, NotFound
from clew.server.access import TheClient, TheShared
from clew.server.live.event_encoding import Parts
from clew.server.models.json_body import json_response, json_text
from clew.server.models.openapi import fails, returns
from clew.server.routes.events import EVENT_STREAM, MAX_SEQ, EventStream

router = APIRouter(prefix="/api/operations", tags=["operations"])

BINARY = {"type": "string", "format": "binary"}
OperationId = Annotated[str, Path(alias="operation", max_length=200, description="An operation's id")]


def started(operation: Operation[Any]) -> Response:
    """The response of a route that started an operation."""
    return json_response(operation.to_shape().to_json(), 202, {"Location": f"/api/operations/{operation.id}"})


@router.get("", response_model=wire.OperationList, responses=fails(body=False))
async def list_(client: TheClient) -> Response:
    """The operations of this daemon, the newest first. A daemon that restarts has none."""
    return json_response(wire.OperationList(items=[each.to_shape() for each in client.operations.list()]).to_json())


@router.get("/{operation}", response_model=wire.Operation, responses=fails(404, body=False))
async def show(operation_id: OperationId, client: TheClient) -> Response:
    return json_response(client.operations.find(operation_id).to_shape().to_json())


@router.post("/{operation}/cancel", status_code=202, response_model=wire.Operation, responses=fails(404, 409))
async def cancel(operation_id: OperationId, client: TheClient) -> Response:
    """Stops it, so that nothing is half done. It has stopped when its status is not `running` any more. 409 if it has
    ended."""
    operation = client.operations.find(operation_id)
    if not operation.cancel():
        raise Conflict(f"The operation has ended: it is {operation.status}.")
    return json_response(operation.to_shape().to_json(), 202)


@router.get(
    "/{operation}/file",
    response_class=Response,
    responses={
        **fails(404, 409, body=False),
        **returns(
            "The file that the operation made",
            "application/octet-stream",
            schema={"type": "string", "format": "binary"},
        ),
    },
)
async def file(operation_id: OperationId, client: TheClient) -> Response:
    """409 while the operation runs."""
    operation = client.operations.find(operation_id)
    made = operation.file
    if made is None:
        if operation.is_running:
            raise Conflict("The operation has not ended.", hint="Its events say when it has.")
        raise NotFound("The operation made no file.")
    disposition = f"attachment; filename*=UTF-8''{quote(made.name, safe='')}"
    # Whatever it holds, a browser only saves it.
    return Response(made.content, media_type="application/octet-stream", headers={"Content-Disposition": disposition})


@router.get(
    "/{operation}/events",
    response_class=StreamingResponse,
    responses={
        **fails(404, body=False),
        **returns("`id: SEQ`, `event: KIND`, `data: OperationEvent`", EVENT_STREAM),
    },
)
async def events(
    operation_id: OperationId,
    shared: TheShared,
    after: Annotated[int, Query(ge=0, le=MAX_SEQ, description="Only events after this number")] = 0,
    last_event_id: Annotated[
        int | None, Header(ge=0, le=MAX_SEQ, description="The same, as browsers send it when they reconnect")
    ] = None,
) -> StreamingResponse:
    """The stream ends with `ended`."""
    operation = shared.client.operations.find(operation_id)
    shared.check_capacity()
    return EventStream(shared, _sse(operation, after if last_event_id is None else last_event_id))


async def _sse(operation: Operation[Any], after: int) -> AsyncGenerator[Parts, None]:
    async with aclosing(operation.follow(after)) as followed:
        async for event in followed:
            data = json_text(event.to_shape().to_json())
            yield (f"id: {event.seq}\nevent: {event.kind}\ndata: {data}\n\n".encode(),)
