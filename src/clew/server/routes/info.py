"""What a page asks besides: agents and their health, what resuming saved, the settings, directories."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew import __version__
from clew.core.savings import summed
from clew.hook import counts_json
from clew.review import measures_json
from clew.server import bodies, hook_shapes, schemas
from clew.server.access import TheClient, TheShared
from clew.server.documents import fails
from clew.server.json_body import answer
from clew.server.problems import problem

router = APIRouter()

DAY_S = 86_400.0
RECENT = 20  # threads whose directories may be where the next one begins


@router.get("/healthz", response_model=schemas.Health, responses=fails(body=False), tags=["daemon"])
async def healthz(shared: TheShared) -> Response:
    """Needs no token. 503 while the store answers nobody, and from then on when its files were taken away."""
    found = await shared.health.condition()
    if found.trouble is not None:
        return problem(503, found.trouble, code="store", hint="The daemon's log and clew doctor say more.")
    return answer({"status": "ok", "busy": found.is_busy})


@router.get("/api/agents", response_model=schemas.AgentList, responses=fails(body=False), tags=["daemon"])
async def agents(client: TheClient) -> Response:
    """Every agent, whether it is well, and what to do if not."""
    return answer({"items": [bodies.agent(found) for found in await client.agents()]})


@router.get("/api/stats", response_model=hook_shapes.Stats, responses=fails(404, body=False), tags=["daemon"])
async def stats(
    client: TheClient,
    thread: Annotated[str, Query(max_length=200, description="Only this thread: its id or name")] = "",
    days: Annotated[float | None, Query(gt=0, le=36_500, description="Only the last so many days")] = None,
) -> Response:
    """How often sessions were resumed, what it cost, and an estimate of what resuming saved."""
    of_thread = await client.find(thread) if thread else None
    since = None if days is None else time.time() - days * DAY_S
    savings = summed(await client.stats(thread=of_thread, since=since))
    thread_id = None if of_thread is None else of_thread.record.id
    measures = await client.reviews.measures(since=since, thread_id=thread_id)
    return answer(
        {
            **bodies.savings(savings),
            "by_day": [bodies.day(each) for each in await client.daily(thread=of_thread, since=since)],
            "by_turn": [bodies.figures(run) for run in await client.recent(thread=of_thread, since=since)],
            "reviews": measures_json(measures),
            "hooks": await counts_json(client),
        }
    )


@router.get("/api/settings", response_model=schemas.Settings, responses=fails(body=False), tags=["daemon"])
async def settings(shared: TheShared) -> Response:
    """What a new thread gets."""
    held = shared.client.settings
    used = [each.thread.cwd for each in (await shared.client.cards(kind="chat", limit=RECENT)).items]
    candidates = [*([shared.started_in] if shared.started_in else []), *used]
    return answer(
        {
            **{name: held.of(name) for name in ("agent", "model", "permissions", "visibility")},
            "roots": list(shared.roots.paths),
            "home": str(Path.home()),
            "cwd": await asyncio.to_thread(shared.roots.begin_in, candidates),
            "version": __version__,
        }
    )


@router.get("/api/dirs", response_model=schemas.Dirs, responses=fails(404, body=False), tags=["daemon"])
async def dirs(
    shared: TheShared,
    path: Annotated[str, Query(max_length=4_096, description="Absolute, or from ~; empty: where one may begin")] = "",
) -> Response:
    """The folders in a folder, for the form of a new thread."""
    found, parent, names = await asyncio.to_thread(shared.roots.listed, path)
    return answer({"path": found, "parent": parent, "items": names})
