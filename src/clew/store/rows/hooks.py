"""The stored records of hooks, as rows and back."""

from __future__ import annotations

import json
from typing import NamedTuple

from clew.core.hooks.hook import Forge, HookEvent
from clew.store.records import Row, from_columns, record_from


class StoredHook(NamedTuple):
    """An event that a forge sent, and how it was handled."""

    id: str
    event: HookEvent
    state: str  # received, dispatched, ignored, failed
    why: str | None
    tries: int
    jobs: tuple[str, ...]
    received_at: float
    done_at: float | None


class HookKey(NamedTuple):
    """A session key: the thread in which its agent continues."""

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
    """What a job of a hook is for, and whether its answer was posted as a comment."""

    job_id: str
    hook_id: str  # the event
    key: str
    branch: str | None  # that the work tree has checked out
    fetch_ref: str | None
    tree_update: str
    reply: str  # none, waiting, posting, posted, failed, or withheld because it contained a secret
    why: str | None
    url: str | None
    tries: int
    at: float


def hook_from(row: Row) -> StoredHook:
    body = json.loads(row["event"])
    event = record_from(HookEvent, body | {"forge": Forge(body["forge"]), "labels": tuple(body["labels"])})
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
