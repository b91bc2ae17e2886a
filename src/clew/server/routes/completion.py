"""What can be typed after `/` and `@` in a prompt."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew.api.wire.completion import Command, CommandList, FileList
from clew.server.access import TheShared
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails

router = APIRouter(prefix="/api", tags=["completion"])

Cwd = Annotated[str, Query(min_length=1, max_length=4_096, description="The work directory, absolute or from ~")]


@router.get("/commands", response_model=CommandList, responses=fails(body=False))
async def commands(
    shared: TheShared,
    cwd: Cwd,
    agent: Annotated[str | None, Query(max_length=100, description="Whose come first if two have one name")] = None,
) -> Response:
    """The slash commands and skills that a prompt in that directory can begin with."""
    found = await shared.client.commands(shared.roots.resolved(cwd), agent=agent)
    return json_response(CommandList([Command.of(each) for each in found]).to_json())


@router.get("/files", response_model=FileList, responses=fails(body=False))
async def files(
    shared: TheShared,
    cwd: Cwd,
    prefix: Annotated[str, Query(max_length=4_096, description="How the paths begin, or a name further down")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """Paths in that directory that can be mentioned with @."""
    found = await shared.client.files(shared.roots.resolved(cwd), prefix, limit=limit)
    return json_response(FileList(list(found)).to_json())
