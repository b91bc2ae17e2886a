"""Forks a pair at a round: both of its threads, its rounds up to that one, and its settings."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.branching.merge_prompts import unattributed
from clew.core.history import History, Role, Turn
from clew.core.pairs.pair import PAIR_NAME_CHARS, Pair, PairPart, PairRound, Phase
from clew.core.record import replace
from clew.core.thread import Origin, OriginKind, SourceThread
from clew.engine.engine import Engine
from clew.errors import Conflict, UsageError
from clew.hosts.branching.fork import SUFFIX, ForkDraft, Forked, Loans, copy_slice, slice_of, store_copies
from clew.hosts.pairs.answer import read_order
from clew.hosts.pairs.folder import new_pair_id
from clew.hosts.pairs.imports import KIND
from clew.hosts.pairs.naming import check_pair_name, thread_name
from clew.hosts.pairs.rows import known_files
from clew.hosts.structured_output import SchemaMismatch
from clew.store.rows.pairs import KeptFiles, pair_row, round_row
from clew.store.store import Store

FILES_STAY = "the files are as they are now: a fork does not restore those of that round"


def pair_of(store: Store, name_or_id: str) -> Pair | None:
    """Finds a pair by its own name or id, or by that of one of its threads."""
    thread = store.threads.find(name_or_id)
    if thread is None:
        return store.pairs.find(name_or_id)
    return store.pairs.of_thread(thread.id) if thread.kind == KIND else None


def draft(store: Store, pair: Pair, new: str | None, at_round: int | None) -> ForkDraft:
    """Plans a pair that ends with round `at_round`, or with the last that has ended. It does not run until resumed."""
    if new is not None:
        check_pair_name(new)
        if store.pairs.find(new) is not None:
            raise Conflict(f"There is a pair named {new} already.", hint="Choose another name.")
    rounds = [round_ for round_ in store.pairs.rounds(pair.id) if round_.ended_at is not None or _is_complete(round_)]
    if not rounds:
        raise UsageError(f"No round of {pair.name} has ended yet.", hint="There is nothing to fork.")
    last = rounds[-1].number
    number = last if at_round is None else at_round
    taken = [round_ for round_ in rounds if round_.number <= number]
    if number not in (round_.number for round_ in rounds):
        raise UsageError(f"{pair.name} has no round {number} that has ended.", hint=f"The last one is {last}.")
    slices = tuple(
        slice_of(store, store.threads.require(pair.thread_of(part)), _until(store, pair, part, taken))
        for part in PairPart
    )
    kept = _files(store, pair) if number == pair.number else None
    return _PairDraft(slices, pair, new, at_round, tuple(taken), last, kept)


class _PairDraft(ForkDraft):
    pair: Pair
    new: str | None  # the name for the fork, if one was given
    at_round: int | None  # as the caller gave it
    taken: tuple[PairRound, ...]
    last: int  # number of the last round that has ended
    kept: KeptFiles | None

    def write(self, store: Store, engine: Engine, loans: Sequence[Loans]) -> Forked:
        pair, number = self.pair, self.taken[-1].number
        name = self.new or store.pairs.free_name(pair.name[: PAIR_NAME_CHARS - len(SUFFIX) - 4] + SUFFIX)
        copies = []
        for part, each, lent in zip(PairPart, self.slices, loans, strict=True):
            origin = Origin(OriginKind.FORK, (SourceThread(each.thread.id, each.thread.name),), self.at_round)
            copies.append(copy_slice(engine, each, lent, origin, name=thread_name(name, part), kind=KIND))
        made = _pair(pair, self.taken[-1], name, engine, is_last=number == self.last).replace(
            instructor_thread_id=copies[0].thread.id, worker_thread_id=copies[1].thread.id
        )
        rounds = [
            round_row(replace(round_, pair_id=made.id, instructor_run_id=None, worker_run_id=None))
            for round_ in self.taken
        ]
        threads = store_copies(store, copies, pairs=[pair_row(made)], pair_rounds=rounds)
        store.pairs.keep_files(made.id, self.kept)
        stored = store.pairs.require(made.id)
        return Forked(
            tuple(threads),
            pair.name,
            pair.id,
            sum(len(each.turns) for each in copies),
            number,
            pair=stored.name,
            is_finished=stored.is_finished,
            notes=self._notes(number),
        )

    def _notes(self, number: int) -> tuple[str, ...]:
        notes = [FILES_STAY] if number < self.last else []
        if self.at_round is None and self.last < self.pair.number:
            notes.append(f"round {self.pair.number}, which has not ended, is not in it")
        return tuple(notes)


def _files(store: Store, pair: Pair) -> KeptFiles | None:
    """The files as they were when the worker stopped. The run's id is removed: a copied thread has no runs."""
    _, kept = known_files(store, pair)
    return None if kept is None else replace(kept, run_id=None)


def _is_complete(round_: PairRound) -> bool:
    """Whether the round has ended. For rounds from a state file, which have no times."""
    return round_.result is not None or (round_.order is not None and not round_.order.should_continue)


def _pair(pair: Pair, last: PairRound, name: str, engine: Engine, *, is_last: bool) -> Pair:
    """The pair after that round. A user's message that has not been sent yet is kept only if that round is the last."""
    now = engine.context.clock()
    return replace(
        pair,
        id=new_pair_id(now, engine.context.new_id()),
        name=name,
        number=last.number,
        last_round=max(pair.last_round, last.number),
        phase=Phase.DONE,
        is_finished=last.order is not None and not last.order.should_continue,
        asking="",
        asked_at=now,
        run_id=None,
        asked_again=False,
        message=pair.message if is_last else "",
        planned_messages=pair.planned_messages if is_last else (),
        fresh_parts=(),
        stop_requested=False,
        changed_files=(),
        error=None,
        hint=None,
        error_code=None,
        imported_from=None,
        imported_round=None,
        created_at=now,
        updated_at=now,
    )


def _until(store: Store, pair: Pair, part: PairPart, rounds: Sequence[PairRound]) -> History:
    """The part's history up to its last answer in these rounds."""
    history = store.turns.history(pair.thread_of(part))
    end = 0
    for round_ in rounds:
        end = _answer_of(store, part, round_, history, end)
    return history[:end]


def _answer_of(store: Store, part: PairPart, round_: PairRound, history: History, start: int) -> int:
    """The index after the round's answer: found by its run, or by its text if the round was imported.

    Returns `start` if the part gave no answer in this round.
    """
    if (round_.order if part is PairPart.INSTRUCTOR else round_.result) is None:
        return start
    run_id = round_.instructor_run_id if part is PairPart.INSTRUCTOR else round_.worker_run_id
    run = store.runs.find(run_id) if run_id is not None else None
    for place, turn in enumerate(history[start:], start=start + 1):
        if turn.role is not Role.ASSISTANT:
            continue
        if turn.id == run.answer_turn_id if run is not None else _is_answer(part, round_, turn):
            return place
    raise UsageError(
        f"The {part}'s answer of round {round_.number} is no longer in its thread.",
        hint="Fork at an earlier round.",
    )


def _is_answer(part: PairPart, round_: PairRound, turn: Turn) -> bool:
    if part is PairPart.WORKER:
        return round_.result in (turn.text, unattributed(turn.text))
    try:
        return read_order(turn.text) == round_.order
    except SchemaMismatch:
        return False
