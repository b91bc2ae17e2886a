"""Jobs as they come in and go out. `JobView.to_json` in api/jobs.py builds what goes out; tests compare the two."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from clew.server.models.requests import Agent, Cwd, Model, Permissions, PrintableText, Prompt, RequestModel, Trust
from clew.server.models.schemas import ResponseModel, RunError, Time, Usage

Status = Literal["queued", "running", "waiting", "blocked", "conflict", "succeeded", "failed", "cancelled"]
RFC_3339 = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})$"


def _a_time(text: str) -> str:
    seconds_of(text)
    return text


def seconds_of(text: str) -> float:
    """A time as epoch seconds. Raises ValueError."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except OverflowError:
        raise ValueError("is not a sensible time") from None


Moment = Annotated[
    str,
    AfterValidator(_a_time),
    Field(pattern=RFC_3339, description="RFC 3339", examples=["2026-01-31T12:00:00Z"]),
]
Key = Annotated[
    PrintableText, Field(min_length=1, max_length=200, description="Jobs of one key run one at a time, in order")
]
Seconds = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class NewJob(RequestModel):
    prompt: Prompt
    cwd: Cwd
    agent: Agent | None = None
    model: Model | None = None
    permissions: Permissions | None = Field(None, description="What the agent may do; left out: edits")
    trust: Trust | None = None
    key: Key | None = None
    timeout_s: Seconds | None = Field(None, description="Of one run; then it is resumed. Left out: 1800")
    retries: int | None = Field(None, ge=0, le=1000, description="After trouble, in a row. Left out: 3")
    max_resumes: int | None = Field(None, ge=0, le=1000, description="Of one session. Left out: 10")
    max_runs: int | None = Field(None, ge=1, le=1000, description="In all. Left out: 50")
    max_age_s: Seconds | None = Field(
        None,
        description="Of a session, from its last event. Left out: the setting max_age, else 3600",
    )
    delay_s: Seconds | None = Field(None, description="It does not begin before so long from now")
    deadline_at: Moment | None = Field(None, description="It is given up then")
    checkpoint: bool | None = Field(None, description="Keep the work tree in refs/clew/jobs/ID; wants a git repository")


class JobRetry(RequestModel):
    restore: bool | None = Field(None, description="Put the files of the last checkpoint back first")
    keep: bool | None = Field(None, description="Go on with the files as they are")


class Limits(ResponseModel):
    timeout_s: float | None
    retries: int
    max_resumes: int
    max_runs: int
    max_age_s: float | None
    deadline_at: Time | None


class Job(ResponseModel):
    """Work that an agent is to finish, over as many runs as it takes."""

    id: str
    status: Status
    runs: int = Field(description="How many it had so far")
    resume_count: int = Field(description="Resumed runs, over all its sessions")
    session_id: str | None
    session_saved_at: Time | None
    reason: str | None = Field(description="Why its last fresh run was fresh")
    outcome: str | None = Field(description="Of its last run")
    result: str | None = Field(description="The answer, when it succeeded")
    error: RunError | None
    stderr_tail: str = Field(description="Of the last run's agent, when the job failed")
    conflicts: list[str] = Field(description="Files that are not as the job left them")
    prompt: str
    cwd: str
    agent: str
    model: str | None
    permissions: Permissions
    key: str | None
    checkpoint: bool
    limits: Limits
    tries: int = Field(description="How often it was queued by somebody")
    thread_id: str = Field(description="Its conversation: GET /api/threads/{thread}/view")
    thread: str
    run_id: str | None = Field(description="Its newest run")
    worker: str | None
    cancel_requested: bool
    usage: Usage
    cost_usd: float = Field(description="Of all its runs")
    created_at: Time
    not_before: Time | None
    started_at: Time | None
    wake_at: Time | None = Field(description="While it waits: until then")
    ended_at: Time | None
    no_worker: str | None = Field(description="It waits, and nobody is there to take it up: what to do")


class Marker(ResponseModel):
    """How far a job has come: one whole message of the agent's."""

    number: int = Field(description="From 1, over all runs")
    run: int | None = Field(description="Which of the job's runs, from 1")
    run_id: str | None
    message_id: str | None = Field(description="The agent's own, where it has them")
    at: Time
    text: str = Field(description="Its first 200 characters; empty: not known any more")


class ShownJob(Job):
    """A job, and how far it has come."""

    markers: list[Marker] = Field(description="The newest 1000, the oldest first")


class JobList(ResponseModel):
    items: list[Job]
    workers: int = Field(description="How many are alive that take submitted jobs")
