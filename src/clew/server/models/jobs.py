"""The bodies of requests about jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from clew.api.wire.shape import Permissions, Trust
from clew.core.jobs.job import DEFAULT_PRIORITY, LEAST_URGENT, MOST_URGENT
from clew.server.models.requests import EXPAND, Agent, Cwd, Model, PrintableText, Prompt, RequestModel

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
    expand: bool | None = EXPAND
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
