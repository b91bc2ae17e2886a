"""The bodies of jobs. `JobView.to_json` in api/jobs.py builds the responses, and the tests check them against these."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from clew.core.jobs.job import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT
from clew.server.models.requests import Agent, Cwd, Model, Permissions, PrintableText, Prompt, RequestModel, Trust
from clew.server.models.schemas import ResponseModel, RunError, Time, Usage

Status = Literal["queued", "running", "waiting", "blocked", "conflict", "succeeded", "failed", "cancelled"]
RFC_3339 = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})$"


def _valid_time(text: str) -> str:
    epoch_seconds(text)
    return text


def epoch_seconds(text: str) -> float:
    """Raises ValueError."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except OverflowError:
        raise ValueError("is not a sensible time") from None


Moment = Annotated[
    str,
    AfterValidator(_valid_time),
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
    permissions: Permissions | None = Field(None, description="What the agent may do; default: edits")
    trust: Trust | None = None
    key: Key | None = None
    priority: int | None = Field(
        None,
        ge=MOST_URGENT,
        le=LEAST_URGENT,
        description=f"Which of the jobs that wait starts first: 1 is the most urgent. Default: {DEFAULT_PRIORITY}",
    )
    timeout_s: Seconds | None = Field(None, description="How long one run may take; then it is resumed. Default: 1800")
    retries: int | None = Field(None, ge=0, le=1000, description="How many runs in a row may fail. Default: 3")
    max_resumes: int | None = Field(None, ge=0, le=1000, description="How often one session is resumed. Default: 10")
    max_runs: int | None = Field(None, ge=1, le=1000, description="How many runs the job may have. Default: 50")
    max_age_s: Seconds | None = Field(
        None,
        description="A session is not resumed so long after its last event. Default: the setting max_age, else 3600",
    )
    delay_s: Seconds | None = Field(None, description="The job does not start before this time has passed")
    deadline_at: Moment | None = Field(None, description="The job is given up at this time")
    checkpoint: bool | None = Field(None, description="Keep the work tree in refs/clew/jobs/ID; needs a git repository")


class JobRetry(RequestModel):
    restore: bool | None = Field(None, description="Restore the files of the last checkpoint first")
    keep: bool | None = Field(None, description="Continue with the files as they are now")


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
    runs: int = Field(description="How many runs it has had")
    resume_count: int = Field(description="How many of its runs resumed a session")
    session_id: str | None
    session_saved_at: Time | None
    reason: str | None = Field(description="Why its last fresh run was fresh")
    outcome: str | None = Field(description="The outcome of its last run")
    result: str | None = Field(description="The answer, when it succeeded")
    error: RunError | None
    stderr_tail: str = Field(description="The end of the last agent's stderr, when the job failed")
    conflicts: list[str] = Field(description="Files that somebody else changed since the job's last checkpoint")
    prompt: str
    cwd: str
    agent: str
    model: str | None
    permissions: Permissions
    key: str | None
    priority: int = Field(description="1 is the most urgent, 100 the least")
    checkpoint: bool
    limits: Limits
    tries: int = Field(description="How often it was submitted or retried")
    thread_id: str = Field(description="Its conversation: GET /api/threads/{thread}/view")
    thread: str
    run_id: str | None = Field(description="Its newest run")
    worker: str | None
    cancel_requested: bool
    usage: Usage
    cost_usd: float = Field(description="The cost of all its runs")
    created_at: Time
    not_before: Time | None
    started_at: Time | None
    wake_at: Time | None = Field(description="While it waits: when it continues")
    ended_at: Time | None
    no_worker: str | None = Field(description="What to do when the job is waiting and no worker is running")


class Marker(ResponseModel):
    """A step of a job's progress: one complete message of the agent."""

    number: int = Field(description="Counted from 1 over all runs")
    run: int | None = Field(description="The number of the job's run, from 1")
    run_id: str | None
    message_id: str | None = Field(description="The agent's own id of the message, if it has ids")
    at: Time
    text: str = Field(description="The first 200 characters of the message; empty: they are no longer stored")


class ShownJob(Job):
    """A job and its progress."""

    markers: list[Marker] = Field(description="The newest 1000, the oldest first")


class JobList(ResponseModel):
    items: list[Job]
    workers: int = Field(description="How many workers are alive that run submitted jobs")
