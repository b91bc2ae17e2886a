"""Forks: a new thread with another one's history up to a round. Both then continue independently.

Rules
1. The old thread is only read: its rows, pins and sessions do not change, and a run in it is not disturbed.
2. Turns are copied under new ids, without their runs: their cost belongs to the old thread.
3. The new pins borrow the old sessions (engine/sessions/borrowing.py). The first turn continues in a copy of the
   session, or says why it does not.
4. The fork of a thread in which another host asks (a review's, a job's, a hook's) is a chat. The fork of a pair is a
   pair.
5. Session files may be large, so they are read outside of the transaction. The transaction then checks that the draft
   for which they were read is still valid.
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
from clew.engine.rules.shown import inherit_source
from clew.engine.sessions.borrowing import Loan, borrow
from clew.errors import Busy, Conflict, UsageError
from clew.hosts.validation import check_name, named_turn
from clew.store.records import turn_row
from clew.store.store import Store
from clew.store.transfer.restoring import restore

SUFFIX = "-fork"


class Forked(Record):
    """The result of a fork."""

    threads: tuple[Thread, ...]  # one, or the two of a pair
    of: str  # the name of the thread or pair that was forked …
    of_id: str  # … and its id
    turns: int
    rounds: int
    pair: str | None = None  # the new pair's name
    is_finished: bool = False  # the pair's instructor has said that the task is done
    notes: tuple[str, ...] = ()


class ThreadSlice(Record):
    """The part of a thread that is forked, and the pins whose sessions may hold it."""

    thread: Thread
    turns: History
    pins: tuple[Pin, ...]


class ThreadCopy(ThreadSlice):
    """A copy of a slice under new ids, to be stored."""


Loans = tuple[tuple[Pin, Loan], ...]  # what a fork can borrow from each session of a slice


class ForkDraft(Record):
    """A planned fork. While the old thread does not change, planning it again gives an equal draft."""

    slices: tuple[ThreadSlice, ...]

    def write(self, store: Store, engine: Engine, loans: Sequence[Loans]) -> Forked:
        """Stores the fork, within a transaction. `loans` has one entry for each slice."""
        raise NotImplementedError


async def fork(
    engine: Engine, name: str, new: str | None = None, *, at_round: int | None = None, at_turn: str | None = None
) -> Forked:
    """Forks a thread or a pair up to and including that round or turn; without one, everything that is complete.

    Raises NotFound, Conflict when the new name is taken or the thread keeps changing, Busy when that round is still
    being answered, and UsageError.
    """
    if at_round is not None and at_turn is not None:
        raise UsageError("Both a round and a turn were given.", hint="Give one of them.")
    if new is not None:
        check_name(new)

    def plan(store: Store) -> ForkDraft:
        with store.reading():
            return _draft(store, name, new, at_round, at_turn)

    def read_sessions(draft: ForkDraft) -> list[Loans]:
        return [tuple(_loans(engine, each)) for each in draft.slices]

    def write(draft: ForkDraft, loans: list[Loans], store: Store) -> Forked | None:
        with store.transaction():
            return draft.write(store, engine, loans) if plan(store) == draft else None

    forked = await engine.store.optimistic_read(plan, read_sessions, write)
    if forked is None:
        raise Conflict(f"{name} keeps changing.", hint="Try again when nothing runs in it.")
    return forked


def _draft(store: Store, name: str, new: str | None, at_round: int | None, at_turn: str | None) -> ForkDraft:
    from clew.hosts.branching import pair_fork  # imported here, because pair_fork imports this module

    thread = store.threads.find(name)
    pair = pair_fork.pair_of(store, name if thread is None else thread.id)
    if pair is not None:
        if at_turn is not None:
            raise UsageError("A pair is forked at a round.", hint="Give --at-round.")
        return pair_fork.draft(store, pair, new, at_round)
    thread = store.threads.require(name)
    if new is not None and store.threads.find(new) is not None:
        raise Conflict(f"There is a thread named {new} already.", hint="Choose another name.")
    history = store.turns.history(thread.id)
    part, leaves_out_round = _part(store, thread, history, at_round, at_turn)
    if not part:
        raise UsageError(f"{thread.name} has no turns yet.", hint="There is nothing to fork.")
    is_all = part == history and at_round is None and at_turn is None
    return _ThreadDraft((slice_of(store, thread, part),), new, is_all, leaves_out_round)


class _ThreadDraft(ForkDraft):
    new: str | None  # the name for the fork, if one was given
    is_all: bool
    leaves_out_round: bool  # a round is left out because it is being answered now

    def write(self, store: Store, engine: Engine, loans: Sequence[Loans]) -> Forked:
        [taken] = self.slices
        thread, rounds = taken.thread, branch.rounds_in(taken.turns)
        origin = Origin(OriginKind.FORK, (SourceThread(thread.id, thread.name),), None if self.is_all else rounds)
        name = self.new or thread.name[: NAME_CHARS - len(SUFFIX)] + SUFFIX
        [stored] = store_copies(store, [copy_slice(engine, taken, loans[0], origin, name=name)])
        notes = ("the round that is being answered now is not in it",) if self.leaves_out_round else ()
        return Forked((stored,), thread.name, thread.id, len(taken.turns), rounds, notes=notes)


def _part(
    store: Store, thread: Thread, history: History, at_round: int | None, at_turn: str | None
) -> tuple[History, bool]:
    """The turns to copy, and whether a round is left out because it is being answered now."""
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


def slice_of(store: Store, thread: Thread, part: History) -> ThreadSlice:
    return ThreadSlice(thread, part, store.pins.of_thread(thread.id, retired=False))


def copy_slice(
    engine: Engine, taken: ThreadSlice, loans: Loans, origin: Origin, *, name: str, kind: str = "chat"
) -> ThreadCopy:
    """A copy of the slice under new ids, with pins that borrow its sessions."""
    context = engine.context
    now = context.clock()
    made = replace(
        taken.thread,
        id=ThreadId(context.new_id()),
        name=name,
        kind=kind,
        origin=origin,
        tool_rules=(),  # they were given in that thread
        created_at=now,
        updated_at=now,
    )
    turns = {turn.id: replace(turn, id=TurnId(context.new_id()), run_id=None, revision=0) for turn in taken.turns}
    pins = [_borrowed(pin, loan, made, turns, PinId(context.new_id()), now) for pin, loan in loans]
    return ThreadCopy(made, tuple(turns.values()), tuple(pins))


def store_copies(store: Store, copies: Sequence[ThreadCopy], **content: list[dict[str, object]]) -> list[Thread]:
    """Stores the copies, within a transaction. A taken name gets a number. `content` has rows of further tables."""
    rows = [
        {**turn_row(turn), "thread_id": made.thread.id, "position": position}
        for made in copies
        for position, turn in enumerate(made.turns, start=1)
    ]
    pins = [pin for made in copies for pin in made.pins]
    threads = restore(store, [made.thread for made in copies], pins, {"turns": rows, **content})
    for thread in threads:
        inherit_source(store, thread.id, *(source.id for source in thread.origin.of) if thread.origin else ())
    return threads


def _loans(engine: Engine, taken: ThreadSlice) -> Iterable[tuple[Pin, Loan]]:
    """For each agent and model, the newest session that can be copied; else the newest that holds some of the turns.

    Reads session files.
    """
    pins = taken.pins
    for agent, model in dict.fromkeys((pin.agent, pin.model) for pin in pins):
        try:
            adapter = engine.adapter(agent)
        except UsageError:
            continue  # this installation has no such agent
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
