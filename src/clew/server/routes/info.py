"""What a page needs besides threads: health, agents, savings, settings, directories."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from clew import __version__
from clew.api import hooks
from clew.api.stats import stats_by
from clew.api.wire.agents import AgentHealth, AgentList
from clew.api.wire.reviews import measures
from clew.api.wire.stats import StatDimension, Stats
from clew.api.wire.stats import stats as stats_shape
from clew.core.costs.savings import total_savings
from clew.core.durations import DAY_S
from clew.server.access import TheClient, TheShared
from clew.server.models.info import DirectoryList, Health, Settings
from clew.server.models.json_body import json_response
from clew.server.models.openapi import fails
from clew.server.models.problems import problem

router = APIRouter()

RECENT_THREADS = 20  # their directories are candidates for the directory of a new thread


@router.get("/healthz", response_model=Health, responses=fails(body=False), tags=["daemon"])
async def healthz(shared: TheShared) -> Response:
    """Needs no token. 503 while the store answers no query, and always after its files were deleted or replaced."""
    status = await shared.health.status()
    if status.problem is not None:
        return problem(503, status.problem, code="store", hint="The daemon's log and clew doctor say more.")
    return json_response(Health("ok", busy=status.is_busy).to_json())


@router.get("/api/agents", response_model=AgentList, responses=fails(body=False), tags=["daemon"])
async def agents(client: TheClient) -> Response:
    """All agents. For an agent that cannot be used, it says what to do."""
    found = await client.views.agents()
    return json_response(AgentList(items=[AgentHealth.of(health) for health in found]).to_json())


@router.get("/api/stats", response_model=Stats, responses=fails(404, body=False), tags=["daemon"])
async def stats(
    client: TheClient,
    thread: Annotated[str, Query(max_length=200, description="Only this thread: its id or name")] = "",
    days: Annotated[float | None, Query(gt=0, le=36_500, description="Only the last N days")] = None,
    by: Annotated[StatDimension | None, Query(description="Also return `groups` by this")] = None,
) -> Response:
    """How often sessions were resumed, what the runs cost, and an estimate of what resuming saved."""
    of_thread = await client.find(thread) if thread else None
    since = None if days is None else time.time() - days * DAY_S
    savings = total_savings(await client.stats(thread=of_thread, since=since))
    thread_id = None if of_thread is None else of_thread.record.id
    reviews = await client.reviews.measures(since=since, thread_id=thread_id)
    by_day = await client.views.daily(thread=of_thread, since=since)
    runs = await client.views.recent_runs(thread=of_thread, since=since)
    grouped = None if by is None else (await stats_by(client, by, thread=of_thread, since=since)).to_shape()
    shown = stats_shape(savings, grouped, by_day, runs, measures(reviews), await hooks.counts(client))
    return json_response(shown.to_json())


@router.get("/api/settings", response_model=Settings, responses=fails(body=False), tags=["daemon"])
async def settings(shared: TheShared) -> Response:
    """The settings that a new thread gets."""
    given = shared.client.settings
    used = [each.thread.cwd for each in (await shared.client.views.page(kind="chat", limit=RECENT_THREADS)).items]
    candidates = [*([shared.started_in] if shared.started_in else []), *used]
    shown = Settings.of(
        **{name: given.of(name) for name in ("agent", "model", "permissions", "visibility")},
        roots=list(shared.roots.paths),
        home=str(Path.home()),
        cwd=await asyncio.to_thread(shared.roots.default_cwd, candidates),
        version=__version__,
    )
    return json_response(shown.to_json())


@router.get("/api/dirs", response_model=DirectoryList, responses=fails(404, body=False), tags=["daemon"])
async def dirs(
    shared: TheShared,
    path: Annotated[
        str, Query(max_length=4_096, description="Absolute, or from ~; empty: the first root, or the home directory")
    ] = "",
) -> Response:
    """The folders in a folder, for the form of a new thread."""
    found, parent, names = await asyncio.to_thread(shared.roots.listed, path)
    return json_response(DirectoryList(found, parent, names).to_json())
