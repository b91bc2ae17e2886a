"""Hooks as surfaces need them: what a forge says is heard, sessions are reset, and all of it is shown.

Built on `client.hooks`; the rules are there.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Literal

from clew.client import Client
from clew.core.hook import Forge, HookEvent, session_key
from clew.core.record import Record
from clew.errors import NotFound, UsageError
from clew.hooks_config import SECRET
from clew.hosts import forge_events
from clew.hosts.hook_sessions import Session
from clew.store.hook_rows import StoredHook

LARGE_BYTES = 256 * 1024  # of a body that is looked at in a thread: it would hold the others up
TITLE_MOST = 300

Body = dict[str, Any]
Stamp = Callable[[float | None], str | None]
State = Literal["received", "duplicate", "ignored", "unsigned", "malformed"]


class Told(Record):
    """What became of a message."""

    state: State
    id: str | None = None  # of the event, when it was received
    why: str | None = None  # when it is malformed


async def hear(client: Client, forge: Forge, headers: Mapping[str, str], body: bytes) -> Told:
    """A forge's message; headers have names in lower case. On disk when this says that it was received.

    Who does not know the secret is not listened to: nothing of the body is read before that is clear. Raises NotFound
    where there is no secret.
    """
    secret = client.hook_keys(forge).secret
    if secret is None:
        name = SECRET.format(forge.value.upper())
        raise NotFound(
            f"Hooks of {forge} are not listened to: there is no secret for them.",
            hint=f"Set {name} in the environment of clew serve, the same as at the forge.",
        )
    if len(body) > LARGE_BYTES:
        found = await asyncio.to_thread(_read, forge, headers, body, secret)
    else:
        found = _read(forge, headers, body, secret)
    if isinstance(found, Told):
        return found
    received = await client.hooks.receive(*found)
    return Told("received", received.id) if received.is_new else Told("duplicate")


def _read(forge: Forge, headers: Mapping[str, str], body: bytes, secret: str) -> Told | tuple[HookEvent, str]:
    """What became of it; or an event, and the digest of what was signed: no header tells a message sent again."""
    if not forge_events.check_signature(forge, headers, body, secret):
        return Told("unsigned")
    if forge_events.delivery_of(forge, headers) is None:
        return Told("malformed", why="the message has no delivery id")
    try:
        event = forge_events.read_event(forge, headers, body)
    except forge_events.NotAnEvent as error:
        return Told("malformed", why=str(error))
    if event is None:
        return Told("ignored")
    return event, hashlib.sha256(forge_events.signed_part(forge, headers, body)).hexdigest()


async def reset(client: Client, agent: str, repo: str, number: int) -> bool:
    """True: there was a session, and the next event begins afresh."""
    known = client.hooks.settings.repo(repo)
    try:
        key = session_key(agent, known.name if known is not None else repo, number)
    except ValueError as error:
        raise UsageError(f"{error}.".capitalize(), hint="They look like boss, charles/peon, 4.") from error
    return await client.hooks.drop_session(key)


async def is_used(client: Client) -> bool:
    """Is there anything to be seen of hooks: rules, sessions or events?"""
    hooks = client.hooks
    return bool(hooks.settings.rules or await hooks.event_counts() or await hooks.keys())


async def sessions_json(client: Client, stamp: Stamp) -> list[Body]:
    last = await client.hooks.last_events()
    return [session_json(each, last.get(each.key.key), stamp) for each in await client.hooks.sessions()]


def session_json(session: Session, last: StoredHook | None, stamp: Stamp) -> Body:
    key = session.key
    return {
        "key": key.key,
        "agent": key.agent,
        "repo": key.repo,
        "number": key.issue,
        "forge": key.forge,
        "state": session.state,
        "session_id": session.session_id,
        "thread_id": key.thread_id,
        "branch": key.branch,
        "last_event": None if last is None else event_json(last, stamp),
        "created_at": stamp(key.created_at),
        "used_at": stamp(key.used_at),
    }


def event_json(stored: StoredHook, stamp: Stamp) -> Body:
    event = stored.event
    return {
        "id": stored.id,
        "forge": event.forge.value,
        "delivery": event.delivery,
        "kind": event.kind,
        "repo": event.repo,
        "number": event.number,
        "branch": event.branch,
        "actor": event.actor,
        "title": event.title[:TITLE_MOST],
        "url": event.url,
        "state": stored.state,
        "why": stored.why,
        "tries": stored.tries,
        "jobs": list(stored.jobs),
        "received_at": stamp(stored.received_at),
        "done_at": stamp(stored.done_at),
    }


async def settings_json(client: Client) -> Body:
    """What the user's file says. Of secrets and tokens: whether there are any."""
    settings = client.hooks.settings
    return {
        "is_used": await is_used(client),
        "agents": [agent.as_dict() for agent in settings.agents],
        "repos": [repo.as_dict() for repo in settings.repos],
        "rules": [rule.as_dict() for rule in settings.rules],
        "forges": [_forge_json(client, forge) for forge in Forge],
    }


def _forge_json(client: Client, forge: Forge) -> Body:
    keys = client.hook_keys(forge)
    return {
        "forge": forge.value,
        "url": client.hooks.settings.url(forge),
        "has_secret": keys.secret is not None,
        "has_token": keys.token is not None,
    }


async def counts_json(client: Client) -> Body:
    sessions, events = await client.hooks.counts(), await client.hooks.event_counts()
    return {
        "sessions": [
            {"repo": repo, "agent": agent, "state": state, "count": count}
            for (repo, agent, state), count in sorted(sessions.items())
        ],
        "events": [
            {"forge": forge, "state": state, "count": count} for (forge, state), count in sorted(events.items())
        ],
    }
