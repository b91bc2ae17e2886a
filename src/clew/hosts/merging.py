"""One thread out of two: what they have in common, then the turns of each, then a brief. Both stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from clew.core.compare import in_common
from clew.core.edits import FileCompared, FileEdit, compare_files
from clew.core.history import Role, Turn, Visibility
from clew.core.ids import ThreadId, TurnId
from clew.core.merge_prompts import Side, attributed, brief, joined_standing
from clew.core.record import Record
from clew.core.thread import How, Origin, Source, Thread, Trust, narrower
from clew.engine.edits_made import edits_of
from clew.engine.engine import Engine, check_word
from clew.errors import Busy, UsageError
from clew.hosts.checks import check_name, existing_dir, single_thread
from clew.store.store import Store

MARK_CHARS = 12
NAME_CHARS = 35  # of each, in the name of both


class Wanted(Record):
    """What the new thread is to be; None: as the first of the two."""

    name: str | None = None
    agent: str | None = None
    model: str | None = None
    cwd: str | None = None


class Merged(Record):
    """What came of it."""

    thread: Thread
    of: tuple[Thread, Thread]
    common: int  # turns that both begin with
    own: tuple[int, int]  # turns of each beyond them
    files: tuple[FileCompared, ...]
    chars: int  # of all turns
    shown_chars: int  # so many of them a fresh session is shown at most


async def merge(engine: Engine, a: str, b: str, wanted: Wanted) -> Merged:
    """Raises NotFound, UsageError, Conflict when the name is taken, and Busy while a run is going on in either."""
    if wanted.name is not None:
        check_name(wanted.name)
    if wanted.agent is not None:
        engine.adapter(wanted.agent)
    check_word("model", wanted.model)
    return await engine.database.atomically(lambda store: _merge(store, engine, a, b, wanted))


def _merge(store: Store, engine: Engine, a: str, b: str, wanted: Wanted) -> Merged:
    """In a transaction, so that no turn can come in between."""
    one, other = single_thread(store, a), single_thread(store, b)
    if one.id == other.id:
        raise UsageError(f"{a} and {b} are the same thread.", hint="Name two.")
    for thread in (one, other):
        if engine.is_held(store, thread.id):
            raise Busy(f"A run is going on in {thread.name}.", hint="Wait for it, or stop it with clew runs cancel.")
    histories = store.history(one.id), store.history(other.id)
    for thread, history in zip((one, other), histories, strict=True):
        if not history:
            raise UsageError(f"There is nothing in {thread.name} yet.", hint="Ask something in it first.")
    common = in_common(*histories)
    sides = Side(one, histories[0][common:]), Side(other, histories[1][common:])
    files = tuple(
        compare_files(
            _beyond(edits_of(store, one, engine.adapter), histories[0][:common]),
            _beyond(edits_of(store, other, engine.adapter), histories[1][:common]),
        )
    )
    now = engine.around.clock()
    mark = _mark((*histories[0], *histories[1]), engine.around.new_id)
    turns = [
        *histories[0][:common],
        *(turn.replace(text=attributed(turn, side.thread, mark)) for side in sides for turn in side.turns),
    ]
    thread = store.create_thread(_thread(engine, one, other, wanted, now), unique=wanted.name is None)
    told = brief(*sides, common, files, mark, f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC")
    turns.append(Turn(TurnId(""), Role.USER, told, thread.agent, thread.model, created_at=now))
    for turn in turns:
        store.add_turn(thread.id, _copied(turn, engine.around.new_id))
    return Merged(
        thread=store.require_thread(thread.id),
        of=(one, other),
        common=common,
        own=(len(sides[0].turns), len(sides[1].turns)),
        files=files,
        chars=sum(len(turn.text) for turn in turns),
        shown_chars=engine.settings.policy.limit_chars,
    )


def _beyond(edits: Mapping[str, tuple[FileEdit, ...]], shared: Sequence[Turn]) -> list[FileEdit]:
    """What was written after the two parted."""
    before = {turn.run_id for turn in shared}
    return [edit for run, of_run in edits.items() if run not in before for edit in of_run]


def _mark(turns: Sequence[Turn], new_id: Callable[[], str]) -> str:
    """One that nothing in either thread holds."""
    while True:
        mark = new_id()[:MARK_CHARS]
        if not any(mark in turn.text for turn in turns):
            return mark


def _thread(engine: Engine, one: Thread, other: Thread, wanted: Wanted, now: float) -> Thread:
    """No wider than either was; and its agents see all of it."""
    agent = wanted.agent or one.agent
    by_agent = next((thread.model for thread in (one, other) if thread.agent == agent and thread.model), None)
    trusted = one.trust is Trust.PROJECT and other.trust is Trust.PROJECT and one.cwd == other.cwd
    return Thread(
        id=ThreadId(engine.around.new_id()),
        name=wanted.name or f"{one.name[:NAME_CHARS]}-{other.name[:NAME_CHARS]}",
        cwd=existing_dir(wanted.cwd or one.cwd),
        agent=agent,
        model=wanted.model or by_agent,
        permissions=narrower(one.permissions, other.permissions),
        trust=Trust.PROJECT if trusted and wanted.cwd is None else Trust.USER,
        visibility=Visibility.SHARED,
        standing=joined_standing(one, other),
        origin=Origin(How.MERGE, tuple(Source(thread.id, thread.name) for thread in (one, other))),
        created_at=now,
        updated_at=now,
    )


def _copied(turn: Turn, new_id: Callable[[], str]) -> Turn:
    """Of the new thread: no run and no session of its own has said it."""
    return turn.replace(id=TurnId(new_id()), run_id=None, message_id=None, revision=0)
