"""Archives: archive threads, list the archives, restore them, and clean up."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from clew.api import archives
from clew.api.wire import transfer as wire
from clew.errors import NotFound
from clew.server.access import TheClient, TheShared
from clew.server.models import transfer as requests
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails, located
from clew.server.routes.operations import started

router = APIRouter(prefix="/api/archives", tags=["transfer"])

Archive = Annotated[
    str,
    Path(alias="archive", max_length=300, description="The name of an archive's file, or a thread's name: its newest"),
]


@router.get("", response_model=wire.ArchiveList, responses=fails(body=False))
async def list_(client: TheClient) -> Response:
    """The newest first."""
    files = await client.archives.files()
    return json_response(wire.ArchiveList(items=[archives.file_shape(file) for file in files]).to_json())


@router.post("", status_code=201, response_model=wire.ArchivedThread, responses=fails(404, 409))
async def archive(body: requests.ArchiveRequest, shared: TheShared) -> Response:
    """Writes a thread, or both threads of a pair, to a file and deletes it from the store. 409 while it is in use."""
    [first, *_] = await shared.ready_group(body.thread)
    done = await shared.client.archives.archive(first.record.id)
    return json_response(archives.archived_shape(done).to_json(), 201)


@router.post(
    "/{archive}/restore",
    status_code=202,
    response_model=wire.RestoreOperation,
    responses={**fails(404, 409), **located(202, "operation")},
)
async def restore(name: Archive, shared: TheShared) -> Response:
    """Restores an archive of this store. The archive is kept."""
    found = await shared.client.archives.named(name)
    if found is None:
        raise NotFound(f"There is no archive of {name!r}.", hint="GET /api/archives lists them.")
    if shared.roots.paths:
        for thread in await shared.client.archives.threads_in(found.path):
            shared.roots.check(thread.cwd)
    return started(archives.restore(shared.client, str(found.path)))


@router.post(
    "/clean",
    status_code=202,
    response_model=wire.CleanOperation,
    responses={**fails(409), **located(202, "operation")},
)
async def clean(shared: TheShared, body: requests.CleanRequest | None = None) -> Response:
    """Archives threads that were not used for a long time, and removes old archives if the settings say so. Threads in
    use stay, and so do those outside the roots, and their archives."""
    given = body or requests.CleanRequest.model_validate({})
    options = archives.CleanOptions(
        older_than_s=given.older_than_s,
        kind=given.kind,
        dry_run=bool(given.dry_run),
        may_use=shared.roots.may_run if shared.roots.paths else None,
    )
    return started(archives.clean(shared.client, options))
