"""Hooks for surfaces: receive a forge's messages, reset sessions, and show everything as wire shapes.

The rules are in `client.hooks`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Literal

from clew.api.client import Client
from clew.api.wire import hooks as wire
from clew.config.hooks import SECRET
from clew.core.hooks.hook import Forge, HookEvent, session_key
from clew.core.record import Record
from clew.errors import NotFound, UsageError
from clew.hosts.hooks.forge import events as forge_events

LARGE_BYTES = 256 * 1024  # a larger body is read in a thread, so as not to block the event loop

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


async def sessions(client: Client) -> wire.HookSessionList:
    """All sessions, by repository, number and agent."""
    last = await client.hooks.last_events()
    found = await client.hooks.sessions.list()
    return wire.HookSessionList(items=[wire.hook_session(each, last.get(each.key.key)) for each in found])


async def settings(client: Client, *, work: int) -> wire.HookSettings:
    """The settings of the user's file; of secrets and tokens only whether they are set.

    `work` is the number of jobs that the daemon runs at once.
    """
    known = client.hooks.settings
    return wire.HookSettings(
        is_used=await is_used(client),
        agents=[wire.HookAgent.of(agent) for agent in known.agents],
        repos=[wire.HookRepo.of(repo) for repo in known.repos],
        rules=[wire.HookRule.of(rule) for rule in known.rules],
        forges=[_forge(client, forge) for forge in Forge],
        work=work,
    )


def _forge(client: Client, forge: Forge) -> wire.HookForge:
    keys = client.hook_keys(forge)
    return wire.HookForge(
        forge=forge.value,
        url=client.hooks.settings.url(forge),
        has_secret=keys.secret is not None,
        has_token=keys.token is not None,
    )


async def counts(client: Client) -> wire.HookCounts:
    return wire.hook_counts(await client.hooks.sessions.counts(), await client.hooks.event_counts())
