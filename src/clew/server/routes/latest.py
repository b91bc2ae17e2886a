"""What a person would continue in a directory."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.api import sessions
from clew.api.wire import threads
from clew.api.wire.sessions import Latest
from clew.errors import NotFound
from clew.server.access import TheShared
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails
from clew.server.routes.sessions import allowed_sessions

router = APIRouter(prefix="/api/latest", tags=["threads"])


@router.get("", response_model=Latest, responses=fails(body=False))
async def show(
    shared: TheShared, cwd: Annotated[str, Query(max_length=4_096, description="The directory")] = "."
) -> Response:
    """The thread last used in a directory, or else in its repository. If there is none, the newest session of a plain
    CLI there that belongs to no thread: POST /api/sessions/adopt makes a thread of it."""
    client, folder = shared.client, shared.roots.resolved(cwd)
    try:
        thread = threads.thread(await client.views.summary((await client.latest(folder)).record.id))
        return json_response(Latest(thread, None).to_json())
    except NotFound:
        session = await client.newest_session(folder, allowed=allowed_sessions(shared))
    return json_response(Latest(None, None if session is None else sessions.session_shape(session)).to_json())
