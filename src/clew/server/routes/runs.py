"""Runs: what is asked, how it goes on, and how a person answers or stops it."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.client import Client
from clew.core.permissions import Answer
from clew.core.run import RunStatus
from clew.errors import Conflict
from clew.server import bodies, requests, schemas
from clew.server.access import RunId, TheClient, TheShared
from clew.server.documents import fails
from clew.server.idempotency import TheMade, found
from clew.server.json_body import answer

router = APIRouter(prefix="/api/runs", tags=["runs"])


async def accepted(client: Client, run_id: str) -> Response:
    """The run as it is a moment after it was taken."""
    return answer(bodies.run(await client.run_card(run_id)), 202)


@router.get("", response_model=schemas.RunList, responses=fails(404, body=False))
async def list_(
    client: TheClient,
    thread: Annotated[str, Query(max_length=200, description="Only those of this thread: its id or name")] = "",
    status: Annotated[schemas.Status | None, Query(description="Only those in this state")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """The newest first."""
    of_thread = await client.find(thread) if thread else None
    statuses = None if status is None else (RunStatus(status),)
    cards = await client.run_cards(thread=of_thread, statuses=statuses, limit=limit)
    return answer({"items": [bodies.run(card) for card in cards]})


@router.get("/{run}", response_model=schemas.Run, responses=fails(404, body=False))
async def show(run_id: RunId, client: TheClient) -> Response:
    return answer(bodies.run(await client.run_card(run_id)))


@router.patch("/{run}", response_model=schemas.Run, responses=fails(404, 409))
async def edit(run_id: RunId, wanted: requests.RunChange, client: TheClient) -> Response:
    """Another prompt for a queued run; 409 once it has started."""
    run = await client.edit_queued(run_id, wanted.prompt)
    return answer(bodies.run(await client.run_card(run.id)))


@router.delete("/{run}", status_code=204, response_class=Response, responses=fails(404, 409))
async def remove(run_id: RunId, client: TheClient) -> Response:
    """Takes a queued run back; 409 once it has started."""
    await client.remove_queued(run_id)
    return Response(status_code=204)


@router.post("/{run}/cancel", status_code=202, response_model=schemas.Run, responses=fails(404, 409))
async def cancel(run_id: RunId, client: TheClient) -> Response:
    """Asks it to stop; what was said so far is kept. Prompts that are queued behind it are held until they are sent."""
    run = await client.run(run_id)
    if not await client.cancel(run.id):
        raise Conflict("The run is over already.")
    return await accepted(client, run.id)


@router.post("/{run}/continue", status_code=202, response_model=schemas.Run, responses=fails(404, 409, 422, body=False))
async def continue_(run_id: RunId, shared: TheShared, made: TheMade) -> Response:
    """Continues a run that met the account's usage limit, in its session, as soon as the limit has reset.

    Until then the new run is queued, also over a restart of the daemon. 409: it met no limit, or another run followed.
    """
    if before := await found(made, partial(accepted, shared.client)):
        return before
    run = await shared.client.run(run_id)
    thread = await shared.client.find(run.thread_id)
    shared.roots.check(thread.record.cwd)
    follow_up = await thread.continue_after_limit(run.id, new_run_id=made.id, lasting=True)
    return await accepted(shared.client, follow_up.id)


@router.post("/{run}/send", status_code=202, response_model=schemas.Run, responses=fails(404, 409))
async def send(run_id: RunId, shared: TheShared) -> Response:
    """Starts a queued run before the others, held or not; the one that is going on is stopped. 409 once it started."""
    client = shared.client
    run = await client.run(run_id)
    shared.roots.check((await client.find(run.thread_id)).record.cwd)
    return await accepted(client, (await client.send_queued(run.id)).id)


@router.get("/{run}/steps", response_model=schemas.EventList, responses=fails(404, body=False))
async def steps(run_id: RunId, client: TheClient) -> Response:
    """What the run did, without the pieces of text."""
    run = await client.run(run_id)
    return answer({"items": [bodies.event(stored) for stored in await client.steps(run.id)]})


@router.post("/{run}/tool-result", status_code=202, response_model=schemas.AnsweredQuestion, responses=fails(404, 409))
async def tool_result(run_id: RunId, given: requests.ToolResult, shared: TheShared) -> Response:
    """A person's answer. When the run that asked is over, a new one brings it to the resumed session."""
    client = shared.client
    run = await client.run(run_id)
    shared.roots.check((await client.find(run.thread_id)).record.cwd)
    said = Answer(allow=given.allow, message=given.message or "", answers=given.answers)
    answered = await client.answer(run.id, given.question_id, said, lasting=True)
    follow_up = answered.follow_up
    return answer(
        {
            **bodies.question(answered.question, live=follow_up is None),
            "follow_up_run_id": None if follow_up is None else follow_up.id,
        },
        202,
    )
