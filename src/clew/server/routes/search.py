"""The search for turns by their words, in all threads."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.api.wire import search as wire
from clew.core.thread import KINDS
from clew.errors import UsageError
from clew.server.access import TheClient
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails

router = APIRouter(prefix="/api/search", tags=["threads"])


@router.get("", response_model=wire.FoundTexts, responses=fails(body=False), summary="Search turns")
async def search(
    client: TheClient,
    q: Annotated[
        str,
        Query(max_length=1_000, description='Words of the turn; `"…"`: side by side; `word*`: its beginning'),
    ],
    kind: Annotated[
        Literal[*KINDS, "all"],  # type: ignore[valid-type]
        Query(description="Only threads of this kind"),
    ] = "all",
    project: Annotated[str, Query(max_length=4_096, description="Only threads of this directory, or below it")] = "",
    agent: Annotated[str, Query(max_length=100, description="Only threads of this agent")] = "",
    archived: Annotated[bool, Query(description="Also turns that were truncated or asked again")] = False,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 20,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
) -> Response:
    """The newest turns first. All words must occur in the turn, in any order and any case."""
    if not q.strip():
        raise UsageError("There are no words to search for.")
    if "\0" in project:
        raise UsageError("A path cannot contain a NUL character.")
    found = await client.views.search(
        q,
        kind=None if kind == "all" else kind,
        project=os.path.realpath(project) if project else None,
        agent=agent or None,
        archived=archived,
        limit=limit + 1,
        offset=offset,
    )
    items = [wire.found_text(hit) for hit in found[:limit]]
    return json_response(wire.FoundTexts(items=items, more=len(found) > limit).to_json())
