"""The agents' own sessions on this machine: list them, and adopt them as threads.

With allowed roots, only sessions whose directory is below one of them exist for these calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.api import sessions
from clew.api.wire import sessions as wire
from clew.server.access import SharedState, TheShared
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails, located
from clew.server.models.sessions import AdoptRequest
from clew.server.routes.operations import started

router = APIRouter(prefix="/api/sessions", tags=["sessions"])


@router.get("", response_model=wire.AgentSessionList, responses=fails(body=False))
async def list_(
    shared: TheShared,
    agent: Annotated[str, Query(max_length=100, description="Only sessions of this agent")] = "",
    project: Annotated[
        str, Query(max_length=4_096, description="Only sessions of this directory and of those below it")
    ] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = sessions.SHOWN,
) -> Response:
    """The last used first. Reads only the beginnings of the session files."""
    found, has_more = await sessions.newest(
        shared.client,
        agent=agent or None,
        project=shared.roots.resolved(project) if project else None,
        limit=limit,
        allowed=allowed_sessions(shared),
    )
    items = [sessions.session_shape(each) for each in found]
    return json_response(wire.AgentSessionList(items=items, more=has_more).to_json())


@router.post(
    "/adopt",
    status_code=202,
    response_model=wire.AdoptOperation,
    responses={**fails(404, 409), **located(202, "operation")},
)
async def adopt(body: AdoptRequest, shared: TheShared) -> Response:
    """Turns sessions into threads: their history becomes turns, and the next turn resumes them.

    The operation's result is an Adoption. 404 if none of the ids names a session.
    """
    selection = sessions.SessionSelection(
        ids=tuple(body.ids or ()),
        everything=bool(body.all),
        agent=body.agent,
        project=None if body.project is None else shared.roots.resolved(body.project),
    )
    chosen = await sessions.choose(shared.client, selection, allowed=allowed_sessions(shared))
    if chosen.failed and not chosen.sessions:
        raise chosen.failed[0]
    return started(sessions.adopt(shared.client, chosen, dry_run=bool(body.dry_run)))


def allowed_sessions(shared: SharedState) -> Callable[[str], bool]:
    """Some sessions name no directory: with roots, they are not allowed."""
    roots = shared.roots
    return lambda folder: not roots.paths or (bool(folder) and roots.allow(folder))
