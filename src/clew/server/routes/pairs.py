"""Pairs of an instructor and a worker: start, list, show, follow, stop, resume, rename, fork and clean them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response, StreamingResponse

from clew.api import pairs
from clew.api.client import Client
from clew.api.wire import pairs as wire
from clew.core.thread import Permissions
from clew.errors import Conflict, NotFound, UsageError
from clew.server.access import SharedState, TheClient, TheShared
from clew.server.live.event_encoding import Parts
from clew.server.models import pairs as requests
from clew.server.models.json_body import json_response, json_text
from clew.server.models.openapi import fails, located, returns
from clew.server.routes.events import EVENT_STREAM, EventStream
from clew.server.routes.operations import started
from clew.server.security.body_limits import takes_long_text

router = APIRouter(prefix="/api/pairs", tags=["pairs"])

PairName = Annotated[str, Path(alias="pair", max_length=200, description="A pair's id or name")]
CURSOR = r"^\d{1,18}(\.\d{1,18}){3}$"


@router.post(
    "",
    status_code=201,
    response_model=wire.Pair,
    responses={**fails(409), **located(201, "pair")},
    summary="Start a pair",
)
@takes_long_text
async def start(new: requests.NewPair, shared: TheShared) -> Response:
    """The pair is on disk and running when this answers. It runs in the daemon; if that ends, the pair can be
    resumed."""
    given = new.model_dump(exclude_none=True, exclude={"task", "cwd", "expand"})
    cwd, task = shared.roots.resolved(new.cwd), new.task
    if new.expand:
        task = await _expanded(shared, task, cwd, new)
    options = pairs.PairOptions(text=task, cwd=cwd, **given)
    live = await pairs.start(shared.client, options)
    live.detach()
    return await _pair(shared.client, live.pair.id, 201, {"Location": f"/api/pairs/{live.pair.id}"})


@router.get("", response_model=wire.PairList, responses=fails(body=False))
async def list_(
    shared: TheShared,
    cwd: Annotated[str, Query(max_length=4_096, description="Only pairs of this directory")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """The last used first."""
    client = shared.client
    version = await client.views.version()  # read first: the page is notified about what changes after it
    found = await pairs.list_pairs(client, cwd=shared.roots.resolved(cwd) if cwd else None, limit=limit)
    items = [pairs.pair_note(state) for state in found]
    return json_response(wire.PairList(items=items, version=version).to_json())


@router.get("/{pair}", response_model=wire.Pair, responses=fails(404, body=False))
async def show(name: PairName, client: TheClient) -> Response:
    return await _pair(client, name)


@router.post("/{pair}/stop", status_code=202, response_model=wire.Pair, responses=fails(404, 409))
async def stop(name: PairName, client: TheClient) -> Response:
    """Asks the process that runs the pair, whichever it is, to stop: what was said is kept, and the pair can be
    resumed. 409 if no process runs it."""
    state = await pairs.show(client, name)
    if not await pairs.stop(client, state.pair.id):
        raise Conflict(f"The pair {state.pair.name} is not running.")
    return await _pair(client, state.pair.id, 202)


@router.post(
    "/{pair}/resume",
    status_code=202,
    response_model=wire.ResumedPair,
    responses={**fails(404, 409), **located(202, "pair")},
)
@takes_long_text
async def resume(name: PairName, body: requests.PairResume, shared: TheShared) -> Response:
    """Continues the pair where it stopped. 409 while a process runs it."""
    client = shared.client
    state = await _ready_pair(shared, name)
    given = body.model_dump(exclude_none=True, exclude={"message", "cwd", "fork_at_round", "expand"})
    cwd, message = None if body.cwd is None else shared.roots.resolved(body.cwd), body.message or ""
    if body.expand and message.strip():
        message = await _expanded(shared, message, cwd or state.pair.cwd, body, state.permissions)
    options = pairs.PairOptions(text=message, cwd=cwd, **given)
    which = pairs.PairSelection(session=state.pair.id, fork_at=body.fork_at_round)
    live, warnings = await pairs.resume(client, which, options)
    live.detach()
    shown = pairs.pair_shape(await pairs.show(client, live.pair.id))
    headers = {"Location": f"/api/pairs/{live.pair.id}"}
    return json_response(wire.ResumedPair.of(shown, warnings=list(warnings)).to_json(), 202, headers)


@router.post("/{pair}/rename", response_model=wire.Pair, responses=fails(404, 409))
async def rename(name: PairName, body: requests.PairRename, shared: TheShared) -> Response:
    """Renames the pair, its two threads and its state file. 409 while it runs, or when the name is taken."""
    pair_id = (await _ready_pair(shared, name)).pair.id
    await pairs.rename(shared.client, pair_id, body.name)
    return await _pair(shared.client, pair_id)


@router.post(
    "/{pair}/fork",
    status_code=201,
    response_model=wire.Pair,
    responses={**fails(404, 409), **located(201, "new pair")},
)
async def fork(name: PairName, body: requests.PairFork, shared: TheShared) -> Response:
    """Creates a pair with everything up to a round; the old one stays unchanged. The new one runs when it is
    resumed."""
    client = shared.client
    old = (await _ready_pair(shared, name)).pair
    made = await pairs.fork(client, old.id, body.name, at_round=body.round)
    state = await pairs.show(client, made.pair or old.id)
    return await _pair(client, state.pair.id, 201, {"Location": f"/api/pairs/{state.pair.id}"})


@router.post(
    "/{pair}/replay",
    status_code=202,
    response_model=wire.PairReplayOperation,
    responses={**fails(404, 409), **located(202, "operation")},
)
async def replay(name: PairName, body: requests.PairReplayRequest, shared: TheShared) -> Response:
    """Gives the task and the user's messages to a new pair with other models. The old pair stays unchanged.

    A cancel keeps what was said; the same request with `name` continues.
    """
    models = (body.with_model, body.with_instructor_model, body.with_worker_model, body.with_agent)
    if not any(models):
        raise UsageError("No model and no agent was given.", hint="Give with_model, with_agent, or a part's model.")
    old = (await _ready_pair(shared, name)).pair
    options = pairs.PairReplayOptions(
        model=body.with_model,
        instructor_model=body.with_instructor_model,
        worker_model=body.with_worker_model,
        agent=body.with_agent,
        rounds=body.rounds,
        cwd=None if body.cwd is None else shared.roots.resolved(body.cwd),
        permissions=None if body.permissions is None else Permissions(body.permissions),
        name=body.name,
    )
    if body.name is not None:
        await _check_continued(shared, body.name)
    return started(await pairs.start_replay(shared.client, old.id, options))


async def _check_continued(shared: SharedState, name: str) -> None:
    """A replay that is continued runs in the directory that its pair has."""
    with suppress(NotFound):
        await _ready_pair(shared, name)


@router.delete("", response_model=wire.CleanedPairs, responses=fails(404, body=False), summary="Remove old pairs")
async def clean(
    shared: TheShared,
    cwd: Annotated[str, Query(min_length=1, max_length=4_096, description="Only pairs of this directory")],
    older_than_s: Annotated[
        float, Query(ge=0, le=1e10, allow_inf_nan=False, description="Only pairs that were not used for this time")
    ],
    dry_run: Annotated[bool, Query(description="Only report what would be removed")] = False,
) -> Response:
    """Removes pairs that were not used for some time; both threads of each are archived first."""
    done = await pairs.clean(shared.client, shared.roots.resolved(cwd), older_than_s, dry_run=dry_run)
    return json_response(wire.CleanedPairs(items=[pairs.cleaned_shape(each) for each in done]).to_json())


@router.get(
    "/{pair}/events",
    response_class=StreamingResponse,
    responses={
        **fails(404, body=False),
        **returns("`id: CURSOR`, `event: TYPE`, `data: the event`", EVENT_STREAM),
    },
)
async def events(
    name: PairName,
    shared: TheShared,
    after: Annotated[str | None, Query(pattern=CURSOR, description="Only events after this one")] = None,
    last_event_id: Annotated[
        str | None, Header(pattern=CURSOR, description="The same, as browsers send it when they reconnect")
    ] = None,
) -> StreamingResponse:
    """The events of both parts in all rounds, as `clew pair --json` prints them, each with its `cursor`. The stream
    ends when no process runs the pair."""
    pair_id = (await pairs.show(shared.client, name)).pair.id
    shared.check_capacity()
    place = last_event_id or after
    cursor = pairs.BEGINNING if place is None else pairs.PairCursor.parse(place)
    return EventStream(shared, _sse(shared.client, pair_id, cursor))


async def _sse(client: Client, pair_id: str, after: pairs.PairCursor) -> AsyncGenerator[Parts, None]:
    async with aclosing(pairs.follow(client, pair_id, after)) as followed:
        async for each in followed:
            body = pairs.followed_json(each)
            yield (f"id: {each.cursor}\nevent: {body['type']}\ndata: {json_text(body)}\n\n".encode(),)


async def _expanded(shared: SharedState, text: str, cwd: str, given: requests.PairSettings, own: str = "edits") -> str:
    """What the user typed for the instructor. `own` are the pair's permissions so far."""
    permissions = given.permissions or own
    return await shared.client.expand(text, cwd=cwd, agent=given.agent, permissions=permissions, trust="user")


async def _ready_pair(shared: SharedState, name: str) -> pairs.PairState:
    """The pair. Raises NotFound, and RequestRefused if it, or one of its threads, is outside of the roots."""
    state = await pairs.show(shared.client, name)
    shared.roots.check(state.pair.cwd)
    for thread_id in (state.pair.instructor_thread_id, state.pair.worker_thread_id):
        await shared.ready_thread(thread_id)
    return state


async def _pair(client: Client, name: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_response(pairs.pair_shape(await pairs.show(client, name)).to_json(), status, headers)
