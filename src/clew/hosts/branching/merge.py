"""One thread out of two: what they have in common, then the turns of each, then a brief. Both stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from clew.core.branching.compare import in_common
from clew.core.branching.edits import FileDiff, FileEdit, compare_files
from clew.core.branching.merge_prompts import MergeSide, attributed, brief, joined_standing
from clew.core.history import History, Role, Turn, Visibility
from clew.core.ids import ThreadId, TurnId
from clew.core.record import Record
from clew.core.thread import Origin, OriginKind, SourceThread, Thread, Trust, narrower
from clew.engine.engine import Engine
from clew.engine.request import check_argument
from clew.errors import Busy, Conflict, UsageError
from clew.hosts.branching.edits_made import edits_of
from clew.hosts.validation import check_name, existing_dir, single_thread
from clew.store.store import Store

MARK_CHARS = 12
Edits = Mapping[str, tuple[FileEdit, ...]]  # by run
NAME_CHARS = 35  # of each, in the name of both


class MergeOptions(Record):
    """What the new thread is to be; None: as the first of the two."""

    name: str | None = None
    agent: str | None = None
    model: str | None = None
    cwd: str | None = None


class _Both(Record):
    """The two threads in one moment's state."""

    threads: tuple[Thread, Thread]
    histories: tuple[History, History]


class _Seen(Record):
    both: _Both
    edits: tuple[Edits, Edits]


class _Draft(Record):
    """What is to be stored, and what to tell of it."""

    thread: Thread
    turns: tuple[Turn, ...]
    common: int
    files: tuple[FileDiff, ...]


class Merged(Record):
    """What came of it."""

    thread: Thread
    of: tuple[Thread, Thread]
    common: int  # turns that both begin with
    own: tuple[int, int]  # turns of each beyond them
    files: tuple[FileDiff, ...]
    chars: int  # of all turns
    shown_chars: int  # so many of them a fresh session is shown at most


async def merge(engine: Engine, a: str, b: str, wanted: MergeOptions) -> Merged:
    """Both as they are at one moment. What their agents wrote may be much: no writer is kept waiting while it is read.

    Raises NotFound, UsageError, Busy while a run is going on in either, and Conflict when the name is taken or they
    change all the time.
    """
    if wanted.name is not None:
        check_name(wanted.name)
    if wanted.agent is not None:
        engine.adapter(wanted.agent)
    check_argument("model", wanted.model)

    def look(store: Store) -> _Seen:
        with store.reading():
            both = _both(store, engine, a, b)
            one, other = (edits_of(store, thread, engine.adapter) for thread in both.threads)
            return _Seen(both, (one, other))

    def read(seen: _Seen) -> _Draft:
        return _draft(engine, seen, wanted)

    def settle(seen: _Seen, draft: _Draft, store: Store) -> Merged | None:
        with store.transaction():  # no turn can come in between
            if _both(store, engine, a, b) != seen.both:
                return None
            return _write(store, engine, seen.both, draft, unique=wanted.name is None)

    merged = await engine.store.optimistic_read(look, read, settle)
    if merged is None:
        raise Conflict(f"{a} and {b} change all the time.", hint="Try again when less is going on in them.")
    return merged


def _both(store: Store, engine: Engine, a: str, b: str) -> _Both:
    one, other = single_thread(store, a), single_thread(store, b)
    if one.id == other.id:
        raise UsageError(f"{a} and {b} are the same thread.", hint="Name two.")
    for thread in (one, other):
        if engine.is_held(store, thread.id):
            raise Busy(f"A run is going on in {thread.name}.", hint="Wait for it, or stop it with clew runs cancel.")
    histories = store.turns.history(one.id), store.turns.history(other.id)
    for thread, history in zip((one, other), histories, strict=True):
        if not history:
            raise UsageError(f"There is nothing in {thread.name} yet.", hint="Ask something in it first.")
    return _Both((one, other), histories)


def _draft(engine: Engine, seen: _Seen, wanted: MergeOptions) -> _Draft:
    (one, other), (ours, theirs), new_id = seen.both.threads, seen.both.histories, engine.context.new_id
    common = in_common(ours, theirs)
    sides = MergeSide(one, ours[common:]), MergeSide(other, theirs[common:])
    files = tuple(compare_files(_beyond(seen.edits[0], ours[:common]), _beyond(seen.edits[1], theirs[:common])))
    now = engine.context.clock()
    mark = _mark((*ours, *theirs), new_id)
    thread = _thread(engine, one, other, wanted, now)
    told = brief(*sides, common, files, mark, f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC")
    turns = [
        *ours[:common],
        *(turn.replace(text=attributed(turn, side.thread, mark)) for side in sides for turn in side.turns),
        Turn(TurnId(""), Role.USER, told, thread.agent, thread.model, created_at=now),
    ]
    return _Draft(thread, tuple(_copied(turn, new_id) for turn in turns), common, files)


def _write(store: Store, engine: Engine, both: _Both, draft: _Draft, *, unique: bool) -> Merged:
    thread = store.threads.create(draft.thread, unique=unique)
    for turn in draft.turns:
        store.turns.add(thread.id, turn)
    ours, theirs = both.histories
    return Merged(
        thread=store.threads.require_by_id(thread.id),
        of=both.threads,
        common=draft.common,
        own=(len(ours) - draft.common, len(theirs) - draft.common),
        files=draft.files,
        chars=sum(len(turn.text) for turn in draft.turns),
        shown_chars=engine.settings.policy.limit_chars,
    )


def _beyond(edits: Edits, shared: Sequence[Turn]) -> list[FileEdit]:
    """What was written after the two parted."""
    before = {turn.run_id for turn in shared}
    return [edit for run, of_run in edits.items() if run not in before for edit in of_run]


def _mark(turns: Sequence[Turn], new_id: Callable[[], str]) -> str:
    """One that nothing in either thread holds."""
    while True:
        mark = new_id()[:MARK_CHARS]
        if not any(mark in turn.text for turn in turns):
            return mark


def _thread(engine: Engine, one: Thread, other: Thread, wanted: MergeOptions, now: float) -> Thread:
    """No wider than either was; and its agents see all of it."""
    agent = wanted.agent or one.agent
    by_agent = next((thread.model for thread in (one, other) if thread.agent == agent and thread.model), None)
    trusted = one.trust is Trust.PROJECT and other.trust is Trust.PROJECT and one.cwd == other.cwd
    return Thread(
        id=ThreadId(engine.context.new_id()),
        name=wanted.name or f"{one.name[:NAME_CHARS]}-{other.name[:NAME_CHARS]}",
        cwd=existing_dir(wanted.cwd or one.cwd),
        agent=agent,
        model=wanted.model or by_agent,
        permissions=narrower(one.permissions, other.permissions),
        trust=Trust.PROJECT if trusted and wanted.cwd is None else Trust.USER,
        visibility=Visibility.SHARED,
        standing=joined_standing(one, other),
        origin=Origin(OriginKind.MERGE, tuple(SourceThread(thread.id, thread.name) for thread in (one, other))),
        created_at=now,
        updated_at=now,
    )


def _copied(turn: Turn, new_id: Callable[[], str]) -> Turn:
    """Of the new thread: no run and no session of its own has said it."""
    return turn.replace(id=TurnId(new_id()), run_id=None, message_id=None, revision=0)
