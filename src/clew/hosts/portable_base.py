"""What was last the same here and at a remote: kept here, as a fact of the store, by remote and thread."""

from __future__ import annotations

import json

from clew.core.record import Record
from clew.engine.engine import Engine
from clew.hosts.portable_pieces import Manifest
from clew.hosts.portable_remote import Remote
from clew.store.store import Store


class Base(Record):
    """What was last the same on both sides."""

    number: int
    manifest: str  # its digest
    state: str  # what our rows said
    trying: str | None = None  # the digest of a manifest whose push may have been cut off


async def base_of(engine: Engine, remote: Remote, thread_id: str, theirs: Manifest | None) -> Base | None:
    """What was kept, if the remote still has it: one that was begun anew knows nothing of it."""
    kept = await engine.database.call(lambda store: store.fact(_fact(remote, thread_id)))
    base = Base(**json.loads(kept)) if kept is not None else None
    if base is None or theirs is None:
        return None
    if base.trying is not None:  # did it get there before we were cut off?
        tried = await remote.manifest(thread_id, base.number + 1)
        if tried is not None and tried.digest == base.trying:
            return Base(tried.number, tried.digest, tried.state)
    if base.number == theirs.number:
        there: Manifest | None = theirs
    else:
        there = await remote.manifest(thread_id, base.number) if 0 < base.number < theirs.number else None
    return base if there is not None and there.digest == base.manifest else None


async def keep(engine: Engine, remote: Remote, thread_id: str, base: Base) -> None:
    await engine.database.call(lambda store: save(store, remote, thread_id, base))


def save(store: Store, remote: Remote, thread_id: str, base: Base) -> None:
    store.save_fact(_fact(remote, thread_id), json.dumps(base.as_dict()))


def _fact(remote: Remote, thread_id: str) -> str:
    return f"remote/{remote.id}/{thread_id}"
