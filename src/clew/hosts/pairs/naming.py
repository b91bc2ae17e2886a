"""Another name for a pair: its own, those of its two threads, and the one in its state file."""

from __future__ import annotations

import asyncio

from clew.core.pair import Pair, Part
from clew.core.record import Record
from clew.engine.engine import Engine
from clew.errors import UsageError
from clew.hosts import pair_folder, pair_saving
from clew.hosts.checks import check_name
from clew.hosts.pair_live import check_free
from clew.store.pairs import NAME_CHARS
from clew.store.store import Store


class Renamed(Record):
    """A pair under its new name."""

    pair: Pair
    names: tuple[tuple[str, str], ...]  # of the pair and of its threads: before, now
    trouble: str | None = None  # its state file has the old one still


def check_pair_name(name: str) -> None:
    check_name(name)
    if len(name) > NAME_CHARS:
        raise UsageError(f"The name is longer than {NAME_CHARS} characters.")


def thread_name(pair: Pair, part: Part) -> str:
    return f"pair-{pair.name}-{part}"


async def rename(engine: Engine, name: str, new: str) -> Renamed | None:
    """All of them or none. None: it is a thread's name, or no pair's. To rename is not to use: no time changes.

    Raises UsageError, Conflict and, while the pair is at work, Busy.
    """

    def renamed(store: Store) -> Renamed | None:
        pair = store.pair(name) if store.thread(name) is None else None
        if pair is None:
            return None
        check_pair_name(new)
        check_free(store, engine, pair)
        names = [(pair.name, new)]
        hint = pair.hint and pair.hint.replace(f"--session {pair.name} ", f"--session {new} ")
        pair = store.rename_pair(pair.id, new, hint=hint)
        for part in Part:
            thread = store.require_thread(pair.thread_of(part))
            now = store.update_thread(thread.id, at=thread.updated_at, name=thread_name(pair, part))
            names.append((thread.name, now.name))
        return Renamed(pair, tuple(names))

    done = await engine.database.atomically(renamed)
    if done is None or not (path := pair_folder.path_of(done.pair.cwd, done.pair.id)).is_file():
        return done
    whole = await engine.database.call(lambda store: pair_saving.whole_of(store, done.pair.id))
    try:
        await asyncio.to_thread(pair_saving.write, whole, engine.around.environ)
    except OSError as error:
        return done.replace(trouble=pair_saving.not_written(path, error))
    return done
