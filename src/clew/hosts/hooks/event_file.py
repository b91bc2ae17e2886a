"""Reads an event from a file: a payload as a forge sends it, or an event as Clew stores it."""

from __future__ import annotations

import json
from typing import Any

from clew.core.hooks.hook import KINDS, Forge, HookEvent, is_repo
from clew.core.record import Record, fields_of
from clew.errors import UsageError
from clew.hosts.hooks.forge.events import NotAnEvent, read_event

TEXTS = ("repo", "actor", "title", "body", "text", "author", "url")
OPTIONAL_TEXTS = ("association", "label", "assignee", "reviewer", "branch", "base", "commit", "comment_path")


class EventSource(Record):
    """Which forge sent the payload, and as which event."""

    name: str  # of the file, for messages
    forge: Forge | None
    event: str | None  # the name in the forge's header: issues, pull_request, …


def guessed(source: EventSource, file_name: str) -> EventSource:
    """The source, completed from the file's name: gitea.issues.opened.json."""
    parts = file_name.split(".")
    named = parts[0] if parts[0] in {forge.value for forge in Forge} else None
    forge = source.forge or (Forge(named) if named else None)
    event = source.event or (parts[1] if named and len(parts) > 2 else None)
    return source.replace(forge=forge, event=event)


def event_in(raw: bytes, source: EventSource, delivery: str) -> HookEvent | None:
    """The event in the file. None: it is of a kind that Clew does not handle. Raises UsageError."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source.name} is not JSON.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{source.name} is not a JSON object.")
    if isinstance(content.get("kind"), str) and "repository" not in content:
        return _own(content, source, delivery)
    if source.forge is None or source.event is None:
        what = "which forge sent it" if source.forge is None else "which event it is"
        raise UsageError(
            f"{source.name} does not say {what}: a forge sends that in a header, not in the payload.",
            hint="Name it with --forge and --event, or call the file FORGE.EVENT.what.json: gitea.issues.opened.json.",
        )
    name = source.forge.value
    headers = {f"x-{name}-event": source.event, f"x-{name}-delivery": delivery, "content-type": "application/json"}
    try:
        return read_event(source.forge, headers, raw)
    except NotAnEvent as error:
        raise UsageError(
            f"{source.name} is not a {source.event} event of {name}: {error}.", hint="Check --forge and --event."
        ) from error


def _own(content: dict[str, Any], source: EventSource, delivery: str) -> HookEvent:
    """The event in a file that has the fields of HookEvent. Missing fields get defaults; a delivery id is ignored."""

    def wrong(what: str) -> UsageError:
        return UsageError(f"{source.name}: {what}.", hint="docs/hooks.md lists the fields of an event.")

    given = {name: value for name, value in content.items() if name != "delivery"}
    unknown = given.keys() - set(fields_of(HookEvent))
    if unknown:
        raise wrong(f"an event has no {', '.join(sorted(unknown))}")
    if given["kind"] not in KINDS:
        raise wrong(f"{given['kind']!r} is not a kind of event; known: {', '.join(KINDS)}")
    given["forge"] = source.forge or _forge(given.get("forge", Forge.GITHUB), wrong)
    for name in (*TEXTS, *OPTIONAL_TEXTS):
        if not isinstance(given.get(name, ""), str) and (name in TEXTS or given[name] is not None):
            raise wrong(f"{name} is not a text")
    if not is_repo(given.get("repo", "")):
        raise wrong("repo is not of the form owner/name")
    if not given.get("actor"):
        raise wrong("actor is missing: name who did it")
    for name in ("number", "comment_line"):
        value = given.get(name)
        if value is not None and (type(value) is not int or not 0 < value < 2**63):
            raise wrong(f"{name} is not a positive whole number")
    if given.get("number") is None and not given["kind"].startswith("branch."):
        raise wrong(f"number is missing: {given['kind']} is about an issue or a pull request")
    labels = given.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
        raise wrong("labels is not a list of texts")
    for name in ("from_fork", "own_words"):
        if type(given.get(name, False)) is not bool:
            raise wrong(f"{name} is neither true nor false")
    return HookEvent(**{"number": None} | given | {"labels": tuple(labels), "delivery": delivery})


def _forge(value: object, wrong: Any) -> Forge:
    try:
        return Forge(value)  # type: ignore[arg-type]
    except ValueError:
        raise wrong(f"forge is not one of {', '.join(Forge)}") from None
