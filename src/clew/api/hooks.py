"""Hooks for surfaces: receive a forge's messages, preview them, reset, sweep and import sessions, show everything.

The rules are in `client.hooks`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from clew.api.client import Client
from clew.api.operations import Operation, Report
from clew.api.wire import hook_preview as wire
from clew.config.hooks import SECRET
from clew.core.hooks.hook import Forge, HookEvent, session_key
from clew.core.record import Record
from clew.errors import Cancelled, NotFound, UsageError
from clew.hosts.hooks.event_file import EventSource, event_in, guessed
from clew.hosts.hooks.forge import events as forge_events
from clew.hosts.hooks.planner import PlannedJob
from clew.hosts.hooks.preview import preview_job
from clew.hosts.hooks.session_import import ImportedKey as ImportedKey
from clew.hosts.hooks.session_import import import_sessions as import_into
from clew.hosts.hooks.sessions import HookSession as HookSession
from clew.hosts.hooks.sweep import Swept as Swept
from clew.store.rows.hooks import StoredHook as StoredHook
from clew.system.timestamps import stamp
from clew.wiring import hooks as wiring

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


def check_templates(client: Client) -> None:
    """Raises ConfigError if the settings are wrong, or if a template would fail when an event arrives."""
    wiring.check(client.hooks)


class EventFile(Record):
    """The content of a file with an event."""

    event: HookEvent | None  # None: Clew does not handle events of its kind
    why: str | None = None  # why not


def read_event(
    client: Client, content: bytes, name: str, *, forge: Forge | None = None, event: str | None = None
) -> EventFile:
    """Reads an event: a payload as a forge sends it, or an event as Clew stores it. Raises UsageError.

    `forge` and `event` (the name in the forge's header) are needed for a payload, unless the file's `name` says them:
    gitea.issues.opened.json.
    """
    source = guessed(EventSource(name, forge, event), Path(name).name)
    found = event_in(content, source, f"fired-{client.engine.context.new_id()}")
    why = None if found is not None else f"Clew does not handle {source.event or '?'} events of this kind"
    return EventFile(found, why)


async def preview(client: Client, file: EventFile) -> wire.HookPreview:
    """What the event would start now: which agents, where, and with which prompts. Nothing is stored.

    If a rule needs it and the environment has a token, the forge is asked whether the actor has write access.
    """
    event = file.event
    if event is None:
        return wire.HookPreview(event=None, why=file.why, planned=[], dropped=[])
    plan = await client.hooks.planner.plan(event)
    return wire.HookPreview.of(
        event=event.as_dict() | {"delivery": None},
        why=None if plan.jobs or plan.dropped else plan.ignored,
        planned=[await _planned(client, each) for each in plan.jobs],
        dropped=plan.dropped,
    )


async def _planned(client: Client, job: PlannedJob) -> wire.PlannedHookJob:
    agent, rule = job.agent, job.match.rule
    return wire.PlannedHookJob.of(
        await preview_job(client.engine, job),
        key=job.key,
        agent=agent.name,
        cli=agent.agent,
        model=agent.model,
        permissions=agent.permissions,
        rule=client.hooks.settings.rules.index(rule) + 1,
        rule_command=rule.command,
        command=job.match.command,
        work_tree=job.cwd,
        comment=rule.comment,
    )


async def import_sessions(
    client: Client, old: Mapping[str, object], *, replace: bool = False, dry_run: bool = False
) -> list[ImportedKey]:
    """Adopts the sessions of an old sessions.json, an object of keys and session ids. One that fails stops no other."""
    return await import_into(client.engine, client.hooks, old, replace=replace, dry_run=dry_run)


def sweep(client: Client, *, dry_run: bool = False, new_id: str | None = None) -> Operation[list[Swept]]:
    """Drops the sessions and work trees that clean-up events missed (`HookSweep`), as an operation.

    A cancel takes effect before the next key, so that no key is half done. Another sweep continues.
    """
    hooks = client.hooks  # raises ConfigError here, not in the operation

    async def work(operation: Operation[list[Swept]], report: Report) -> list[Swept]:
        cancelled = asyncio.Event()
        operation.stop_with(cancelled.set)

        def progress(key: str, done: int, total: int) -> None:
            if cancelled.is_set():
                raise Cancelled("The sweep was cancelled.", hint="Another sweep continues it.")
            report.progress(key, done, total, key=key)

        return await hooks.sweep.run(dry_run=dry_run, progress=progress)

    def shaped(found: list[Swept]) -> wire.HookSweepResult:
        return wire.HookSweepResult(dry_run=dry_run, items=[wire.SweptHookKey.of(each) for each in found])

    return client.operations.start("sweep", work, shaped, new_id=new_id)
