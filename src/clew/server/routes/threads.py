"""Threads and their turns."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.api.client import Client
from clew.core.thread import KINDS
from clew.server.access import TheClient, TheShared, ThreadName, TurnId
from clew.server.models import bodies, requests, schemas
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails, located
from clew.server.routes.runs import accepted
from clew.server.security.body_limits import takes_long_text
from clew.server.security.idempotency import TheCreation, created_before

router = APIRouter(prefix="/api/threads")

MAX_POSITION = 2**53


@router.post(
    "",
    status_code=201,
    response_model=schemas.Thread,
    responses={**fails(409), **located(201, "thread")},
    tags=["threads"],
    summary="Create a thread",
)
@takes_long_text
async def create(new: requests.NewThread, shared: TheShared, creation: TheCreation) -> Response:
    client = shared.client
    if earlier := await created_before(creation, lambda thread_id: _created(client, thread_id)):
        return earlier
    given = {**new.model_dump(exclude_none=True), "cwd": shared.roots.resolved(new.cwd)}
    thread = await client.new_thread(**given, thread_id=creation.id)
    return await _created(client, thread.record.id)


async def _created(client: Client, thread_id: str) -> Response:
    body = bodies.thread(await client.views.summary(thread_id))
    return json_response(body, 201, {"Location": f"/api/threads/{body['id']}"})


@router.get(
    "", response_model=schemas.ThreadPage, responses=fails(body=False), tags=["threads"], summary="List threads"
)
async def list_(
    client: TheClient,
    q: Annotated[str, Query(max_length=1_000, description="A text to search for in names, directories and turns")] = "",
    cwd: Annotated[str, Query(max_length=4_096, description="Only threads of this directory")] = "",
    kind: Annotated[
        Literal[*KINDS, "all"],  # type: ignore[valid-type]
        Query(description="Conversations, threads of jobs, reviews, hooks or pairs, or all"),
    ] = "chat",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    of_kind = None if kind == "all" else kind
    page = await client.views.page(q=q or None, cwd=cwd or None, kind=of_kind, limit=limit, offset=offset)
    items = [bodies.thread(summary) for summary in page.items]
    return json_response({"items": items, "total": page.total, "version": page.version})


@router.get("/{thread}", response_model=schemas.Thread, responses=fails(404, body=False), tags=["threads"])
async def show(name: ThreadName, client: TheClient) -> Response:
    return json_response(bodies.thread(await client.views.summary(name)))


@router.patch("/{thread}", response_model=schemas.Thread, responses=fails(404, 409), tags=["threads"])
@takes_long_text
async def change(name: ThreadName, body: requests.ThreadChange, shared: TheShared) -> Response:
    """Changes settings of the thread. 409 while a run is live, unless only the name changes."""
    client = shared.client
    thread = await client.find(name)
    given = body.model_dump(exclude_none=True)
    if body.cwd is not None:
        given["cwd"] = shared.roots.resolved(body.cwd)
    await thread.change(**given)
    return json_response(bodies.thread(await client.views.summary(thread.record.id)))


@router.delete("/{thread}", response_model=schemas.DeletedThread, responses=fails(404, 409), tags=["threads"])
async def delete(
    name: ThreadName,
    client: TheClient,
    dry_run: Annotated[bool, Query(description="Only report what would be deleted")] = False,
) -> Response:
    """Deletes the thread, after writing it to an archive file."""
    thread = await client.find(name)
    deleted = await thread.delete(dry_run=dry_run)
    archive = None if deleted.archive is None else str(deleted.archive)
    return json_response(
        {
            "name": deleted.name,
            "others": list(deleted.others),
            "turns": deleted.turns - deleted.archived_turns,
            "archived_turns": deleted.archived_turns,
            "archive": archive,
        }
    )


@router.get("/{thread}/view", response_model=schemas.ThreadView, responses=fails(404, body=False), tags=["threads"])
async def view(
    name: ThreadName,
    client: TheClient,
    before: Annotated[int | None, Query(ge=0, le=MAX_POSITION, description="Only turns before this position")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="How many turns to return at most")] = 100,
) -> Response:
    """Everything that a page needs to show the thread, read in one transaction."""
    return json_response(bodies.thread_view(await client.views.thread(name, before=before, limit=limit)))


@router.get(
    "/{thread}/session", response_model=schemas.SessionPreview, responses=fails(404, body=False), tags=["threads"]
)
async def session(
    name: ThreadName,
    client: TheClient,
    turn: Annotated[str | None, Query(max_length=200, description="The id of a turn that may be changed")] = None,
    prompt: Annotated[str | None, Query(description="The prompt to explain; a long one: POST …/explain")] = None,
    agent: Annotated[str | None, Query(max_length=100, description="For this turn, instead of the thread's")] = None,
    model: Annotated[str | None, Query(max_length=200)] = None,
    fresh: Annotated[bool, Query(description="Explain a fresh session with the whole transcript")] = False,
) -> Response:
    """Says whether the next turn resumes a session, what it would send and cost, and whether it still would resume
    after a change of `turn`. Runs nothing."""
    thread = await client.find(name)
    told = await thread.explain(prompt or None, agent=agent or None, model=model or None, fresh_session=fresh)
    after = (await thread.preview(turn)).after_change if turn else None
    change = None if after is None else {key: after.get(key) for key in ("edit", "truncate", "retry")}
    return json_response({**bodies.explanation(told), "after_change": change})


@router.post("/{thread}/explain", response_model=schemas.Explanation, responses=fails(404), tags=["threads"])
@takes_long_text
async def explain(name: ThreadName, body: requests.NewRun, shared: TheShared) -> Response:
    """Says what `POST …/runs` with the same body would do, with the exact prompt and the expected price. Runs
    nothing, and stores nothing."""
    thread = await shared.ready_thread(name)
    told = await thread.explain(
        body.prompt,
        agent=body.agent,
        model=body.model,
        instructions=body.instructions,
        fresh_session=bool(body.force_fresh_session),
    )
    return json_response(bodies.explanation(told))


@router.post(
    "/{thread}/fork",
    status_code=201,
    response_model=schemas.Thread,
    responses={**fails(404, 409), **located(201, "new thread")},
    tags=["threads"],
)
async def fork(name: ThreadName, body: requests.ForkRequest, client: TheClient) -> Response:
    """Creates a thread with the history up to a round or turn; the old one stays unchanged. For a pair, it forks the
    instructor's thread."""
    thread = await client.find(name)
    forked = await client.fork(thread.record.id, body.name, at_round=body.round, at_turn=body.turn)
    return await _created(client, forked.threads[0].id)


@router.patch("/{thread}/turns/{turn}", response_model=schemas.Turn, responses=fails(404, 409), tags=["turns"])
@takes_long_text
async def edit(name: ThreadName, turn: TurnId, body: requests.TurnChange, client: TheClient) -> Response:
    """Edits a turn. The old text is kept, and later turns stay."""
    thread = await client.find(name)
    edited = await thread.edit(turn, body.text)
    return json_response(bodies.turn(await client.views.turn(thread, edited.id)))


@router.post("/{thread}/truncate", response_model=schemas.ArchivedTurns, responses=fails(404, 409), tags=["turns"])
async def truncate(name: ThreadName, body: requests.TurnReference, client: TheClient) -> Response:
    """Archives that turn and all after it."""
    return json_response({"archived": await (await client.find(name)).truncate(body.turn)})


@router.post(
    "/{thread}/retry", status_code=202, response_model=schemas.Run, responses=fails(404, 409), tags=["turns", "runs"]
)
async def retry(name: ThreadName, body: requests.RetryRequest, shared: TheShared, creation: TheCreation) -> Response:
    """Asks that turn again in a fresh session; the turns after it are archived when the run starts."""
    if earlier := await created_before(creation, partial(accepted, shared.client)):
        return earlier
    thread = await shared.ready_thread(name)
    run = await thread.retry(body.turn, agent=body.agent, model=body.model, new_run_id=creation.id, lasting=True)
    return await accepted(shared.client, run.id)


@router.post("/{thread}/runs", status_code=202, response_model=schemas.Run, responses=fails(404, 409), tags=["runs"])
@takes_long_text
async def ask(name: ThreadName, body: requests.NewRun, shared: TheShared, creation: TheCreation) -> Response:
    """Sends a prompt, which is on disk when this answers. One run of a thread is live at a time; others are queued."""
    if earlier := await created_before(creation, partial(accepted, shared.client)):
        return earlier
    thread = await shared.ready_thread(name)
    run = await thread.ask(
        body.prompt,
        agent=body.agent,
        model=body.model,
        instructions=body.instructions,
        fresh_session=bool(body.force_fresh_session),
        timeout_s=body.timeout_s,
        new_run_id=creation.id,
        lasting=True,
    )
    return await accepted(shared.client, run.id)
