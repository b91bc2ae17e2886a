"""The bodies of hooks. `clew.api.hooks` builds the responses, and the tests check them against these models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clew.server.models import reviews as review_shapes
from clew.server.models.requests import Permissions, PrintableText, RequestModel
from clew.server.models.schemas import ResponseModel, Time

ForgeName = Literal["github", "gitea", "forgejo"]
EventState = Literal["received", "dispatched", "ignored", "failed"]
SessionState = Literal["running", "resumable", "fresh"]


class HookReceipt(ResponseModel):
    """What became of a forge's message."""

    id: str | None = Field(description="The event's id, if it was received")
    state: Literal["received", "duplicate", "ignored"]


class HookReset(RequestModel):
    agent: Annotated[PrintableText, Field(min_length=1, max_length=40, description="Its name in the settings")]
    repo: Annotated[PrintableText, Field(min_length=3, max_length=201, description="owner/name")]
    number: int = Field(ge=1, le=2**63 - 1, description="The number of the issue or pull request")


class HookDropped(ResponseModel):
    dropped: bool = Field(description="Whether there was a session")


class HookEvent(ResponseModel):
    """An event of a forge, and what became of it."""

    id: str
    forge: ForgeName
    delivery: str = Field(description="The forge's own id of the message")
    kind: str
    repo: str
    number: int | None = Field(description="The issue's or pull request's number; null for an event of a branch")
    branch: str | None
    actor: str = Field(description="The user who caused the event")
    title: str
    url: str
    state: EventState
    why: str | None = Field(description="Why no agent was started, or what became of a closed issue's work trees")
    tries: int
    jobs: list[str] = Field(description="The ids of its jobs")
    received_at: Time
    done_at: Time | None


class HookSession(ResponseModel):
    """A session key and its session."""

    key: str
    agent: str
    repo: str
    number: int
    forge: ForgeName | None
    state: SessionState = Field(description="What the next event would do: wait, resume, or start a fresh session")
    session_id: str | None
    thread_id: str
    branch: str | None
    last_event: HookEvent | None = Field(description="The last event that started the agent")
    created_at: Time
    used_at: Time


class HookSessionList(ResponseModel):
    items: list[HookSession]


class HookEventList(ResponseModel):
    items: list[HookEvent]


class HookAgent(ResponseModel):
    name: str
    agent: str
    model: str | None
    skills: str
    allowed_tools: list[str]
    timeout_s: float | None
    permissions: Permissions
    max_age_s: float | None


class HookRepo(ResponseModel):
    name: str
    path: str
    forge: ForgeName | None
    branch: str | None
    remote: str
    writers: list[str]


class HookRule(ResponseModel):
    agent: str
    events: list[str]
    repos: list[str]
    labels: list[str]
    authors: list[str]
    actors: list[str]
    branches: list[str]
    mention: str | None
    command: str | None
    reviewers: list[str]
    forks: bool
    anyone: bool
    comment: bool
    update: Literal["none", "fetch", "forward"]


class HookForge(ResponseModel):
    forge: ForgeName
    url: str | None
    has_secret: bool
    has_token: bool


class HookSettings(ResponseModel):
    is_used: bool = Field(description="Whether there are rules, sessions or events")
    work: int = Field(description="How many jobs this daemon runs at once")
    agents: list[HookAgent]
    repos: list[HookRepo]
    rules: list[HookRule]
    forges: list[HookForge]


class SessionCount(ResponseModel):
    repo: str
    agent: str
    state: SessionState
    count: int


class EventCount(ResponseModel):
    forge: ForgeName
    state: EventState
    count: int


class HookCounts(ResponseModel):
    sessions: list[SessionCount]
    events: list[EventCount]


class Stats(review_shapes.StatsWithReviews):
    hooks: HookCounts
