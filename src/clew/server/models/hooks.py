"""Hooks as they come in and go out. `clew.hook` builds what goes out; the tests hold it against these."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clew.server import review_shapes
from clew.server.requests import Given, Permissions, Word
from clew.server.schemas import Made, Time

ForgeName = Literal["github", "gitea", "forgejo"]
EventState = Literal["received", "dispatched", "ignored", "failed"]
SessionState = Literal["running", "resumable", "fresh"]


class HookTold(Made):
    """What became of a forge's message."""

    id: str | None = Field(description="Of the event, when it was received")
    state: Literal["received", "duplicate", "ignored"]


class HookReset(Given):
    agent: Annotated[Word, Field(min_length=1, max_length=40, description="As the settings name it")]
    repo: Annotated[Word, Field(min_length=3, max_length=201, description="owner/name")]
    number: int = Field(ge=1, le=2**63 - 1, description="Of the issue or pull request")


class HookDropped(Made):
    dropped: bool = Field(description="Was there a session?")


class HookEvent(Made):
    """Something that a forge told, and what became of it."""

    id: str
    forge: ForgeName
    delivery: str = Field(description="The forge's own id of the message")
    kind: str
    repo: str
    number: int | None = Field(description="Of the issue or pull request; null: of a branch")
    branch: str | None
    actor: str = Field(description="Who did it")
    title: str
    url: str
    state: EventState
    why: str | None = Field(description="Why nobody was woken, or what became of what was cleaned up")
    tries: int
    jobs: list[str] = Field(description="The ids of the jobs that it became")
    received_at: Time
    done_at: Time | None


class HookSession(Made):
    """A key and where its agent left off."""

    key: str
    agent: str
    repo: str
    number: int
    forge: ForgeName | None
    state: SessionState = Field(description="What the next event would find")
    session_id: str | None
    thread_id: str
    branch: str | None
    last_event: HookEvent | None = Field(description="That woke the agent")
    created_at: Time
    used_at: Time


class HookSessionList(Made):
    items: list[HookSession]


class HookEventList(Made):
    items: list[HookEvent]


class HookAgent(Made):
    name: str
    agent: str
    model: str | None
    skills: str
    allowed_tools: list[str]
    timeout_s: float | None
    permissions: Permissions
    max_age_s: float | None


class HookRepo(Made):
    name: str
    path: str
    forge: ForgeName | None
    branch: str | None
    remote: str
    writers: list[str]


class HookRule(Made):
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


class HookForge(Made):
    forge: ForgeName
    url: str | None
    has_secret: bool
    has_token: bool


class HookSettings(Made):
    is_used: bool = Field(description="There are rules, sessions or events")
    work: int = Field(description="How many jobs this daemon carries out at once")
    agents: list[HookAgent]
    repos: list[HookRepo]
    rules: list[HookRule]
    forges: list[HookForge]


class SessionCount(Made):
    repo: str
    agent: str
    state: SessionState
    count: int


class EventCount(Made):
    forge: ForgeName
    state: EventState
    count: int


class HookCounts(Made):
    sessions: list[SessionCount]
    events: list[EventCount]


class Stats(review_shapes.Stats):
    hooks: HookCounts
