"""Threads and their turns."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.client import Client, Thread
from clew.server import bodies, requests, schemas
from clew.server.access import Shared, TheClient, TheShared, ThreadName, TurnId
from clew.server.documents import fails
from clew.server.idempotency import TheMade, found
from clew.server.json_body import answer
from clew.server.runs import accepted

router = APIRouter(prefix="/api/threads")

MAX_POSITION = 2**53


@router.post(
    "",
    status_code=201,
    response_model=schemas.Thread,
    responses={
        **fails(409),
        201: {"headers": {"Location": {"schema": {"type": "string"}, "description": "The thread's address"}}},
    },
    tags=["threads"],
    summary="A new thread",
)
async def create(new: requests.NewThread, shared: TheShared, made: TheMade) -> Response:
    client = shared.client
    if before := await found(made, lambda thread_id: _created(client, thread_id)):
        return before
    thread = await client.new_thread(
        new.name,
        cwd=shared.roots.resolved(new.cwd),
        agent=new.agent,
        model=new.model,
        permissions=new.permissions,
        trust=new.trust,
        visibility=new.visibility,
        instructions=new.instructions,
        prompt=new.prompt or "",
        thread_id=made.id,
    )
    return await _created(client, thread.record.id)


async def _created(client: Client, thread_id: str) -> Response:
    body = bodies.thread(await client.card(thread_id))
    return answer(body, 201, {"Location": f"/api/threads/{body['id']}"})


@router.get("", response_model=schemas.ThreadPage, responses=fails(body=False), tags=["threads"], summary="All threads")
async def list_(
    client: TheClient,
    q: Annotated[str, Query(max_length=1_000, description="Looked for in names, directories and what was said")] = "",
    cwd: Annotated[str, Query(max_length=4_096, description="Only those of this directory")] = "",
    kind: Annotated[
        Literal["chat", "job", "review", "hook", "pair", "all"],
        Query(description="Conversations, those of jobs, of reviews, of hooks, or all"),
    ] = "chat",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    of_kind = None if kind == "all" else kind
    page = await client.cards(q=q or None, cwd=cwd or None, kind=of_kind, limit=limit, offset=offset)
    items = [bodies.thread(card) for card in page.items]
    return answer({"items": items, "total": page.total, "version": page.version})


@router.get("/{thread}", response_model=schemas.Thread, responses=fails(404, body=False), tags=["threads"])
async def show(name: ThreadName, client: TheClient) -> Response:
    return answer(bodies.thread(await client.card(name)))


@router.patch("/{thread}", response_model=schemas.Thread, responses=fails(404, 409), tags=["threads"])
async def change(name: ThreadName, wanted: requests.ThreadChange, shared: TheShared) -> Response:
    """409 while a run is going on, but for the name."""
    client = shared.client
    thread = await client.find(name)
    await thread.change(
        name=wanted.name,
        cwd=None if wanted.cwd is None else shared.roots.resolved(wanted.cwd),
        agent=wanted.agent,
        model=wanted.model,
        permissions=wanted.permissions,
        trust=wanted.trust,
        visibility=wanted.visibility,
        instructions=wanted.instructions,
    )
    return answer(bodies.thread(await client.card(thread.record.id)))


@router.delete("/{thread}", response_model=schemas.Deleted, responses=fails(404, 409), tags=["threads"])
async def delete(
    name: ThreadName,
    client: TheClient,
    dry_run: Annotated[bool, Query(description="Only say what would be deleted")] = False,
) -> Response:
    """Written to an archive file first."""
    thread = await client.find(name)
    gone = await thread.delete(dry_run=dry_run)
    archive = None if gone.archive is None else str(gone.archive)
    return answer(
        {
            "name": gone.name,
            "others": list(gone.others),
            "turns": gone.turns - gone.archived_turns,
            "archived_turns": gone.archived_turns,
            "archive": archive,
        }
    )


@router.get("/{thread}/view", response_model=schemas.View, responses=fails(404, body=False), tags=["threads"])
async def view(
    name: ThreadName,
    client: TheClient,
    before: Annotated[int | None, Query(ge=0, le=MAX_POSITION, description="Only turns before this position")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="At most so many turns")] = 100,
) -> Response:
    """All that a page needs to show the thread, in one moment's state."""
    return answer(bodies.view(await client.view(name, before=before, limit=limit)))


@router.get("/{thread}/session", response_model=schemas.Session, responses=fails(404, body=False), tags=["threads"])
async def session(
    name: ThreadName,
    client: TheClient,
    turn: Annotated[str | None, Query(max_length=200, description="A turn that may be changed")] = None,
) -> Response:
    """Does the next turn resume, and what would a change of that turn do to it?"""
    found = await (await client.find(name)).outlook(turn or None)
    said = found.after_change
    return answer(
        {
            "resumes": found.resumes,
            "reason": found.reason,
            "words": found.words,
            "after_change": None if said is None else {key: said.get(key) for key in ("edit", "truncate", "retry")},
        }
    )


@router.post(
    "/{thread}/fork",
    status_code=201,
    response_model=schemas.Thread,
    responses={
        **fails(404, 409),
        201: {"headers": {"Location": {"schema": {"type": "string"}, "description": "The new thread's address"}}},
    },
    tags=["threads"],
)
async def fork(name: ThreadName, wanted: requests.ForkAsked, client: TheClient) -> Response:
    """A new thread with the history up to there; the old one stays as it is. Of a pair, its instructor's."""
    thread = await client.find(name)
    forked = await client.fork(thread.record.id, wanted.name, at_round=wanted.round, at_turn=wanted.turn)
    return await _created(client, forked.threads[0].id)


@router.patch("/{thread}/turns/{turn}", response_model=schemas.Turn, responses=fails(404, 409), tags=["turns"])
async def edit(name: ThreadName, turn: TurnId, wanted: requests.TurnChange, client: TheClient) -> Response:
    """The old text is kept, later turns stay."""
    thread = await client.find(name)
    edited = await thread.edit(turn, wanted.text)
    return answer(bodies.turn(await client.turn_card(thread, edited.id)))


@router.post("/{thread}/truncate", response_model=schemas.Archived, responses=fails(404, 409), tags=["turns"])
async def truncate(name: ThreadName, wanted: requests.TurnNamed, client: TheClient) -> Response:
    """That turn and all after it are archived."""
    return answer({"archived": await (await client.find(name)).truncate(wanted.turn)})


@router.post(
    "/{thread}/retry", status_code=202, response_model=schemas.Run, responses=fails(404, 409), tags=["turns", "runs"]
)
async def retry(name: ThreadName, wanted: requests.RetryAsked, shared: TheShared, made: TheMade) -> Response:
    """Asks that turn again in a fresh session; what follows it is archived when the run starts."""
    if before := await found(made, partial(accepted, shared.client)):
        return before
    thread = await _ready(shared, name)
    run = await thread.retry(wanted.turn, agent=wanted.agent, model=wanted.model, new_run_id=made.id, lasting=True)
    return await accepted(shared.client, run.id)


@router.post("/{thread}/runs", status_code=202, response_model=schemas.Run, responses=fails(404, 409), tags=["runs"])
async def ask(name: ThreadName, wanted: requests.NewRun, shared: TheShared, made: TheMade) -> Response:
    """The prompt is on disk when this answers. One run a thread at a time: a later one is queued."""
    if before := await found(made, partial(accepted, shared.client)):
        return before
    thread = await _ready(shared, name)
    run = await thread.ask(
        wanted.prompt,
        agent=wanted.agent,
        model=wanted.model,
        instructions=wanted.instructions,
        fresh_session=bool(wanted.force_fresh_session),
        timeout_s=wanted.timeout_s,
        new_run_id=made.id,
        lasting=True,
    )
    return await accepted(shared.client, run.id)


async def _ready(shared: Shared, name: str) -> Thread:
    """The thread, if an agent may be started in its directory."""
    thread = await shared.client.find(name)
    shared.roots.check(thread.record.cwd)
    return thread
