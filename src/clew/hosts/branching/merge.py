"""Merges two threads into a new one: the turns they have in common, then those of each, then a summary for the agent.

The two threads do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from clew.core.branching.compare import in_common
from clew.core.branching.edits import FileDiff, FileEdit, compare_files
from clew.core.branching.merge_prompts import MergeSide, attributed, brief, joined_standing
from clew.core.history import History, Role, Turn, Visibility
from clew.core.ids import ThreadId, TurnId
from clew.core.pairs.pair import PairPart
from clew.core.record import Record
from clew.core.thread import Origin, OriginKind, SourceThread, Thread, Trust, narrower
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.engine.rules.shown import inherit_source
from clew.errors import Conflict, UsageError
from clew.hosts.branching.edits_made import edits_of
from clew.hosts.validation import check_idle, check_name, existing_dir, single_thread
from clew.store.store import Store

MARK_CHARS = 12
Edits = Mapping[str, tuple[FileEdit, ...]]  # by run
NAME_CHARS = 35  # of each thread's name, in the name of the new one


class MergeOptions(Record):
    """Settings of the new thread.

    None: agent and directory are those of the first thread, the model is one that a thread uses with this agent, and
    the name is made from both names.
    """

    name: str | None = None
    agent: str | None = None
    model: str | None = None
    cwd: str | None = None


class MergeSources(Record):
    """The two threads, as they were at one moment."""

    threads: tuple[Thread, Thread]
    histories: tuple[History, History]


class MergedTurns(Record):
    """The turns of a merged thread, not stored yet."""

    turns: tuple[Turn, ...]
    common: int  # turns with which both threads begin
    files: tuple[FileDiff, ...]
    mark: str  # of the lines that name a turn's thread, and of the brief, which is the last turn

    def own(self, sources: MergeSources) -> tuple[int, int]:
        """How many further turns each thread has."""
        one, other = (len(history) - self.common for history in sources.histories)
        return one, other

    @property
    def chars(self) -> int:
        return sum(len(turn.text) for turn in self.turns)


class Merged(Record):
    """The result of a merge."""

    thread: Thread
    of: tuple[Thread, Thread]
    common: int  # turns with which both begin
    own: tuple[int, int]  # further turns of each
    files: tuple[FileDiff, ...]
    chars: int  # of all turns
    shown_chars: int  # the most characters of a transcript that a fresh session gets


async def merge(engine: Engine, a: str, b: str, options: MergeOptions) -> Merged:
    """Merges both threads as they are at one moment. Edits may be large, so they are compared outside of a transaction.

    Raises NotFound, UsageError, Busy during a run in either, and Conflict when the name is taken or they keep changing.
    """
    if options.name is not None:
        check_name(options.name)
    if options.agent is not None:
        engine.adapter(options.agent)
    check_argument("model", options.model)

    def read(store: Store) -> tuple[MergeSources, tuple[Edits, Edits]]:
        with store.reading():
            sources = _sources(store, engine, a, b)
            return sources, edits_in(store, engine, sources)

    def draft(seen: tuple[MergeSources, tuple[Edits, Edits]]) -> tuple[Thread, MergedTurns]:
        thread = _thread(engine, *seen[0].threads, options, engine.context.clock())
        return thread, merged_turns(engine, *seen, thread)

    def write(
        seen: tuple[MergeSources, tuple[Edits, Edits]], draft: tuple[Thread, MergedTurns], store: Store
    ) -> Merged | None:
        with store.transaction():  # so that no turn can be added between the check and the write
            if _sources(store, engine, a, b) != seen[0]:
                return None
            return _write(store, engine, seen[0], *draft, unique=options.name is None)

    merged = await engine.store.optimistic_read(read, draft, write)
    if merged is None:
        raise Conflict(f"{a} and {b} keep changing.", hint="Try again when nothing runs in them.")
    return merged


def _sources(store: Store, engine: Engine, a: str, b: str) -> MergeSources:
    _check_no_pair(store, a, b)
    one, other = single_thread(store, a), single_thread(store, b)
    if one.id == other.id:
        raise UsageError(f"{a} and {b} are the same thread.", hint="Name two.")
    sources = idle_sources(store, engine, one, other)
    for thread, history in zip(sources.threads, sources.histories, strict=True):
        if not history:
            raise UsageError(f"There is nothing in {thread.name} yet.", hint="Ask something in it first.")
    return sources


def _check_no_pair(store: Store, a: str, b: str) -> None:
    """Raises UsageError for a pair and a thread. Two pairs are merged by `merge_pairs`."""
    pairs = {name: store.pairs.find(name) for name in (a, b) if store.threads.find(name) is None}
    for name, pair in pairs.items():
        other = b if name == a else a
        if pair is not None and store.threads.find(other) is not None:
            raise UsageError(
                f"{name} is a pair, and {other} is a thread: they cannot be merged with each other.",
                hint="Name two pairs, or two threads: "
                + " and ".join(store.threads.require_by_id(pair.thread_of(part)).name for part in PairPart)
                + f" are those of {name}.",
            )


def idle_sources(store: Store, engine: Engine, one: Thread, other: Thread) -> MergeSources:
    """Raises Busy during a run in either."""
    for thread in (one, other):
        check_idle(store, engine, thread)
    return MergeSources((one, other), (store.turns.history(one.id), store.turns.history(other.id)))


def edits_in(store: Store, engine: Engine, sources: MergeSources) -> tuple[Edits, Edits]:
    one, other = (edits_of(store, thread, engine.adapter) for thread in sources.threads)
    return one, other


def merged_turns(engine: Engine, sources: MergeSources, edits: tuple[Edits, Edits], thread: Thread) -> MergedTurns:
    """The turns of both for the new thread, whose agent and model answer next; the last one is the brief."""
    (one, other), (ours, theirs), new_id = sources.threads, sources.histories, engine.context.new_id
    common = in_common(ours, theirs)
    sides = MergeSide(one, ours[common:]), MergeSide(other, theirs[common:])
    files = tuple(compare_files(_edits_after(ours[:common], edits[0]), _edits_after(theirs[:common], edits[1])))
    now = engine.context.clock()
    mark = _mark((*ours, *theirs), new_id)
    told = brief(*sides, common, files, mark, f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC")
    turns = [
        *ours[:common],
        *(turn.replace(text=attributed(turn, side.thread, mark), typed=None) for side in sides for turn in side.turns),
        Turn(TurnId(""), Role.USER, told, thread.agent, thread.model, created_at=now),
    ]
    return MergedTurns(tuple(_copied(turn, new_id) for turn in turns), common, files, mark)


def _write(
    store: Store, engine: Engine, sources: MergeSources, thread: Thread, merged: MergedTurns, *, unique: bool
) -> Merged:
    thread = store.threads.create(thread, unique=unique)
    inherit_source(store, thread.id, *(source.id for source in sources.threads))
    for turn in merged.turns:
        store.turns.add(thread.id, turn)
    return Merged(
        thread=store.threads.require_by_id(thread.id),
        of=sources.threads,
        common=merged.common,
        own=merged.own(sources),
        files=merged.files,
        chars=merged.chars,
        shown_chars=engine.settings.policy.limit_chars,
    )


def _edits_after(shared: Sequence[Turn], edits: Edits) -> list[FileEdit]:
    """The edits of runs other than those of the shared turns."""
    before = {turn.run_id for turn in shared}
    return [edit for run, of_run in edits.items() if run not in before for edit in of_run]


def _mark(turns: Sequence[Turn], new_id: Callable[[], str]) -> str:
    """A mark that occurs in neither thread."""
    while True:
        mark = new_id()[:MARK_CHARS]
        if not any(mark in turn.text for turn in turns):
            return mark


def _thread(engine: Engine, one: Thread, other: Thread, options: MergeOptions, now: float) -> Thread:
    """The new thread. It has no more permissions than either of the two, and its agents see all turns."""
    agent = options.agent or one.agent
    by_agent = next((thread.model for thread in (one, other) if thread.agent == agent and thread.model), None)
    trusted = one.trust is Trust.PROJECT and other.trust is Trust.PROJECT and one.cwd == other.cwd
    return Thread(
        id=ThreadId(engine.context.new_id()),
        name=options.name or f"{one.name[:NAME_CHARS]}-{other.name[:NAME_CHARS]}",
        cwd=existing_dir(options.cwd or one.cwd),
        agent=agent,
        model=options.model or by_agent,
        permissions=narrower(one.permissions, other.permissions),
        trust=Trust.PROJECT if trusted and options.cwd is None else Trust.USER,
        visibility=Visibility.SHARED,
        standing=joined_standing(one, other),
        origin=Origin(OriginKind.MERGE, tuple(SourceThread(thread.id, thread.name) for thread in (one, other))),
        created_at=now,
        updated_at=now,
    )


def _copied(turn: Turn, new_id: Callable[[], str]) -> Turn:
    """A copy of the turn for the new thread, without the ids of the run and the message that it came from."""
    return turn.replace(id=TurnId(new_id()), run_id=None, message_id=None, revision=0)
