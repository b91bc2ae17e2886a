"""Renames a pair: the pair itself, its two threads, and the name in its state file."""

from __future__ import annotations

import asyncio

from clew.core.pairs.pair import PAIR_NAME_CHARS, Pair, PairPart
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.errors import UsageError
from clew.hosts.pairs import folder, saving
from clew.hosts.pairs.live import check_free
from clew.hosts.validation import check_name
from clew.store.store import Store


class Renamed(Record):
    """A pair under its new name."""

    pair: Pair
    names: tuple[tuple[str, str], ...]  # of the pair and of its threads: before, now
    trouble: str | None = None  # why its state file still has the old name


def check_pair_name(name: str) -> None:
    check_name(name)
    if len(name) > PAIR_NAME_CHARS:
        raise UsageError(f"The name is longer than {PAIR_NAME_CHARS} characters.")


def thread_name(pair_name: str, part: PairPart) -> str:
    return f"pair-{pair_name}-{part}"


async def rename(engine: Engine, name: str, new: str) -> Renamed | None:
    """Renames the pair and its threads, all or none. Returns None if `name` is a thread's name, or unknown.

    A rename does not count as a use of the pair: its time of last use stays. Raises UsageError, Conflict, and Busy
    while the pair is running.
    """

    def renamed(store: Store) -> Renamed | None:
        pair = store.pairs.find(name) if store.threads.find(name) is None else None
        if pair is None:
            return None
        check_pair_name(new)
        check_free(store, engine, pair)
        names = [(pair.name, new)]
        hint = pair.hint and pair.hint.replace(f"--session {pair.name} ", f"--session {new} ")
        pair = store.pairs.rename(pair.id, new, hint=hint)
        for part in PairPart:
            thread = store.threads.require(pair.thread_of(part))
            now = store.threads.update(thread.id, at=thread.updated_at, name=thread_name(pair.name, part))
            names.append((thread.name, now.name))
        return Renamed(pair, tuple(names))

    done = await engine.store.atomically(renamed)
    if done is None or not (path := folder.path_of(done.pair.cwd, done.pair.id)).is_file():
        return done
    whole = await engine.store.call(lambda store: saving.saved_pair(store, done.pair.id))
    try:
        await asyncio.to_thread(saving.write, whole, engine.context.environ)
    except OSError as error:
        return done.replace(trouble=saving.not_written(path, error))
    return done
