"""Remotes: push threads to an object store or a folder, pull them from there, and list what is there."""

from __future__ import annotations

from contextlib import suppress

from fastapi import APIRouter
from starlette.responses import Response

from clew.api import remotes
from clew.api.wire import transfer as wire
from clew.errors import NotFound
from clew.server.access import SharedState, TheShared
from clew.server.models import transfer as requests
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails, located
from clew.server.routes.operations import started
from clew.server.security.idempotency import TheCreation, created_before

router = APIRouter(prefix="/api/remotes", tags=["transfer"])


@router.post("/list", response_model=wire.RemoteThreads, responses=fails(409))
async def list_(body: requests.RemoteRequest, shared: TheShared) -> Response:
    """The threads at a remote. A POST, because the request may contain a passphrase."""
    options = remotes.RemoteOptions(url=body.url, passphrase=body.passphrase, identity=body.identity)
    _check_place(shared, options)
    return json_response((await remotes.threads(shared.client, options)).to_shape().to_json())


@router.post(
    "/push",
    status_code=202,
    response_model=wire.PushOperation,
    responses={**fails(409), **located(202, "operation")},
)
async def push(body: requests.PushRequest, shared: TheShared, creation: TheCreation) -> Response:
    """Pushes threads. A thread that has changed on both sides is a conflict: nothing is overwritten."""
    if earlier := await created_before(creation, lambda made: _started(shared, made)):
        return earlier
    options = remotes.PushOptions(
        url=body.url,
        passphrase=body.passphrase,
        identity=body.identity,
        threads=tuple(body.threads or ()),
        everything=bool(body.all),
        recipients=tuple(body.recipients or ()),
        with_secrets=bool(body.with_secrets),
        dry_run=bool(body.dry_run),
        may_use=shared.roots.may_run if shared.roots.paths else None,
    )
    _check_place(shared, options)
    await _check_threads(shared, options.threads)
    return started(remotes.push(shared.client, options, new_id=creation.id))


@router.post(
    "/pull",
    status_code=202,
    response_model=wire.PullOperation,
    responses={**fails(409), **located(202, "operation")},
)
async def pull(body: requests.PullRequest, shared: TheShared, creation: TheCreation) -> Response:
    """Pulls threads. Those that are not here yet get `cwd`; with the setting `remote.signers`, each must be signed."""
    if earlier := await created_before(creation, lambda made: _started(shared, made)):
        return earlier
    options = remotes.PullOptions(
        url=body.url,
        passphrase=body.passphrase,
        identity=body.identity,
        threads=tuple(body.threads or ()),
        everything=bool(body.all),
        cwd=shared.roots.resolved(body.cwd),
        name=body.name,
        dry_run=bool(body.dry_run),
        may_use=shared.roots.may_run if shared.roots.paths else None,
    )
    _check_place(shared, options)
    if options.name is None:
        await _check_threads(shared, options.threads)
    return started(remotes.pull(shared.client, options, new_id=creation.id))


async def _started(shared: SharedState, operation_id: str) -> Response:
    return started(shared.client.operations.find(operation_id))


def _check_place(shared: SharedState, options: remotes.RemoteOptions) -> None:
    """Raises RequestRefused for a folder of this machine outside the roots."""
    folder = remotes.local_folder(remotes.address(shared.client, options))
    if folder is not None:
        shared.roots.check(folder)


async def _check_threads(shared: SharedState, names: tuple[str, ...]) -> None:
    """Raises RequestRefused for a thread outside the roots. The operation reports an unknown name."""
    if shared.roots.paths:
        for name in names:
            with suppress(NotFound):
                await shared.ready_group(name)
