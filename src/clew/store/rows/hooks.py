"""What the store keeps of hooks, as rows and back. Loaded when the first is touched: most commands never do."""

from __future__ import annotations

import json
from typing import NamedTuple

from clew.core.hooks.hook import Forge, HookEvent
from clew.core.record import fields_of
from clew.store.records import Row, from_columns


class StoredHook(NamedTuple):
    """An event that a forge told, and what became of it."""

    id: str
    event: HookEvent
    state: str  # received, dispatched, ignored, failed
    why: str | None
    tries: int
    jobs: tuple[str, ...]
    received_at: float
    done_at: float | None


class HookKey(NamedTuple):
    """Where the agent of a key left off."""

    key: str
    agent: str
    repo: str
    issue: int
    forge: str | None
    thread_id: str
    branch: str | None
    created_at: float
    used_at: float


class HookJob(NamedTuple):
    """What a job of a hook is for, and how far its final words have come."""

    job_id: str
    hook_id: str  # the event
    key: str
    branch: str | None  # for the work tree
    fetch_ref: str | None
    tree_update: str
    reply: str  # none, waiting, posting, posted, failed, withheld: it held a secret
    why: str | None
    url: str | None
    tries: int
    at: float


def hook_from(row: Row) -> StoredHook:
    body = {name: value for name, value in json.loads(row["event"]).items() if name in fields_of(HookEvent)}
    event = HookEvent(**body | {"forge": Forge(body["forge"]), "labels": tuple(body["labels"])})
    return StoredHook(
        row["id"],
        event,
        row["state"],
        row["why"],
        row["tries"],
        tuple(json.loads(row["jobs"])),
        row["received_at"],
        row["done_at"],
    )


def key_from(row: Row) -> HookKey:
    return from_columns(HookKey, row)


def job_from(row: Row) -> HookJob:
    return from_columns(HookJob, row)
