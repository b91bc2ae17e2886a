"""Hooks: forges' messages, authenticated by their signature; and, with the token, sessions, events and settings.

A message is on disk before the forge gets its 202. A worker, in this daemon or in another process, runs the jobs that
are created from it.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from clew.api import hooks as hook
from clew.api.wire import hooks as wire
from clew.core.hooks.hook import Forge
from clew.server.access import TheClient
from clew.server.models.hooks import HookReset
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails
from clew.server.models.problems import RequestRefused
from clew.server.worker import daemon_work

router = APIRouter(tags=["hooks"])

PAYLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "As the forge sends it, with its headers: event, delivery and signature",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": {"payload": {"type": "string"}}, "required": ["payload"]}
            },
        },
    }
}


@router.post(
    "/hooks/{forge}",
    status_code=202,
    response_model=wire.HookReceipt,
    responses=fails(404),
    openapi_extra=PAYLOAD,
    summary="Receive an event from a forge",
)
async def receive(forge: wire.ForgeName, request: Request, client: TheClient) -> Response:
    """Needs no token: the signature identifies the sender. The event is on disk when this answers."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    result = await hook.receive_message(client, Forge(forge), headers, await request.body())
    if result.state == "unsigned":
        raise RequestRefused(
            401,
            "The signature is missing or wrong.",
            hint="The forge and clew serve must have the same secret.",
            headers={"WWW-Authenticate": "Signature"},
        )
    if result.state == "malformed":
        raise RequestRefused(400, f"This is not an event: {result.why}.")
    return json_response(wire.HookReceipt.of(result).to_json(), 202)


async def reset(body: HookReset, client: TheClient) -> Response:
    """Drops the session of that key, if there is one: its next event sends the whole skill to a fresh session."""
    return json_response(wire.HookDropped(await hook.reset(client, body.agent, body.repo, body.number)).to_json())


for path in ("/reset", "/api/hooks/reset"):
    router.post(path, response_model=wire.HookDropped, responses=fails(), summary="Drop a session")(reset)


@router.get("/api/hooks/sessions", response_model=wire.HookSessionList, responses=fails(body=False))
async def sessions(client: TheClient) -> Response:
    """All sessions, by repository, number and agent."""
    return json_response((await hook.sessions(client)).to_json())


@router.get("/api/hooks/events", response_model=wire.HookEventList, responses=fails(body=False))
async def events(
    client: TheClient,
    state: Annotated[wire.EventState | None, Query(description="Only events in this state")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """The newest first. Events are kept for 30 days."""
    found = await client.hooks.events(state=state, limit=limit)
    return json_response(wire.HookEventList(items=[wire.hook_event(each) for each in found]).to_json())


@router.get("/api/hooks/settings", response_model=wire.HookSettings, responses=fails(body=False))
async def settings(client: TheClient) -> Response:
    """The settings in the user's clew.toml. It only says whether secrets and tokens are set, not what they are."""
    return json_response((await hook.settings(client, work=daemon_work(client).max_jobs)).to_json())
