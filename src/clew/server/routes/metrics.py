"""Figures for Prometheus.

All of them are counted from the store at each request, so they hold for every process that uses it, and over restarts.
The runs of a deleted thread no longer count: Prometheus takes a counter that falls for a reset.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from clew.api import jobs
from clew.server.access import TheClient
from clew.server.models.openapi import fails

router = APIRouter()


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        **fails(body=False),
        200: {"description": "Prometheus text format 0.0.4", "content": {"text/plain": {"schema": {"type": "string"}}}},
    },
    tags=["daemon"],
)
async def metrics(client: TheClient) -> Response:
    """For Prometheus; it needs the token like the rest."""
    from clew.server.models import metrics as families  # loads prometheus_client, which few daemons need

    counts = await client.views.counts()
    found = [
        *families.of_runs(counts.tallies, counts.live_runs),
        *families.of_jobs(counts.jobs, len(await jobs.workers(client))),
        *families.of_reviews(await client.reviews.measures()),
        *families.of_hooks(await client.hooks.sessions.counts(), await client.hooks.event_counts()),
    ]
    return Response(families.written(found), headers={"Content-Type": families.CONTENT_TYPE})
