"""Forks: a new thread with another one's history up to a round, which goes on by itself.

Rules
1. The old thread is only read: its rows, its pins and its sessions stay as they are, and a run in it is not disturbed.
2. Turns are copied under new ids, without their runs: what they cost was the old thread's.
3. Its pins borrow the old sessions (engine/sessions/borrowing.py); the first turn continues in a copy, or says why not.
4. What others ask in (a review's, a job's, a hook's thread) becomes a chat. A pair becomes a pair.
5. Sessions may be large, so they are read while nobody waits. What they were read for must then still be so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from clew.core.branching import fork as branch
from clew.core.history import History, Turn, visible
from clew.core.ids import PinId, ThreadId, TurnId
from clew.core.lookup import ALL_ROWS
from clew.core.pins import Pin, PinState
from clew.core.record import Record, replace
from clew.core.runs.run import LIVE
from clew.core.thread import NAME_CHARS, Origin, OriginKind, SourceThread, Thread
from clew.engine.engine import Engine
from clew.engine.sessions.borrowing import Loan, borrow
from clew.errors import Busy, Conflict, UsageError
from clew.hosts.validation import check_name, named_turn
from clew.store.records import flat
from clew.store.store import Store
from clew.store.transfer.restoring import restore

SUFFIX = "-fork"


class Forked(Record):
    """What came of it."""

    threads: tuple[Thread, ...]  # one, or the two of a pair
    of: str  # the name of what it was forked of …
    of_id: str  # … and its id: a thread's, or a pair's
    turns: int
    rounds: int
    pair: str | None = None  # the new pair's name
    is_finished: bool = False  # its instructor has said that all is done
    notes: tuple[str, ...] = ()


class ThreadSlice(Record):
    """What is taken of a thread, and the pins whose sessions may hold it."""

    thread: Thread
    turns: History
    pins: tuple[Pin, ...]


class ThreadCopy(ThreadSlice):
    """The same under new ids, on its way into the store."""


Loans = tuple[tuple[Pin, Loan], ...]  # what can be had of each session of a cut


class ForkDraft(Record):
    """A fork as it would be made of what the store holds now: as long as that stands, an equal one comes of it."""

    cuts: tuple[ThreadSlice, ...]

    def write(self, store: Store, engine: Engine, loans: Sequence[Loans]) -> Forked:
        """Within a transaction. `loans`: of each cut."""
        raise NotImplementedError


async def fork(
    engine: Engine, name: str, new: str | None = None, *, at_round: int | None = None, at_turn: str | None = None
) -> Forked:
    """Up to that round or turn and with it; without one, all that is said and done.

    Raises NotFound, Conflict when the new name is taken or the thread changes all the time, Busy when that round is
    still being answered, and UsageError.
    """
    if at_round is not None and at_turn is not None:
        raise UsageError("A round and a turn say two things.", hint="Give one of them.")
    if new is not None:
        check_name(new)

    def look(store: Store) -> ForkDraft:
        with store.reading():
            return _draft(store, name, new, at_round, at_turn)

    def read(draft: ForkDraft) -> list[Loans]:
        return [tuple(_loans(engine, cut)) for cut in draft.cuts]

    def settle(draft: ForkDraft, loans: list[Loans], store: Store) -> Forked | None:
        with store.transaction():
            return draft.write(store, engine, loans) if look(store) == draft else None

    forked = await engine.store.optimistic_read(look, read, settle)
    if forked is None:
        raise Conflict(f"{name} changes all the time.", hint="Try again when less is going on in it.")
    return forked


def _draft(store: Store, name: str, new: str | None, at_round: int | None, at_turn: str | None) -> ForkDraft:
    from clew.hosts.branching import pair_fork as branch_pairs

    thread = store.threads.find(name)
    pair = branch_pairs.pair_of(store, name if thread is None else thread.id)
    if pair is not None:
        if at_turn is not None:
            raise UsageError("A pair is forked at a round.", hint="Give --at-round.")
        return branch_pairs.draft(store, pair, new, at_round)
    thread = store.threads.require(name)
    if new is not None and store.threads.find(new) is not None:
        raise Conflict(f"There is a thread named {new} already.", hint="Choose another name.")
    history = store.turns.history(thread.id)
    part, is_left = _part(store, thread, history, at_round, at_turn)
    if not part:
        raise UsageError(f"{thread.name} has no turns yet.", hint="There is nothing to fork.")
    is_all = part == history and at_round is None and at_turn is None
    return _ThreadDraft((cut(store, thread, part),), new, is_all, is_left)


class _ThreadDraft(ForkDraft):
    new: str | None  # its name, if one was given
    is_all: bool
    is_left: bool  # a round was left out because it is being answered just now

    def write(self, store: Store, engine: Engine, loans: Sequence[Loans]) -> Forked:
        [taken] = self.cuts
        thread, rounds = taken.thread, branch.rounds_in(taken.turns)
        origin = Origin(OriginKind.FORK, (SourceThread(thread.id, thread.name),), None if self.is_all else rounds)
        name = self.new or thread.name[: NAME_CHARS - len(SUFFIX)] + SUFFIX
        [stored] = put(store, [copy(engine, taken, loans[0], origin, name=name)])
        notes = ("the round that is being answered just now is not in it",) if self.is_left else ()
        return Forked((stored,), thread.name, thread.id, len(taken.turns), rounds, notes=notes)


def _part(
    store: Store, thread: Thread, history: History, at_round: int | None, at_turn: str | None
) -> tuple[History, bool]:
    """The turns to take along, and whether a round was left out because it is being answered just now."""
    runs = store.runs.newest(thread_id=thread.id, statuses=LIVE, limit=ALL_ROWS)
    asked = {run.prompt_turn_id for run in runs}
    settled = next((history[:n] for n, turn in enumerate(history) if turn.id in asked), history)
    if at_turn is not None:
        part = branch.until_turn(history, named_turn(thread, history, at_turn).id)
    elif at_round is not None:
        part = branch.until_round(history, at_round)
        if not 1 <= at_round <= branch.rounds_in(history):
            raise UsageError(
                f"{thread.name} has no round {at_round}: it has {branch.rounds_in(history)}.",
                hint="A round is a prompt and its answer.",
            )
    else:
        return settled, len(settled) < len(history)
    if len(part) > len(settled):
        raise Busy(f"That round of {thread.name} is still being answered.", hint="Wait for it, or fork before it.")
    return part, False


def cut(store: Store, thread: Thread, part: History) -> ThreadSlice:
    return ThreadSlice(thread, part, store.pins.of_thread(thread.id, retired=False))


def copy(
    engine: Engine, taken: ThreadSlice, loans: Loans, origin: Origin, *, name: str, kind: str = "chat"
) -> ThreadCopy:
    """The thread with these turns alone, under new ids."""
    context = engine.context
    now = context.clock()
    made = replace(
        taken.thread, id=ThreadId(context.new_id()), name=name, kind=kind, origin=origin, created_at=now, updated_at=now
    )
    turns = {turn.id: replace(turn, id=TurnId(context.new_id()), run_id=None, revision=0) for turn in taken.turns}
    pins = [_borrowed(pin, loan, made, turns, PinId(context.new_id()), now) for pin, loan in loans]
    return ThreadCopy(made, tuple(turns.values()), tuple(pins))


def put(store: Store, copies: Sequence[ThreadCopy], **content: list[dict[str, object]]) -> list[Thread]:
    """Within a transaction. A name that is taken gets a number."""
    rows = [
        {**flat(turn), "thread_id": made.thread.id, "position": position}
        for made in copies
        for position, turn in enumerate(made.turns, start=1)
    ]
    pins = [pin for made in copies for pin in made.pins]
    return restore(store, [made.thread for made in copies], pins, {"turns": rows, **content})


def _loans(engine: Engine, taken: ThreadSlice) -> Iterable[tuple[Pin, Loan]]:
    """For each agent and model the newest session that can be copied; else the newest that has anything of it.

    Reads the disk.
    """
    pins = taken.pins
    for agent, model in dict.fromkeys((pin.agent, pin.model) for pin in pins):
        try:
            adapter = engine.adapter(agent)
        except UsageError:
            continue  # there is no such agent here
        seen = visible(taken.turns, agent, taken.thread.visibility)
        found: tuple[Pin, Loan] | None = None
        for pin in reversed(pins):
            loan = borrow(adapter, pin, seen) if (pin.agent, pin.model) == (agent, model) else None
            if loan is not None and (found is None or loan.message_id):
                found = (pin, loan)
                if loan.message_id:
                    break
        if found is not None:
            yield found


def _borrowed(pin: Pin, loan: Loan, thread: Thread, turns: Mapping[TurnId, Turn], pin_id: PinId, now: float) -> Pin:
    return replace(
        pin,
        id=pin_id,
        thread_id=thread.id,
        state=PinState.GOOD,
        absorbed=branch.renewed(pin.absorbed[: loan.turns], turns),
        pending=None,
        partly_absorbed=None,
        standing=loan.standing,
        mark=pin.mark if pin.pending is None else None,
        failures=0,
        borrowed_at=loan.message_id,
        created_at=now,
    )
