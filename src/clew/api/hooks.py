"""Hooks for surfaces: receive a forge's messages, reset sessions, and show everything as JSON.

The rules are in `client.hooks`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from clew.api.client import Client
from clew.config.hooks import SECRET
from clew.core.hooks.hook import Forge, HookEvent, session_key
from clew.core.record import Record
from clew.errors import NotFound, UsageError
from clew.hosts.hooks.forge import events as forge_events
from clew.hosts.hooks.sessions import HookSession
from clew.store.rows.hooks import StoredHook
from clew.system.timestamps import stamp

LARGE_BYTES = 256 * 1024  # a larger body is read in a thread, so as not to block the event loop
TITLE_MAX_CHARS = 300

Body = dict[str, Any]
State = Literal["received", "duplicate", "ignored", "unsigned", "malformed"]


class MessageResult(Record):
    """How a message was handled."""

    state: State
    id: str | None = None  # the id of the event, if it was received
    why: str | None = None  # what is wrong with a malformed message


async def receive_message(client: Client, forge: Forge, headers: Mapping[str, str], body: bytes) -> MessageResult:
    """Stores a forge's message; it is on disk when the result says `received`. Header names are in lower case.

    The signature is checked before anything of the body is read. Raises NotFound when no secret is set for the forge.
    """
    secret = client.hook_keys(forge).secret
    if secret is None:
        name = SECRET.format(forge.value.upper())
        raise NotFound(
            f"Hooks of {forge} are not accepted: no secret is set for them.",
            hint=f"Set {name} in the environment of clew serve to the same secret as at the forge.",
        )
    if len(body) > LARGE_BYTES:
        found = await asyncio.to_thread(_read, forge, headers, body, secret)
    else:
        found = _read(forge, headers, body, secret)
    if isinstance(found, MessageResult):
        return found
    received = await client.hooks.receive(*found)
    return MessageResult("received", received.id) if received.is_new else MessageResult("duplicate")


def _read(forge: Forge, headers: Mapping[str, str], body: bytes, secret: str) -> MessageResult | tuple[HookEvent, str]:
    """The event and a digest of the signed part, by which a repeated message is recognized; or the final result."""
    if not forge_events.check_signature(forge, headers, body, secret):
        return MessageResult("unsigned")
    if forge_events.delivery_of(forge, headers) is None:
        return MessageResult("malformed", why="the message has no delivery id")
    try:
        event = forge_events.read_event(forge, headers, body)
    except forge_events.NotAnEvent as error:
        return MessageResult("malformed", why=str(error))
    if event is None:
        return MessageResult("ignored")
    return event, hashlib.sha256(forge_events.signed_part(forge, headers, body)).hexdigest()


async def reset(client: Client, agent: str, repo: str, number: int) -> bool:
    """Drops the session of that key, so that the next event starts a fresh one. False: there was no session."""
    known = client.hooks.settings.repo(repo)
    try:
        key = session_key(agent, known.name if known is not None else repo, number)
    except ValueError as error:
        raise UsageError(f"{error}.".capitalize(), hint="They look like boss, charles/peon, 4.") from error
    return await client.hooks.sessions.drop(key)


async def is_used(client: Client) -> bool:
    """Whether there is anything to show: rules, sessions or events."""
    hooks = client.hooks
    return bool(hooks.settings.rules or await hooks.event_counts() or await hooks.sessions.keys())


async def sessions_json(client: Client) -> list[Body]:
    last = await client.hooks.last_events()
    return [session_json(each, last.get(each.key.key)) for each in await client.hooks.sessions.list()]


def session_json(session: HookSession, last: StoredHook | None) -> Body:
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
        "last_event": None if last is None else event_json(last),
        "created_at": stamp(key.created_at),
        "used_at": stamp(key.used_at),
    }


def event_json(stored: StoredHook) -> Body:
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
        "title": event.title[:TITLE_MAX_CHARS],
        "url": event.url,
        "state": stored.state,
        "why": stored.why,
        "tries": stored.tries,
        "jobs": list(stored.jobs),
        "received_at": stamp(stored.received_at),
        "done_at": stamp(stored.done_at),
    }


async def settings_json(client: Client) -> Body:
    """The settings of the user's file. Of secrets and tokens only whether they are set."""
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
    sessions, events = await client.hooks.sessions.counts(), await client.hooks.event_counts()
    return {
        "sessions": [
            {"repo": repo, "agent": agent, "state": state, "count": count}
            for (repo, agent, state), count in sorted(sessions.items())
        ],
        "events": [
            {"forge": forge, "state": state, "count": count} for (forge, state), count in sorted(events.items())
        ],
    }
