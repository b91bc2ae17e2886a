"""What was last the same here and at a remote: kept here, as a fact of the store, by remote and thread.

A remote can be older than that: a copy of it, or one that came back out of a backup. Then its newest push is one of
those that were the same before, and all that came after is ours. And who put a remote in the clear in the place of an
encrypted one knows its address, but not its id: so the address is kept as well.
"""

from __future__ import annotations

import json

from clew.core.record import Record, replace
from clew.engine.engine import Engine
from clew.errors import UsageError
from clew.hosts.portable_pieces import Manifest
from clew.hosts.portable_remote import Remote
from clew.store.store import Store

PAST_MOST = 100  # pushes that are remembered


class Base(Record):
    """What was last the same on both sides."""

    number: int
    manifest: str  # its digest
    state: str  # what our rows said
    trying: str | None = None  # the digest of a manifest whose push may have been cut off
    past: tuple[str, ...] = ()  # digests of manifests that were the same before it, the latest first

    def then(self, number: int, manifest: str, state: str) -> Base:
        """What came of it."""
        past = [each for each in dict.fromkeys((self.manifest, *self.past)) if each not in ("", manifest)]
        return Base(number, manifest, state, past=tuple(past[:PAST_MOST]))


NOTHING = Base(0, "", "")


async def base_of(engine: Engine, remote: Remote, thread_id: str, theirs: Manifest | None) -> Base | None:
    """What was kept, if the remote still has it: one that was begun anew knows nothing of it."""
    kept = await engine.database.call(lambda store: store.fact(_fact(remote, thread_id)))
    base = _read(kept) if kept is not None else None
    if base is None or theirs is None:
        return None
    if base.trying is not None:  # did it get there before we were cut off?
        tried = await remote.manifest(thread_id, base.number + 1)
        if tried is not None and tried.digest == base.trying:
            return base.then(tried.number, tried.digest, tried.state)
    if theirs.digest == base.manifest:
        return base
    if theirs.digest in base.past:
        return base.then(theirs.number, theirs.digest, "")  # no state of ours: what is here came after it
    there = await remote.manifest(thread_id, base.number) if 0 < base.number < theirs.number else None
    return base if there is not None and there.digest == base.manifest else None


async def refuse_opened(engine: Engine, remote: Remote) -> None:
    """Raises UsageError for one in the clear where an encrypted one was."""
    if remote.is_encrypted:
        return
    if await engine.database.call(lambda store: store.fact(_closed(remote))) is not None:
        raise UsageError(
            f"{remote.url} is not encrypted, and it was when this machine last used it.",
            hint="See who has changed it. One that you made anew needs another address.",
        )


async def keep(engine: Engine, remote: Remote, thread_id: str, base: Base) -> None:
    await engine.database.call(lambda store: save(store, remote, thread_id, base))


def save(store: Store, remote: Remote, thread_id: str, base: Base) -> None:
    store.save_fact(_fact(remote, thread_id), json.dumps(base.as_dict()))
    if remote.is_encrypted:
        store.save_fact(_closed(remote), "yes")


def _read(kept: str) -> Base:
    base = Base(**json.loads(kept))
    return replace(base, past=tuple(base.past))


def _fact(remote: Remote, thread_id: str) -> str:
    return f"remote/{remote.id}/{thread_id}"


def _closed(remote: Remote) -> str:
    return f"encrypted/{remote.url}"
