"""Jobs: submitted, looked at, retried, cancelled, and followed over all their runs."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response, StreamingResponse

from clew.api import jobs
from clew.api.client import Client
from clew.core.jobs.job import SUBMITTED, JobStatus, StartMode
from clew.errors import UsageError
from clew.server.access import SharedState, TheClient, TheShared
from clew.server.live.event_encoding import Parts, map_stream
from clew.server.models import jobs as job_shapes
from clew.server.models.json_body import json_response, json_text, stamp
from clew.server.models.openapi import fails
from clew.server.routes.events import HEARTBEAT, EventStream, with_heartbeats
from clew.server.security.body_limits import takes_long_text
from clew.server.security.idempotency import TheCreation, created_before

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

JobId = Annotated[str, Path(alias="job", max_length=200, description="A job's id, or latest")]
PLACE = r"^\d{1,9}-\d{1,15}$"


@router.post(
    "",
    status_code=201,
    response_model=job_shapes.ShownJob,
    responses={
        **fails(409),
        201: {"headers": {"Location": {"schema": {"type": "string"}, "description": "The job's address"}}},
    },
    summary="A new job",
)
@takes_long_text
async def create(new: job_shapes.NewJob, shared: TheShared, creation: TheCreation) -> Response:
    """It is on disk when this answers; a worker (`clew work`, `clew serve --work`) takes it up.

    `no_worker` says what to do when none is alive.
    """
    if earlier := await created_before(creation, lambda job_id: _created(shared.client, job_id)):
        return earlier
    wanted = jobs.JobOptions(
        prompt=new.prompt,
        cwd=shared.roots.resolved(new.cwd),
        agent=new.agent,
        model=new.model,
        permissions=new.permissions,
        trust=new.trust,
        key=new.key,
        limits=_limits(new),
        checkpoint=bool(new.checkpoint),
        delay_s=new.delay_s,
        id=creation.id,
    )
    return await _created(shared.client, (await jobs.submit(shared.client, wanted)).id)


async def _created(client: Client, job_id: str) -> Response:
    return await _answered(client, job_id, 201, {"Location": f"/api/jobs/{job_id}"})


def _limits(new: job_shapes.NewJob) -> dict[str, float]:
    """Those that were named."""
    given: dict[str, float | None] = {
        "timeout_s": new.timeout_s,
        "retries": new.retries,
        "max_resumes": new.max_resumes,
        "max_runs": new.max_runs,
        "max_age_s": new.max_age_s,
        "deadline_at": None if new.deadline_at is None else job_shapes.seconds_of(new.deadline_at),
    }
    if given["deadline_at"] is not None and given["deadline_at"] <= time.time():
        raise UsageError("The deadline is over already.")
    return {name: value for name, value in given.items() if value is not None}


@router.get("", response_model=job_shapes.JobList, responses=fails(body=False))
async def list_(
    client: TheClient,
    status: Annotated[job_shapes.Status | None, Query(description="Only those in this state")] = None,
    key: Annotated[str, Query(max_length=200, description="Only those of this key")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """The newest first."""
    statuses = None if status is None else (JobStatus(status),)
    found = await client.jobs.list(statuses=statuses, key=key or None, limit=limit)
    items = [view.to_json(stamp) for view in await jobs.view_jobs(client, found)]
    return json_response({"items": items, "workers": len(await jobs.workers(client, SUBMITTED))})


@router.get("/{job}", response_model=job_shapes.ShownJob, responses=fails(404, body=False))
async def show(job_id: JobId, client: TheClient) -> Response:
    return await _answered(client, job_id)


@router.post("/{job}/retry", status_code=202, response_model=job_shapes.ShownJob, responses=fails(404, 409))
async def retry(
    job_id: JobId,
    shared: TheShared,
    wanted: job_shapes.JobRetry | None = None,
    resume: Annotated[
        bool | None,
        Query(description="true: in its session, however old; false: from the beginning. Left out: as a worker would"),
    ] = None,
) -> Response:
    """Queues it again; 409 when it succeeded or is under way, or nobody says what to do about its files."""
    client = shared.client
    job = await client.jobs.find(job_id)
    shared.roots.check(job.cwd)
    start_mode = None if resume is None else StartMode.RESUME if resume else StartMode.FRESH
    files = wanted or job_shapes.JobRetry(restore=None, keep=None)
    await client.jobs.retry(job.id, start_mode, restore=bool(files.restore), keep=bool(files.keep))
    return await _answered(client, job.id, 202)


@router.post("/{job}/cancel", status_code=202, response_model=job_shapes.ShownJob, responses=fails(404, 409))
async def cancel(job_id: JobId, client: TheClient) -> Response:
    """One that runs is told to stop, with all that it started; any other is over at once. 409 when it is over."""
    job = await client.jobs.find(job_id)
    await client.jobs.cancel(job.id)
    return await _answered(client, job.id, 202)


async def _answered(client: Client, job_id: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_response((await jobs.view_job(client, job_id)).to_json(stamp), status, headers)


@router.get(
    "/{job}/events",
    response_class=StreamingResponse,
    responses={
        **fails(404, body=False),
        200: {
            "description": "`id: RUN-SEQ`, `event: KIND`, `data: JobEvent`; and `event: job_changed`, `data: Job`",
            "content": {"text/event-stream": {}},
        },
    },
)
async def events(
    job_id: JobId,
    shared: TheShared,
    after: Annotated[str | None, Query(pattern=PLACE, description="Only events after this one, as RUN-SEQ")] = None,
    last_event_id: Annotated[
        str | None, Header(pattern=PLACE, description="The same, as browsers say it when they reconnect")
    ] = None,
) -> StreamingResponse:
    """The events of all its runs. The stream ends with the job: its last event is the `job_changed` that says how."""
    job = await shared.client.jobs.find(job_id)
    shared.check_capacity()
    number, _, seq = (last_event_id or after or "1-0").partition("-")
    stream = _stream(shared, job.id, (int(number), int(seq)))
    return EventStream(shared, stream)


async def _stream(shared: SharedState, job_id: str, after: tuple[int, int]) -> AsyncGenerator[Parts, None]:
    with shared.listening():
        yield HEARTBEAT  # the head goes out at once, so that a client knows that it is connected
        told = map_stream(jobs.follow(shared.client, job_id, after), partial(_sse, shared))
        async with aclosing(with_heartbeats(shared, told)) as followed:
            async for parts in followed:
                yield HEARTBEAT if parts is None else parts


async def _sse(shared: SharedState, told: jobs.JobEvent | jobs.JobChanged) -> Parts:
    """A change of the job has no id: a client that comes back is told how the job is anyway."""
    if isinstance(told, jobs.JobChanged):
        [view] = await jobs.view_jobs(shared.client, [told.job])
        return (f"event: job_changed\ndata: {json_text(view.to_json(stamp))}\n\n".encode(),)
    event = shared.encoder.of(told.run.id, told.stored)
    place = json_text({"run": told.number, "run_id": told.run.id})
    head = f"id: {told.number}-{event.seq}\nevent: {event.kind}\ndata: {place[:-1]},"
    return head.encode(), memoryview(event.data)[1:], b"\n\n"
