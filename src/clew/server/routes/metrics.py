"""Figures for Prometheus.

All of them are counted in the store at each request, so they include every process that uses it, and survive restarts.
The runs of a deleted thread no longer count: Prometheus treats a counter that decreases as a reset.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from clew.api import jobs
from clew.server.access import TheClient
from clew.server.models.openapi import TEXT, fails, returns

router = APIRouter()


@router.get(
    "/metrics",
    response_class=Response,
    responses={**fails(body=False), **returns("Prometheus text format 0.0.4", "text/plain", schema=TEXT)},
    tags=["daemon"],
)
async def metrics(client: TheClient) -> Response:
    """Figures for Prometheus, which must send the token."""
    from clew.server.models import metrics as families  # loads prometheus_client, which few daemons need

    counts = await client.views.counts()
    found = [
        *families.of_runs(counts.tallies, counts.live_runs),
        *families.of_jobs(counts.jobs, len(await jobs.workers(client))),
        *families.of_reviews(await client.reviews.measures()),
        *families.of_hooks(await client.hooks.sessions.counts(), await client.hooks.event_counts()),
    ]
    return Response(families.written(found), headers={"Content-Type": families.CONTENT_TYPE})
