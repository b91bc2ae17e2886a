"""Threads and their turns."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from clew.api.client import Client
from clew.api.wire import threads as wire
from clew.api.wire.explanations import Explanation, SessionPreview, explanation, session_preview
from clew.api.wire.runs import Run
from clew.api.wire.turns import ArchivedTurns, CompactedSession, SyncedThread, Turn, synced_thread
from clew.api.wire.turns import turn as turn_shape
from clew.api.wire.work import ThreadWork, thread_work
from clew.core.images import FORMATS
from clew.core.thread import KINDS
from clew.server.access import TheClient, TheShared, ThreadName, TurnId
from clew.server.models import requests
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
    response_model=wire.Thread,
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
    made = wire.thread(await client.views.summary(thread_id))
    return json_response(made.to_json(), 201, {"Location": f"/api/threads/{made.id}"})


@router.get("", response_model=wire.ThreadPage, responses=fails(body=False), tags=["threads"], summary="List threads")
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
    return json_response(wire.thread_page(page).to_json())


@router.get("/{thread}", response_model=wire.Thread, responses=fails(404, body=False), tags=["threads"])
async def show(name: ThreadName, client: TheClient) -> Response:
    return json_response(wire.thread(await client.views.summary(name)).to_json())


@router.patch("/{thread}", response_model=wire.Thread, responses=fails(404, 409), tags=["threads"])
@takes_long_text
async def change(name: ThreadName, body: requests.ThreadChange, shared: TheShared) -> Response:
    """Changes settings of the thread. 409 while a run is live, unless only the name changes."""
    client = shared.client
    thread = await client.find(name)
    given = body.model_dump(exclude_none=True)
    if body.cwd is not None:
        given["cwd"] = shared.roots.resolved(body.cwd)
    await thread.change(**given)
    return json_response(wire.thread(await client.views.summary(thread.record.id)).to_json())


@router.delete("/{thread}", response_model=wire.DeletedThread, responses=fails(404, 409), tags=["threads"])
async def delete(
    name: ThreadName,
    client: TheClient,
    dry_run: Annotated[bool, Query(description="Only report what would be deleted")] = False,
) -> Response:
    """Deletes the thread, after writing it to an archive file."""
    thread = await client.find(name)
    return json_response(wire.deleted_thread(await thread.delete(dry_run=dry_run)).to_json())


@router.get("/{thread}/view", response_model=wire.ThreadView, responses=fails(404, body=False), tags=["threads"])
async def view(
    name: ThreadName,
    client: TheClient,
    before: Annotated[int | None, Query(ge=0, le=MAX_POSITION, description="Only turns before this position")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="How many turns to return at most")] = 100,
) -> Response:
    """Everything that a page needs to show the thread. Turns that were made outside Clew in its sessions are only
    counted."""
    outside = await (await client.find(name)).sync(dry_run=True)
    found = await client.views.thread(name, before=before, limit=limit)
    return json_response(wire.thread_view(found, outside).to_json())


@router.get(
    "/{thread}/images/{digest}",
    response_class=Response,
    responses={
        200: {"description": "The bytes", "content": {kind: {} for kind in FORMATS}},
        **fails(404, body=False),
    },
    tags=["threads"],
)
async def image(
    name: ThreadName,
    digest: Annotated[str, Path(max_length=200, description="The image's digest, as its turn or its run names it")],
    client: TheClient,
) -> Response:
    """An image of one of the thread's prompts."""
    found, content = await client.views.image(await client.find(name), digest)
    return Response(content, media_type=found.media_type)


@router.get("/{thread}/work", response_model=ThreadWork, responses=fails(404, body=False), tags=["threads"])
async def work(name: ThreadName, client: TheClient) -> Response:
    """What the thread's agents did: the tool calls and changed files of each turn; and its sessions, each with the
    command that opens it in the agent's own terminal interface."""
    return json_response(thread_work(await (await client.find(name)).work()).to_json())


@router.get("/{thread}/session", response_model=SessionPreview, responses=fails(404, body=False), tags=["threads"])
async def session(
    name: ThreadName,
    client: TheClient,
    turn: Annotated[str | None, Query(max_length=200, description="The id of a turn that may be changed")] = None,
    prompt: Annotated[str | None, Query(description="The prompt to explain; a long one: POST …/explain")] = None,
    agent: Annotated[str | None, Query(max_length=100, description="For this turn, instead of the thread's")] = None,
    model: Annotated[str | None, Query(max_length=200)] = None,
    fresh: Annotated[bool, Query(description="Explain a fresh session with the whole transcript")] = False,
) -> Response:
    """Says whether the next turn resumes a session, what it would send and cost, and what a change of `turn` would do
    to the session. Runs nothing."""
    thread = await client.find(name)
    told = await thread.explain(prompt or None, agent=agent or None, model=model or None, fresh_session=fresh)
    after = (await thread.preview(turn)).after_change if turn else None
    return json_response(session_preview(told, after).to_json())


@router.post("/{thread}/explain", response_model=Explanation, responses=fails(404), tags=["threads"])
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
        images=requests.contents(body.images),
        expand=bool(body.expand),
        known=body.known or "",
        lasting=True,
    )
    return json_response(explanation(told).to_json())


@router.post("/{thread}/sync", response_model=SyncedThread, responses=fails(404, 409), tags=["threads"])
async def sync(
    name: ThreadName,
    client: TheClient,
    dry_run: Annotated[bool, Query(description="Only report what would come in")] = False,
) -> Response:
    """Brings in the turns that were made outside Clew, in the agent's own CLI. Asking does it by itself. 409 while a
    run is live."""
    return json_response(synced_thread(await (await client.find(name)).sync(dry_run=dry_run)).to_json())


@router.post(
    "/{thread}/fork",
    status_code=201,
    response_model=wire.Thread,
    responses={**fails(404, 409), **located(201, "new thread")},
    tags=["threads"],
)
async def fork(name: ThreadName, body: requests.ForkRequest, client: TheClient) -> Response:
    """Creates a thread with the history up to a round or turn; the old one stays unchanged. For a pair, it forks the
    instructor's thread."""
    thread = await client.find(name)
    forked = await client.fork(thread.record.id, body.name, at_round=body.round, at_turn=body.turn)
    return await _created(client, forked.threads[0].id)


@router.patch("/{thread}/turns/{turn}", response_model=Turn, responses=fails(404, 409), tags=["turns"])
@takes_long_text
async def edit(name: ThreadName, turn: TurnId, body: requests.TurnChange, shared: TheShared) -> Response:
    """Edits a turn. The old text is kept, and later turns stay. `expand` is for a prompt that the user types anew."""
    client = shared.client
    thread = await (shared.ready_thread(name) if body.expand else client.find(name))  # it reads files there
    edited = await thread.edit(turn, body.text, expand=bool(body.expand))
    return json_response(turn_shape(await client.views.turn(thread, edited.id)).to_json())


@router.post("/{thread}/truncate", response_model=ArchivedTurns, responses=fails(404, 409), tags=["turns"])
async def truncate(name: ThreadName, body: requests.TurnReference, client: TheClient) -> Response:
    """Archives that turn and all after it."""
    return json_response(ArchivedTurns(await (await client.find(name)).truncate(body.turn)).to_json())


@router.post("/{thread}/clear", response_model=ArchivedTurns, responses=fails(404, 409), tags=["turns"])
async def clear(name: ThreadName, client: TheClient) -> Response:
    """Archives all turns: the next prompt begins with an empty history."""
    return json_response(ArchivedTurns(await (await client.find(name)).clear()).to_json())


@router.post("/{thread}/compact", response_model=CompactedSession, responses=fails(404, 409), tags=["threads"])
async def compact(name: ThreadName, body: requests.Compaction, shared: TheShared) -> Response:
    """Lets the agent replace what its session holds by a summary, which can take minutes. The turns stay. 409 while a
    run is live."""
    thread = await shared.ready_thread(name)
    return json_response(CompactedSession.of(await thread.compact(body.focus or "")).to_json())


@router.post(
    "/{thread}/start-ahead", response_model=wire.AgentAhead, responses=fails(404, body=False), tags=["threads"]
)
async def start_ahead(name: ThreadName, shared: TheShared) -> Response:
    """Starts the agent that the next turn will need, so that its first words do not wait for the start. Nothing is sent
    to a model. It starts none if the next turn would not resume a session, or if agents are not kept."""
    thread = await shared.ready_thread(name)
    return json_response(wire.AgentAhead(await thread.start_ahead()).to_json())


@router.post("/{thread}/retry", status_code=202, response_model=Run, responses=fails(404, 409), tags=["turns", "runs"])
async def retry(name: ThreadName, body: requests.RetryRequest, shared: TheShared, creation: TheCreation) -> Response:
    """Asks that turn again; the turns after it are archived when the run starts. The session is rewound to before the
    turn. After a failed run, or if it cannot be rewound, it is a fresh one."""
    if earlier := await created_before(creation, partial(accepted, shared.client)):
        return earlier
    thread = await shared.ready_thread(name)
    run = await thread.retry(
        body.turn,
        agent=body.agent,
        model=body.model,
        fresh_session=bool(body.force_fresh_session),
        new_run_id=creation.id,
        lasting=True,
    )
    return await accepted(shared.client, run.id)


@router.post("/{thread}/runs", status_code=202, response_model=Run, responses=fails(404, 409), tags=["runs"])
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
        images=requests.contents(body.images),
        new_run_id=creation.id,
        lasting=True,
        expand=bool(body.expand),
        known=body.known or "",
    )
    return await accepted(shared.client, run.id)
