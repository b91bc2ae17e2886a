"""Two threads side by side: their turns, and what their agents wrote to files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from clew.agents.adapter import Adapter
from clew.core.branching.compare import DiffKind, TurnDiff, align
from clew.core.branching.edits import FileDiff, FileDiffKind, FileEdit, compare_files
from clew.core.history import History
from clew.core.record import Record
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.hosts.branching.edits_made import edits_of
from clew.hosts.validation import single_thread
from clew.store.store import Store


class Comparison(Record):
    """What two threads have in common, and what not."""

    a: Thread
    b: Thread
    turns: tuple[TurnDiff, ...]
    files: tuple[FileDiff, ...]
    part: str | None = None  # of a pair: whose threads they are

    @property
    def is_same(self) -> bool:
        """As far as it is known: of some edits only the file's name is."""
        return all(turn.step is DiffKind.SAME for turn in self.turns) and all(
            file.step in (FileDiffKind.SAME, FileDiffKind.BOTH) for file in self.files
        )


class _Read(Record):
    """A thread in one moment's state."""

    thread: Thread
    history: History
    edits: Mapping[str, tuple[FileEdit, ...]]  # by run


async def compare(engine: Engine, a: str, b: str) -> tuple[Comparison, ...]:
    """Two threads; or two pairs, part by part. Raises NotFound and UsageError."""

    def read(store: Store) -> list[tuple[str | None, _Read, _Read]]:
        with store.reading():  # one moment's view, and nobody waits for it
            return [
                (part, _read(store, one, engine.adapter), _read(store, other, engine.adapter))
                for part, one, other in _named(store, a, b)
            ]

    found = await engine.store.call(read)
    return tuple([await asyncio.to_thread(_compared, part, one, other) for part, one, other in found])


def _named(store: Store, a: str, b: str) -> Iterator[tuple[str | None, Thread, Thread]]:
    pairs = [store.pairs.find(name) if store.threads.find(name) is None else None for name in (a, b)]
    if pairs[0] is None or pairs[1] is None:
        yield None, single_thread(store, a), single_thread(store, b)
        return
    for part, one_id, other_id in (
        ("instructor", pairs[0].instructor_thread_id, pairs[1].instructor_thread_id),
        ("worker", pairs[0].worker_thread_id, pairs[1].worker_thread_id),
    ):
        yield part, store.threads.require(one_id), store.threads.require(other_id)


def _read(store: Store, thread: Thread, adapter: Callable[[str], Adapter]) -> _Read:
    return _Read(thread, store.turns.history(thread.id), edits_of(store, thread, adapter))


def _compared(part: str | None, a: _Read, b: _Read) -> Comparison:
    turns = align(a.history, b.history)
    files = compare_files(
        [*_brought_along(turns, b.edits, a.edits), *_all(a.edits)],
        [*_brought_along(turns, a.edits, b.edits), *_all(b.edits)],
    )
    return Comparison(a.thread, b.thread, tuple(turns), tuple(files), part)


def _brought_along(
    turns: list[TurnDiff], theirs: Mapping[str, tuple[FileEdit, ...]], ours: Mapping[str, tuple[FileEdit, ...]]
) -> Iterator[FileEdit]:
    """A fork has turns of the other thread, and not its runs: what those wrote belongs to both."""
    seen = set[str]()
    for turn in turns:
        runs = {each.run_id for each in (turn.a, turn.b) if each is not None and each.run_id is not None}
        if turn.step is DiffKind.SAME and not runs & ours.keys():
            for run in sorted((runs & theirs.keys()) - seen):
                seen.add(run)
                yield from theirs[run]


def _all(edits: Mapping[str, tuple[FileEdit, ...]]) -> list[FileEdit]:
    return [edit for of_run in edits.values() for edit in of_run]
