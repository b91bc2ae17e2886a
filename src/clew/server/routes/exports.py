"""Exports and imports: a thread as a file."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from clew.api import exports
from clew.api.wire import transfer as wire
from clew.server.access import SharedState, TheShared, ThreadName
from clew.server.models import transfer as requests
from clew.server.models.openapi import fails, located
from clew.server.routes.operations import started
from clew.server.security.body_limits import takes_upload
from clew.server.security.idempotency import TheCreation, created_before

router = APIRouter(prefix="/api", tags=["transfer"])


@router.post(
    "/threads/{thread}/export",
    status_code=202,
    response_model=wire.ExportOperation,
    responses={**fails(404, 409), **located(202, "operation")},
)
async def export(
    name: ThreadName, shared: TheShared, creation: TheCreation, body: requests.ExportRequest | None = None
) -> Response:
    """Exports a thread, or both threads of a pair. When the operation is done, its `file` can be downloaded."""
    if earlier := await created_before(creation, lambda made: _started(shared, made)):
        return earlier
    await shared.ready_group(name)
    given = body or requests.ExportRequest.model_validate({})
    options = exports.ExportOptions(
        redact=bool(given.redact),
        with_secrets=bool(given.with_secrets),
        passphrase=given.passphrase,
        recipients=tuple(given.recipients or ()),
    )
    return started(exports.export(shared.client, name, options, new_id=creation.id))


async def _started(shared: SharedState, operation_id: str) -> Response:
    return started(shared.client.operations.find(operation_id))


@router.post(
    "/imports",
    status_code=202,
    response_model=wire.ImportOperation,
    responses={**fails(409), **located(202, "operation")},
    openapi_extra=requests.upload_schema(),
)
@takes_upload
async def import_(request: Request, shared: TheShared) -> Response:
    """Imports an exported file, which is sent as a form. Permissions are no wider than those of a new thread, and with
    the setting `remote.signers` the file must be signed by one of them."""
    upload = await requests.read_upload(request)
    given = upload.fields
    options = exports.ImportOptions(
        cwd=shared.roots.resolved(given.cwd),
        name=given.name,
        passphrase=given.passphrase,
        identity=given.identity,
        signature=None if given.signature is None else given.signature.encode(),
        dry_run=given.dry_run == "true",
        file=upload.name,
    )
    return started(exports.import_file(shared.client, upload.file, options))
