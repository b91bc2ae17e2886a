"""Compares two threads: their turns, and what their agents wrote to files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from clew.agents.adapter import Adapter
from clew.core.branching.compare import DiffKind, TurnDiff, align
from clew.core.branching.edits import FileDiff, FileDiffKind, FileEdit, compare_files
from clew.core.history import History
from clew.core.pairs.pair import PairPart
from clew.core.record import Record
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.hosts.branching.edits_made import edits_of
from clew.hosts.validation import single_thread
from clew.store.store import Store


class Comparison(Record):
    """What two threads have in common, and where they differ."""

    a: Thread
    b: Thread
    turns: tuple[TurnDiff, ...]
    files: tuple[FileDiff, ...]
    part: str | None = None  # if they belong to pairs: the part, such as "worker"

    @property
    def is_same(self) -> bool:
        """Whether nothing is known to differ. Of some edits only the name of the file is known."""
        return all(turn.step is DiffKind.SAME for turn in self.turns) and all(
            file.step in (FileDiffKind.SAME, FileDiffKind.BOTH) for file in self.files
        )


class _ThreadContent(Record):
    """A thread, as it was at one moment."""

    thread: Thread
    history: History
    edits: Mapping[str, tuple[FileEdit, ...]]  # by run


async def compare(engine: Engine, a: str, b: str) -> tuple[Comparison, ...]:
    """Compares two threads, or two pairs part by part. Raises NotFound and UsageError."""

    def read(store: Store) -> list[tuple[str | None, _ThreadContent, _ThreadContent]]:
        with store.reading():  # a consistent view that blocks no writer
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
    for part in PairPart:
        one, other = (store.threads.require(pair.thread_of(part)) for pair in (pairs[0], pairs[1]))
        yield part.value, one, other


def _read(store: Store, thread: Thread, adapter: Callable[[str], Adapter]) -> _ThreadContent:
    return _ThreadContent(thread, store.turns.history(thread.id), edits_of(store, thread, adapter))


def _compared(part: str | None, a: _ThreadContent, b: _ThreadContent) -> Comparison:
    turns = align(a.history, b.history)
    files = compare_files(
        [*_edits_of_copied_turns(turns, b.edits, a.edits), *_all(a.edits)],
        [*_edits_of_copied_turns(turns, a.edits, b.edits), *_all(b.edits)],
    )
    return Comparison(a.thread, b.thread, tuple(turns), tuple(files), part)


def _edits_of_copied_turns(
    turns: list[TurnDiff], theirs: Mapping[str, tuple[FileEdit, ...]], ours: Mapping[str, tuple[FileEdit, ...]]
) -> Iterator[FileEdit]:
    """The edits of turns that a fork has copied. The copies have no runs, but their edits belong to both threads."""
    seen = set[str]()
    for turn in turns:
        runs = {each.run_id for each in (turn.a, turn.b) if each is not None and each.run_id is not None}
        if turn.step is DiffKind.SAME and not runs & ours.keys():
            for run in sorted((runs & theirs.keys()) - seen):
                seen.add(run)
                yield from theirs[run]


def _all(edits: Mapping[str, tuple[FileEdit, ...]]) -> list[FileEdit]:
    return [edit for of_run in edits.values() for edit in of_run]
