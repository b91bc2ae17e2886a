"""Threads that are made from others: replay and merge them, and compare two. `threads.py` has the fork.

A thread whose directory is outside the allowed roots is not replayed, merged or compared.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.api import branching, pairs
from clew.api.wire import branching as wire
from clew.core.thread import Permissions
from clew.errors import NotFound, UsageError
from clew.server.access import SharedState, TheShared, ThreadName
from clew.server.models.branching import MergeRequest, ReplayRequest
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails, located
from clew.server.routes.operations import started

router = APIRouter(prefix="/api", tags=["branching"])

NameOrId = Annotated[str, Query(min_length=1, max_length=200, description="A thread's id or name, or a pair's")]


@router.post(
    "/threads/{thread}/replay",
    status_code=202,
    response_model=wire.ReplayOperation,
    responses={**fails(404, 409), **located(202, "operation")},
)
async def replay(name: ThreadName, body: ReplayRequest, shared: TheShared) -> Response:
    """Asks another model the prompts of the thread, one after the other, in a new thread. The old one stays unchanged.

    The operation's result is a Replay with both answers of each round, also if it fails or is cancelled. Its events
    have `data.run_id`, the run that answers. A cancel keeps what was answered; the same request with `name` continues.
    """
    if body.with_model is None and body.with_agent is None:
        raise UsageError("No model and no agent was given.", hint="Give with_model, with_agent, or both.")
    client = shared.client
    client.operations.check_capacity()
    if await pairs.is_pair(client, name):
        raise UsageError(f"{name} is a pair.", hint=f"POST /api/pairs/{name}/replay replays it.")
    await _check_roots(shared, name)
    options = branching.ReplayOptions(
        model=body.with_model,
        agent=body.with_agent,
        rounds=body.rounds,
        cwd=None if body.cwd is None else shared.roots.resolved(body.cwd),
        permissions=None if body.permissions is None else Permissions(body.permissions),
        name=body.name,
        timeout_s=body.timeout_s,
    )
    if body.name is not None and body.cwd is None:
        await _check_continued(shared, body.name)
    return started(branching.start_replay(client, await branching.prepare_replay(client, name, options)))


async def _check_roots(shared: SharedState, name: str) -> None:
    """Raises NotFound, and RequestRefused for a thread or a pair outside the roots."""
    for thread in await shared.client.together(name):
        shared.roots.check(thread.record.cwd)


async def _check_continued(shared: SharedState, name: str) -> None:
    """A replay that is continued runs in the directory that its thread has."""
    try:
        found = await shared.client.find(name)
    except NotFound:
        return
    shared.roots.check(found.record.cwd)


@router.get("/compare", response_model=wire.Comparison | wire.PairComparison, responses=fails(404, body=False))
async def compare(
    shared: TheShared,
    a: NameOrId,
    b: NameOrId,
    context: Annotated[int, Query(ge=0, le=1_000_000, description="Equal lines around a difference in a file")] = 3,
) -> Response:
    """Compares two threads turn by turn, and the files that their agents wrote to; two pairs part by part."""
    for name in (a, b):
        await _check_roots(shared, name)
    found = await branching.compare(shared.client, a, b)
    shape = await asyncio.to_thread(branching.comparison_shape, found, context)  # diffs take long
    return json_response(shape.to_json())


@router.post(
    "/merge",
    status_code=201,
    response_model=wire.Merge | wire.PairMerge,
    responses={**fails(404, 409), **located(201, "new thread")},
)
async def merge(body: MergeRequest, shared: TheShared) -> Response:
    """Creates a thread with the turns of two others, or a pair with the rounds of two others. They stay unchanged."""
    for name in (body.a, body.b):
        await _check_roots(shared, name)
    options = branching.MergeOptions(
        name=body.name,
        agent=body.agent,
        model=body.model,
        cwd=None if body.cwd is None else shared.roots.resolved(body.cwd),
    )
    client = shared.client
    if await pairs.is_pair(client, body.a) and await pairs.is_pair(client, body.b):
        joined = pairs.merge_shape(await pairs.merge(client, body.a, body.b, options))
        return json_response(joined.to_json(), 201, {"Location": f"/api/pairs/{joined.id}"})
    made = branching.merge_shape(await branching.merge(client, body.a, body.b, options))
    return json_response(made.to_json(), 201, {"Location": f"/api/threads/{made.id}"})
