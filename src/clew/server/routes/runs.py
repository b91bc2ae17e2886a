"""Runs: list them, edit queued ones, cancel and continue them, and answer their questions."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from clew.api.client import Client
from clew.api.wire import runs as wire
from clew.api.wire.questions import AnsweredQuestion, ProposedEdits, answered_question, proposed_edits
from clew.core.runs.choices import DECLINED, declined_because
from clew.core.runs.permissions import Answer, Scope
from clew.core.runs.run import RunStatus
from clew.errors import Conflict
from clew.server.access import RunId, TheClient, TheShared
from clew.server.models import requests
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails
from clew.server.security.body_limits import takes_long_text
from clew.server.security.idempotency import TheCreation, created_before

router = APIRouter(prefix="/api/runs", tags=["runs"])


async def accepted(client: Client, run_id: str) -> Response:
    """The response for a run that was just accepted."""
    return json_response(wire.run(await client.views.run(run_id)).to_json(), 202)


@router.get("", response_model=wire.RunList, responses=fails(404, body=False))
async def list_(
    client: TheClient,
    thread: Annotated[str, Query(max_length=200, description="Only runs of this thread: its id or name")] = "",
    status: Annotated[wire.Status | None, Query(description="Only runs with this status")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """Newest first."""
    of_thread = await client.find(thread) if thread else None
    statuses = None if status is None else (RunStatus(status),)
    found = await client.views.runs(thread=of_thread, statuses=statuses, limit=limit)
    return json_response(wire.RunList(items=[wire.run(each) for each in found]).to_json())


@router.get("/{run}", response_model=wire.Run, responses=fails(404, body=False))
async def show(run_id: RunId, client: TheClient) -> Response:
    return json_response(wire.run(await client.views.run(run_id)).to_json())


@router.patch("/{run}", response_model=wire.Run, responses=fails(404, 409))
@takes_long_text
async def edit(run_id: RunId, body: requests.RunChange, shared: TheShared) -> Response:
    """Changes the prompt of a queued run; 409 once it has started."""
    client = shared.client
    if body.expand:  # it reads files in the thread's directory
        await shared.ready_thread((await client.run(run_id)).thread_id)
    run = await client.edit_queued(run_id, body.prompt, expand=bool(body.expand))
    return json_response(wire.run(await client.views.run(run.id)).to_json())


@router.delete("/{run}", status_code=204, response_class=Response, responses=fails(404, 409))
async def remove(run_id: RunId, client: TheClient) -> Response:
    """Removes a queued run; 409 once it has started."""
    await client.remove_queued(run_id)
    return Response(status_code=204)


@router.post("/{run}/cancel", status_code=202, response_model=wire.Run, responses=fails(404, 409))
async def cancel(run_id: RunId, client: TheClient) -> Response:
    """Stops the run; its partial answer is kept. Prompts that are queued after it are held until they are sent."""
    run = await client.run(run_id)
    if not await client.cancel(run.id):
        raise Conflict("The run has already ended.")
    return await accepted(client, run.id)


@router.post("/{run}/continue", status_code=202, response_model=wire.Run, responses=fails(404, 409, 422, body=False))
async def continue_(run_id: RunId, shared: TheShared, creation: TheCreation) -> Response:
    """Continues a run that the account's usage limit ended, in its session, as soon as the limit has reset.

    Until then the new run is queued, also over a restart of the daemon. 409 if no limit ended the run, or if there is a
    later run.
    """
    if earlier := await created_before(creation, partial(accepted, shared.client)):
        return earlier
    run = await shared.client.run(run_id)
    thread = await shared.ready_thread(run.thread_id)
    follow_up = await thread.continue_after_limit(run.id, new_run_id=creation.id, lasting=True)
    return await accepted(shared.client, follow_up.id)


@router.post("/{run}/send", status_code=202, response_model=wire.Run, responses=fails(404, 409))
async def send(run_id: RunId, shared: TheShared) -> Response:
    """Starts a queued or held run before the others; the running one is stopped. 409 once the run has started."""
    client = shared.client
    run = await client.run(run_id)
    await shared.ready_thread(run.thread_id)
    return await accepted(client, (await client.send_queued(run.id)).id)


@router.get("/{run}/steps", response_model=wire.EventList, responses=fails(404, body=False))
async def steps(run_id: RunId, client: TheClient) -> Response:
    """The events of the run, without its streamed text."""
    run = await client.run(run_id)
    found = await client.views.steps(run.id)
    return json_response(wire.EventList(items=[wire.event(stored) for stored in found]).to_json())


@router.get("/{run}/questions/{question}/edits", response_model=ProposedEdits, responses=fails(403, 404, body=False))
async def edits(
    run_id: RunId,
    question: Annotated[str, Path(max_length=200, description="A question's id")],
    shared: TheShared,
) -> Response:
    """What the tool that asks for permission would change in files, as they are now. Empty: it edits none."""
    run = await shared.client.run(run_id)
    await shared.ready_thread(run.thread_id)
    return json_response(proposed_edits(await shared.client.views.proposed_edits(run.id, question)).to_json())


@router.post("/{run}/tool-result", status_code=202, response_model=AnsweredQuestion, responses=fails(404, 409))
@takes_long_text
async def tool_result(run_id: RunId, given: requests.ToolResult, shared: TheShared) -> Response:
    """Answers a question. If the run that asked has ended, a new run sends the answer to the resumed session."""
    client = shared.client
    run = await client.run(run_id)
    await shared.ready_thread(run.thread_id)
    message = given.message or ""
    if not given.allow:
        message = declined_because(message) if message else DECLINED
    reply = Answer(given.allow, message, given.answers, Scope(given.scope or Scope.ONCE))
    answered = await client.answer(run.id, given.question_id, reply, lasting=True)
    follow_up = None if answered.follow_up is None else answered.follow_up.id
    return json_response(answered_question(answered.question, follow_up).to_json(), 202)
