"""What a page needs besides threads: health, agents, savings, settings, directories."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew import __version__
from clew.api.hooks import counts_json
from clew.api.reviews import measures_json
from clew.api.stats import stats_by
from clew.core.costs.savings import total_savings
from clew.core.durations import DAY_S
from clew.server.access import TheClient, TheShared
from clew.server.models import bodies, schemas
from clew.server.models import hooks as hook_shapes
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails
from clew.server.models.problems import problem

router = APIRouter()

RECENT_THREADS = 20  # their directories are candidates for the directory of a new thread


@router.get("/healthz", response_model=schemas.Health, responses=fails(body=False), tags=["daemon"])
async def healthz(shared: TheShared) -> Response:
    """Needs no token. 503 while the store answers no query, and always after its files were deleted or replaced."""
    status = await shared.health.status()
    if status.problem is not None:
        return problem(503, status.problem, code="store", hint="The daemon's log and clew doctor say more.")
    return json_response({"status": "ok", "busy": status.is_busy})


@router.get("/api/agents", response_model=schemas.AgentList, responses=fails(body=False), tags=["daemon"])
async def agents(client: TheClient) -> Response:
    """All agents. For an agent that cannot be used, it says what to do."""
    return json_response({"items": [health.as_dict() for health in await client.views.agents()]})


@router.get("/api/stats", response_model=hook_shapes.Stats, responses=fails(404, body=False), tags=["daemon"])
async def stats(
    client: TheClient,
    thread: Annotated[str, Query(max_length=200, description="Only this thread: its id or name")] = "",
    days: Annotated[float | None, Query(gt=0, le=36_500, description="Only the last N days")] = None,
    by: Annotated[schemas.StatDimension | None, Query(description="Also return `groups` by this")] = None,
) -> Response:
    """How often sessions were resumed, what the runs cost, and an estimate of what resuming saved."""
    of_thread = await client.find(thread) if thread else None
    since = None if days is None else time.time() - days * DAY_S
    savings = total_savings(await client.stats(thread=of_thread, since=since))
    thread_id = None if of_thread is None else of_thread.record.id
    measures = await client.reviews.measures(since=since, thread_id=thread_id)
    runs = await client.views.recent_runs(thread=of_thread, since=since)
    grouped = None if by is None else await stats_by(client, by, thread=of_thread, since=since)
    return json_response(
        {
            **bodies.savings(savings),
            "by": by,
            "groups": None if grouped is None else [group.to_json() for group in grouped.groups],
            "by_day": [bodies.day(each) for each in await client.views.daily(thread=of_thread, since=since)],
            "by_turn": [bodies.run_figures(run) for run in runs],
            "reviews": measures_json(measures),
            "hooks": await counts_json(client),
        }
    )


@router.get("/api/settings", response_model=schemas.Settings, responses=fails(body=False), tags=["daemon"])
async def settings(shared: TheShared) -> Response:
    """The settings that a new thread gets."""
    given = shared.client.settings
    used = [each.thread.cwd for each in (await shared.client.views.page(kind="chat", limit=RECENT_THREADS)).items]
    candidates = [*([shared.started_in] if shared.started_in else []), *used]
    return json_response(
        {
            **{name: given.of(name) for name in ("agent", "model", "permissions", "visibility")},
            "roots": list(shared.roots.paths),
            "home": str(Path.home()),
            "cwd": await asyncio.to_thread(shared.roots.default_cwd, candidates),
            "version": __version__,
        }
    )


@router.get("/api/dirs", response_model=schemas.DirectoryList, responses=fails(404, body=False), tags=["daemon"])
async def dirs(
    shared: TheShared,
    path: Annotated[
        str, Query(max_length=4_096, description="Absolute, or from ~; empty: the first root, or the home directory")
    ] = "",
) -> Response:
    """The folders in a folder, for the form of a new thread."""
    found, parent, names = await asyncio.to_thread(shared.roots.listed, path)
    return json_response({"path": found, "parent": parent, "items": names})
