"""Jobs: submit, list, show, retry and cancel them, and follow the events of all their runs."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import Response, StreamingResponse

from clew.api import jobs
from clew.api.client import Client
from clew.api.wire import jobs as wire
from clew.core.jobs.job import SUBMITTED, JobStatus, StartMode
from clew.errors import UsageError
from clew.server.access import SharedState, TheClient, TheShared
from clew.server.live.event_encoding import Parts, map_stream
from clew.server.models import jobs as requests
from clew.server.models.json_body import json_response, json_text
from clew.server.models.openapi import fails, located, returns
from clew.server.routes.events import EVENT_STREAM, EventStream
from clew.server.security.body_limits import takes_long_text
from clew.server.security.idempotency import TheCreation, created_before

router = APIRouter(prefix="/api/jobs", tags=["jobs"])

JobId = Annotated[str, Path(alias="job", max_length=200, description="A job's id, or latest")]
RUN_AND_SEQ = r"^\d{1,9}-\d{1,15}$"
LIMITS = {"timeout_s", "retries", "max_resumes", "max_runs", "max_age_s"}


@router.post(
    "",
    status_code=201,
    response_model=wire.ShownJob,
    responses={**fails(409), **located(201, "job")},
    summary="Submit a job",
)
@takes_long_text
async def create(new: requests.NewJob, shared: TheShared, creation: TheCreation) -> Response:
    """The job is on disk when this answers. A worker (`clew work`, `clew serve --work`) runs it.

    `no_worker` says what to do when no worker is alive.
    """
    if earlier := await created_before(creation, lambda job_id: _created(shared.client, job_id)):
        return earlier
    cwd, prompt = shared.roots.resolved(new.cwd), new.prompt
    if new.expand:
        prompt = await shared.client.expand(
            prompt, cwd=cwd, agent=new.agent, permissions=new.permissions or "edits", trust=new.trust
        )
    options = jobs.JobOptions(
        prompt=prompt,
        cwd=cwd,
        agent=new.agent,
        model=new.model,
        permissions=new.permissions,
        trust=new.trust,
        key=new.key,
        priority=new.priority,
        limits=_limits(new),
        checkpoint=bool(new.checkpoint),
        delay_s=new.delay_s,
        id=creation.id,
    )
    return await _created(shared.client, (await jobs.submit(shared.client, options)).id)


async def _created(client: Client, job_id: str) -> Response:
    return await _answered(client, job_id, 201, {"Location": f"/api/jobs/{job_id}"})


def _limits(new: requests.NewJob) -> dict[str, float]:
    """The limits that the request names."""
    limits: dict[str, float] = new.model_dump(include=LIMITS, exclude_none=True)
    if new.deadline_at is not None:
        limits["deadline_at"] = requests.epoch_seconds(new.deadline_at)
        if limits["deadline_at"] <= time.time():
            raise UsageError("The deadline has already passed.")
    return limits


@router.get("", response_model=wire.JobList, responses=fails(body=False))
async def list_(
    client: TheClient,
    status: Annotated[wire.JobStatus | None, Query(description="Only jobs with this status")] = None,
    key: Annotated[str, Query(max_length=200, description="Only jobs of this key")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 50,
) -> Response:
    """The newest first."""
    statuses = None if status is None else (JobStatus(status),)
    found = await client.jobs.list(statuses=statuses, key=key or None, limit=limit)
    items = [view.to_shape() for view in await jobs.view_jobs(client, found)]
    return json_response(wire.JobList(items, workers=len(await jobs.workers(client, SUBMITTED))).to_json())


@router.get("/{job}", response_model=wire.ShownJob, responses=fails(404, body=False))
async def show(job_id: JobId, client: TheClient) -> Response:
    return await _answered(client, job_id)


@router.post("/{job}/retry", status_code=202, response_model=wire.ShownJob, responses=fails(404, 409))
async def retry(
    job_id: JobId,
    shared: TheShared,
    body: requests.JobRetry | None = None,
    resume: Annotated[
        bool | None,
        Query(description="true: resume its session, however old; false: start again. Default: as a worker decides"),
    ] = None,
) -> Response:
    """Queues the job again. 409 if it succeeded or is running, or if its files changed and the body does not say what
    to do with them."""
    client = shared.client
    job = await client.jobs.find(job_id)
    shared.roots.check(job.cwd)
    start_mode = None if resume is None else StartMode.RESUME if resume else StartMode.FRESH
    files = body or requests.JobRetry(restore=None, keep=None)
    await client.jobs.retry(job.id, start_mode, restore=bool(files.restore), keep=bool(files.keep))
    return await _answered(client, job.id, 202)


@router.post("/{job}/cancel", status_code=202, response_model=wire.ShownJob, responses=fails(404, 409))
async def cancel(job_id: JobId, client: TheClient) -> Response:
    """A running job is stopped, with every process that it started. Any other ends at once. 409 if it has ended."""
    job = await client.jobs.find(job_id)
    await client.jobs.cancel(job.id)
    return await _answered(client, job.id, 202)


async def _answered(client: Client, job_id: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return json_response((await jobs.view_job(client, job_id)).to_json(), status, headers)


@router.get(
    "/{job}/events",
    response_class=StreamingResponse,
    responses={
        **fails(404, body=False),
        **returns(
            "`id: RUN-SEQ`, `event: KIND`, `data: JobEvent`; and `event: job_changed`, `data: Job`", EVENT_STREAM
        ),
    },
)
async def events(
    job_id: JobId,
    shared: TheShared,
    after: Annotated[str | None, Query(pattern=RUN_AND_SEQ, description="Only events after this RUN-SEQ")] = None,
    last_event_id: Annotated[
        str | None, Header(pattern=RUN_AND_SEQ, description="The same, as browsers send it when they reconnect")
    ] = None,
) -> StreamingResponse:
    """The events of all its runs. The stream ends with the job: its last event is a `job_changed` with the result."""
    job = await shared.client.jobs.find(job_id)
    shared.check_capacity()
    number, _, seq = (last_event_id or after or "1-0").partition("-")
    followed = jobs.follow(shared.client, job.id, (int(number), int(seq)))
    return EventStream(shared, map_stream(followed, partial(_sse, shared)))


async def _sse(shared: SharedState, item: jobs.JobEvent | jobs.JobChanged) -> Parts:
    """A change of the job has no id, because a client that reconnects gets the current state of the job anyway."""
    if isinstance(item, jobs.JobChanged):
        [view] = await jobs.view_jobs(shared.client, [item.job])
        return (f"event: job_changed\ndata: {json_text(view.to_json())}\n\n".encode(),)
    event = shared.encoder.of(item.run.id, item.stored)
    run = json_text({"run": item.number, "run_id": item.run.id})
    head = f"id: {item.number}-{event.seq}\nevent: {event.kind}\ndata: {run[:-1]},"
    return head.encode(), memoryview(event.data)[1:], b"\n\n"
