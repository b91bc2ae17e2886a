"""Hooks: what forges send, by its signature alone; and, for whoever has the token, sessions, events and settings.

A message is on disk before the forge hears 202. What it sets going goes on in a worker, this daemon's or another.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from clew import hook
from clew.core.hook import Forge
from clew.server import hook_shapes as shapes
from clew.server.access import TheClient
from clew.server.documents import fails
from clew.server.json_body import answer, stamp
from clew.server.problems import Refusal
from clew.server.worker import work_of

router = APIRouter(tags=["hooks"])

PAYLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "As the forge words it, with its headers: event, delivery and signature",
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
    response_model=shapes.HookTold,
    responses=fails(404),
    openapi_extra=PAYLOAD,
    summary="A forge tells of something",
)
async def told(forge: shapes.ForgeName, request: Request, client: TheClient) -> Response:
    """Needs no token: the signature says who it is. The event is on disk when this answers."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    heard = await hook.hear(client, Forge(forge), headers, await request.body())
    if heard.state == "unsigned":
        raise Refusal(
            401,
            "The signature is missing or wrong.",
            hint="The forge and clew serve must have the same secret.",
            headers={"WWW-Authenticate": "Signature"},
        )
    if heard.state == "malformed":
        raise Refusal(400, f"This is no event: {heard.why}.")
    return answer({"id": heard.id, "state": heard.state}, 202)


async def reset(wanted: shapes.HookReset, client: TheClient) -> Response:
    """Drops the session of that key, if there is one: the next event is told the whole skill, in a fresh one."""
    return answer({"dropped": await hook.reset(client, wanted.agent, wanted.repo, wanted.number)})


for path in ("/reset", "/api/hooks/reset"):
    router.post(path, response_model=shapes.HookDropped, responses=fails(), summary="Forget a session")(reset)


@router.get("/api/hooks/sessions", response_model=shapes.HookSessionList, responses=fails(body=False))
async def sessions(client: TheClient) -> Response:
    """All of them, by repository, number and agent."""
    return answer({"items": await hook.sessions_json(client, stamp)})


@router.get("/api/hooks/events", response_model=shapes.HookEventList, responses=fails(body=False))
async def events(
    client: TheClient,
    state: Annotated[shapes.EventState | None, Query(description="Only those in this state")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """The newest first. They are kept for 30 days."""
    found = await client.hooks.events(state=state, limit=limit)
    return answer({"items": [hook.event_json(each, stamp) for each in found]})


@router.get("/api/hooks/settings", response_model=shapes.HookSettings, responses=fails(body=False))
async def settings(client: TheClient) -> Response:
    """What the user's clew.toml says. Of secrets and tokens only whether there are any."""
    return answer({**await hook.settings_json(client), "work": work_of(client).most})
