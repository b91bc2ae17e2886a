"""Hooks, with the token: what an event would start, a check of the settings, and a sweep."""

from __future__ import annotations

import json

from fastapi import APIRouter
from starlette.responses import Response

from clew.api import hook_check, hooks
from clew.api.wire import hook_preview as wire
from clew.api.wire import operations as operation_wire
from clew.core.hooks.hook import Forge
from clew.server.access import TheClient
from clew.server.models import hook_preview as requests
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails, located
from clew.server.routes.operations import started
from clew.server.security.body_limits import takes_long_text
from clew.server.security.idempotency import TheCreation, created_before

router = APIRouter(prefix="/api/hooks", tags=["hooks"])


@router.post("/preview", response_model=wire.HookPreview, responses=fails(409), summary="Preview an event")
@takes_long_text
async def preview(body: requests.HookPreviewRequest, client: TheClient) -> Response:
    """Which agents the event would start now, where, and with exactly which prompt. Nothing is stored or started.

    A payload of a forge needs `forge` and `event`.
    """
    forge = None if body.forge is None else Forge(body.forge)
    found = hooks.read_event(client, json.dumps(body.payload).encode(), "payload", forge=forge, event=body.event)
    return json_response((await hooks.preview(client, found)).to_json())


@router.get("/check", response_model=wire.HookCheck, responses=fails(body=False), summary="Check the settings")
async def check(client: TheClient) -> Response:
    """What would fail when an event arrives: settings, templates, repositories and agents.

    Of secrets and tokens it says only whether this daemon has them.
    """
    return json_response((await hook_check.check(client)).to_json())


@router.post(
    "/sweep",
    status_code=202,
    response_model=operation_wire.Operation,
    responses={**fails(409), **located(202, "operation")},
    summary="Drop the sessions whose clean-up event was missed",
)
async def sweep(body: requests.HookSweepRequest, client: TheClient, creation: TheCreation) -> Response:
    """An operation; its result is a `HookSweepResult`. The daemon does the same once a day."""

    async def again(operation_id: str) -> Response:
        return started(client.operations.find(operation_id))

    if earlier := await created_before(creation, again):
        return earlier
    return started(hooks.sweep(client, dry_run=bool(body.dry_run), new_id=creation.id))
