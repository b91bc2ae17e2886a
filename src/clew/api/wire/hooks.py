"""Hooks: sessions, events and settings. api/hooks.py makes those that need the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from clew.api.wire.shape import Doc, Permissions, Shape, Time

if TYPE_CHECKING:
    from clew.hosts.hooks.sessions import HookSession as HookSessionRecord
    from clew.store.rows.hooks import StoredHook

TITLE_MAX_CHARS = 300

ForgeName = Literal["github", "gitea", "forgejo"]
EventState = Literal["received", "dispatched", "ignored", "failed"]
SessionState = Literal["running", "resumable", "fresh"]


class HookReceipt(Shape):
    """What became of a forge's message."""

    id: Annotated[str | None, Doc("The event's id, if it was received")]
    state: Literal["received", "duplicate", "ignored"]


class HookDropped(Shape):
    dropped: Annotated[bool, Doc("Whether there was a session")]


class HookEvent(Shape):
    """An event of a forge, and what became of it."""

    id: str
    forge: ForgeName
    delivery: Annotated[str, Doc("The forge's own id of the message")]
    kind: str
    repo: str
    number: Annotated[int | None, Doc("The issue's or pull request's number; null for an event of a branch")]
    branch: str | None
    actor: Annotated[str, Doc("The user who caused the event")]
    title: str
    url: str
    state: EventState
    why: Annotated[str | None, Doc("Why no agent was started, or what became of a closed issue's work trees")]
    tries: int
    jobs: Annotated[list[str], Doc("The ids of its jobs")]
    received_at: Time
    done_at: Time | None


class HookSession(Shape):
    """A session key and its session."""

    key: str
    agent: str
    repo: str
    number: int
    forge: ForgeName | None
    state: Annotated[SessionState, Doc("What the next event would do: wait, resume, or start a fresh session")]
    session_id: str | None
    thread_id: str
    branch: str | None
    last_event: Annotated[HookEvent | None, Doc("The last event that started the agent")]
    created_at: Time
    used_at: Time


class HookSessionList(Shape):
    items: list[HookSession]


class HookEventList(Shape):
    items: list[HookEvent]


class HookAgent(Shape):
    name: str
    agent: str
    model: str | None
    skills: str
    allowed_tools: list[str]
    timeout_s: float | None
    permissions: Permissions
    max_age_s: float | None


class HookRepo(Shape):
    name: str
    path: str
    forge: ForgeName | None
    branch: str | None
    remote: str
    writers: list[str]


class HookRule(Shape):
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


class HookForge(Shape):
    forge: ForgeName
    url: str | None
    has_secret: bool
    has_token: bool


class HookSettings(Shape):
    is_used: Annotated[bool, Doc("Whether there are rules, sessions or events")]
    agents: list[HookAgent]
    repos: list[HookRepo]
    rules: list[HookRule]
    forges: list[HookForge]
    work: Annotated[int, Doc("How many jobs this daemon runs at once")]


class SessionCount(Shape):
    repo: str
    agent: str
    state: SessionState
    count: int


class EventCount(Shape):
    forge: ForgeName
    state: EventState
    count: int


class HookCounts(Shape):
    sessions: list[SessionCount]
    events: list[EventCount]


def hook_event(stored: StoredHook) -> HookEvent:
    return HookEvent.of(stored, stored.event, title=stored.event.title[:TITLE_MAX_CHARS])


def hook_session(session: HookSessionRecord, last: StoredHook | None) -> HookSession:
    key = session.key
    last_event = None if last is None else hook_event(last)
    return HookSession.of(session, key, key=key.key, number=key.issue, last_event=last_event)


def hook_counts(sessions: Mapping[tuple[str, str, str], int], events: Mapping[tuple[str, str], int]) -> HookCounts:
    return HookCounts(
        sessions=[
            SessionCount.of(repo=repo, agent=agent, state=state, count=count)
            for (repo, agent, state), count in sorted(sessions.items())
        ],
        events=[
            EventCount.of(forge=forge, state=state, count=count) for (forge, state), count in sorted(events.items())
        ],
    )
