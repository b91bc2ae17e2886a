"""Jobs. `JobView.to_shape` in api/jobs.py makes them."""

from __future__ import annotations

from typing import Annotated, Literal

from clew.api.wire.failures import Failure
from clew.api.wire.shape import Doc, Money, Permissions, Shape, Time
from clew.api.wire.usage import Usage

JobStatus = Literal["queued", "running", "waiting", "blocked", "conflict", "succeeded", "failed", "cancelled"]


class Limits(Shape):
    timeout_s: float | None
    retries: int
    max_resumes: int
    max_runs: int
    max_age_s: float | None
    deadline_at: Time | None


class Job(Shape):
    """Work that an agent is to finish, over as many runs as it takes."""

    id: str
    status: JobStatus
    runs: Annotated[int, Doc("How many runs it has had")]
    resume_count: Annotated[int, Doc("How many of its runs resumed a session")]
    session_id: str | None
    session_saved_at: Time | None
    reason: Annotated[str | None, Doc("Why its last fresh run was fresh")]
    outcome: Annotated[str | None, Doc("The outcome of its last run")]
    result: Annotated[str | None, Doc("The answer, when it succeeded")]
    error: Failure | None
    stderr_tail: Annotated[str, Doc("The end of the last agent's stderr, when the job failed")]
    conflicts: Annotated[list[str], Doc("Files that somebody else changed since the job's last checkpoint")]
    prompt: str
    cwd: str
    agent: str
    model: str | None
    permissions: Permissions
    key: str | None
    priority: Annotated[int, Doc("1 is the most urgent, 100 the least")]
    checkpoint: bool
    limits: Limits
    tries: Annotated[int, Doc("How often it was submitted or retried")]
    thread_id: Annotated[str, Doc("Its conversation: GET /api/threads/{thread}/view")]
    thread: str
    run_id: Annotated[str | None, Doc("Its newest run")]
    worker: str | None
    cancel_requested: bool
    usage: Usage
    cost_usd: Annotated[Money, Doc("The cost of all its runs")]
    created_at: Time
    not_before: Time | None
    started_at: Time | None
    wake_at: Annotated[Time | None, Doc("While it waits: when it continues")]
    ended_at: Time | None
    no_worker: Annotated[str | None, Doc("What to do when the job is waiting and no worker is running")]


class Marker(Shape):
    """A step of a job's progress: one complete message of the agent."""

    number: Annotated[int, Doc("Counted from 1 over all runs")]
    run: Annotated[int | None, Doc("The number of the job's run, from 1")]
    run_id: str | None
    message_id: Annotated[str | None, Doc("The agent's own id of the message, if it has ids")]
    at: Time
    text: Annotated[str, Doc("The first 200 characters of the message; empty: they are no longer stored")]


class ShownJob(Job):
    """A job and its progress."""

    markers: Annotated[list[Marker], Doc("The newest 1000, the oldest first")]


class JobList(Shape):
    items: list[Job]
    workers: Annotated[int, Doc("How many workers are alive that run submitted jobs")]
