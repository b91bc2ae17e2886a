"""The sync base: what was last the same here and at a remote. It is kept in this store, by remote and thread.

A remote can be older than the base: it may be a copy, or restored from a backup. Then its newest manifest is one that
both sides had before, and everything newer is only here. The address of an encrypted remote is kept as well: an
attacker who replaces the remote with an unencrypted one knows its address, but not its id.
"""

from __future__ import annotations

import json

from clew.core.record import Record, replace
from clew.engine.engine import Engine
from clew.errors import UsageError
from clew.hosts.transfer.remote.chunks import Manifest
from clew.hosts.transfer.remote.remote import Remote
from clew.store.store import Store

MAX_PAST = 100  # digests of earlier pushes that are kept


class SyncBase(Record):
    """The last state that both sides had in common."""

    number: int
    manifest: str  # the digest of the manifest
    state: str  # the digest of our rows
    trying: str | None = None  # the digest of a manifest whose push may have been interrupted
    past: tuple[str, ...] = ()  # digests of earlier manifests that both sides had, the latest first

    def followed_by(self, number: int, manifest: str, state: str) -> SyncBase:
        """The base after a push or a pull of that manifest."""
        past = [each for each in dict.fromkeys((self.manifest, *self.past)) if each not in ("", manifest)]
        return SyncBase(number, manifest, state, past=tuple(past[:MAX_PAST]))


NO_BASE = SyncBase(0, "", "")


async def load_base(engine: Engine, remote: Remote, thread_id: str, theirs: Manifest | None) -> SyncBase | None:
    """The base, if the remote still has it. None: there is none, or the remote was replaced."""
    kept = await engine.store.call(lambda store: store.key_values.get(_base_key(remote, thread_id)))
    base = _read(kept) if kept is not None else None
    if base is None or theirs is None:
        return None
    if base.trying is not None:  # did that manifest arrive before the push was interrupted?
        tried = await remote.manifest(thread_id, base.number + 1)
        if tried is not None and tried.digest == base.trying:
            return base.followed_by(tried.number, tried.digest, tried.state)
    if theirs.digest == base.manifest:
        return base
    if theirs.digest in base.past:
        return base.followed_by(theirs.number, theirs.digest, "")  # everything here is newer than that push
    there = await remote.manifest(thread_id, base.number) if 0 < base.number < theirs.number else None
    return base if there is not None and there.digest == base.manifest else None


async def refuse_unencrypted(engine: Engine, remote: Remote) -> None:
    """Raises UsageError for a remote that is not encrypted, if a remote at that address was encrypted before."""
    if remote.is_encrypted:
        return
    if await engine.store.call(lambda store: store.key_values.get(_encrypted_key(remote))) is not None:
        raise UsageError(
            f"{remote.url} is not encrypted, and it was when this machine last used it.",
            hint="Find out who changed it. If you started it anew, use another address.",
        )


async def save_base(engine: Engine, remote: Remote, thread_id: str, base: SyncBase) -> None:
    await engine.store.call(lambda store: write_base(store, remote, thread_id, base))


def write_base(store: Store, remote: Remote, thread_id: str, base: SyncBase) -> None:
    store.key_values.set(_base_key(remote, thread_id), json.dumps(base.as_dict()))
    if remote.is_encrypted:
        store.key_values.set(_encrypted_key(remote), "yes")


def _read(kept: str) -> SyncBase:
    base = SyncBase(**json.loads(kept))
    return replace(base, past=tuple(base.past))


def _base_key(remote: Remote, thread_id: str) -> str:
    return f"remote/{remote.id}/{thread_id}"


def _encrypted_key(remote: Remote) -> str:
    return f"encrypted/{remote.url}"
