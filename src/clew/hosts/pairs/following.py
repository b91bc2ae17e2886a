"""Follows a pair that any process runs, by what the store has of it: its rounds, and the events of its runs.

The order of the events follows from the rounds, not from times: in each round the instructor's runs come first, then
its order, then the worker's runs and its report. A round names the newest run of each part. A run before it, which was
interrupted or whose answer did not fit, belongs to the same round.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from functools import partial

from clew.core.lookup import ALL_ROWS
from clew.core.pairs import cursor as steps
from clew.core.pairs.cursor import FollowedEvent, PairCursor
from clew.core.pairs.pair import (
    Pair,
    PairAsked,
    PairEvent,
    PairOrdered,
    PairPart,
    PairRound,
    PairRoundEnded,
    PairRoundOpened,
    PairRunEvent,
    PairWorked,
)
from clew.core.record import Record
from clew.core.runs.run import LIVE, Run
from clew.engine.engine import FOLLOWED_CHARS, Engine
from clew.engine.leases import live_lease
from clew.hosts.pairs.live import lease_key
from clew.store.records import StoredEvent
from clew.store.store import Store

_STEP_OF = {PairPart.INSTRUCTOR: steps.INSTRUCTING, PairPart.WORKER: steps.WORKING}
Runs = dict[tuple[int, PairPart], list[Run]]  # by round and part, the oldest first


class _RunStep(Record):
    """A run, whose events are read when their turn comes."""

    part: PairPart
    run: Run


class _View(Record):
    """The pair at one moment."""

    version: int
    pair: Pair
    rounds: tuple[PairRound, ...]
    runs: Runs
    is_running: bool


async def follow(engine: Engine, pair_id: str, after: PairCursor) -> AsyncGenerator[FollowedEvent, None]:
    """The pair's events after that one, each when it is stored, until no process runs the pair. Raises NotFound."""
    cursor = after
    while True:
        view = await engine.store.read_large(partial(_view, engine, pair_id))
        is_stale = False
        for at, step in _steps(view):
            if not isinstance(step, _RunStep):
                if at > cursor:
                    yield FollowedEvent(at, step)
                    cursor = at
                continue
            end = at._replace(seq=steps.AFTER_RUN)
            if end <= cursor:
                continue
            if at > cursor:
                yield FollowedEvent(at, _asked(view.pair, at.round, step))
                cursor = at
            async for stored in _events_of(engine, view.pair, step.run, cursor.seq):
                cursor = at._replace(seq=stored.seq)
                if stored.event is not None:  # None: an event of a later version
                    yield FollowedEvent(cursor, PairRunEvent(at.round, step.part, step.run.id, stored.event))
            cursor = end
            if step.run.status in LIVE:
                is_stale = True
                break
        if not is_stale:
            if not view.is_running:
                return
            await _change(engine, view)


def _view(engine: Engine, pair_id: str, store: Store) -> _View:
    with store.reading():
        pair = store.pairs.require(pair_id)
        rounds = tuple(store.pairs.rounds(pair.id))
        return _View(
            store.versions.current(),
            pair,
            rounds,
            _runs_by_round(store, pair, rounds),
            _is_running(store, engine, pair),
        )


def _is_running(store: Store, engine: Engine, pair: Pair) -> bool:
    return live_lease(store, lease_key(pair), engine.context) is not None


def _runs_by_round(store: Store, pair: Pair, rounds: tuple[PairRound, ...]) -> Runs:
    found: Runs = {}
    for part in PairPart:
        is_instructor = part is PairPart.INSTRUCTOR
        named = {each.instructor_run_id if is_instructor else each.worker_run_id: each.number for each in rounds}
        number = pair.number
        for run in store.runs.newest(thread_id=pair.thread_of(part), limit=ALL_ROWS):  # the newest first
            number = named.get(run.id, number)
            found.setdefault((number, part), []).append(run)
    return {of: runs[::-1] for of, runs in found.items()}


def _steps(view: _View) -> Iterator[tuple[PairCursor, PairEvent | _RunStep]]:
    pair = view.pair
    for round_ in view.rounds:
        number, order = round_.number, round_.order
        opened = PairRoundOpened(number, pair.last_round, round_.message, round_.changed_files)
        yield PairCursor(number, steps.OPENED), opened
        yield from _run_steps(view, number, PairPart.INSTRUCTOR)
        if order is not None:
            yield PairCursor(number, steps.ORDERED), PairOrdered(number, order, round_.instructor_run_id)
        yield from _run_steps(view, number, PairPart.WORKER)
        if round_.result is not None:
            yield PairCursor(number, steps.WORKED), PairWorked(number, round_.result, round_.worker_run_id)
        is_finished = order is not None and not order.should_continue
        if round_.result is not None or is_finished:
            yield PairCursor(number, steps.ENDED), PairRoundEnded(number, is_finished)


def _run_steps(view: _View, number: int, part: PairPart) -> Iterator[tuple[PairCursor, _RunStep]]:
    for place, run in enumerate(view.runs.get((number, part), ()), start=1):
        yield PairCursor(number, _STEP_OF[part], place), _RunStep(part, run)


def _asked(pair: Pair, number: int, step: _RunStep) -> PairAsked:
    run = step.run
    return PairAsked(number, pair.last_round, step.part, run.id, run.model, run.prompt)


async def _events_of(engine: Engine, pair: Pair, run: Run, after: int) -> AsyncGenerator[StoredEvent, None]:
    """The run's events, up to its last one, or until nobody runs the pair: then the run's process is dead."""

    def is_over(store: Store) -> bool:
        found = store.runs.find(run.id)
        return found is None or found.status not in LIVE or not _is_running(store, engine, pair)

    def batch(after: int, store: Store) -> list[StoredEvent]:
        return store.events.next(run.id, after, max_chars=FOLLOWED_CHARS)

    while True:
        was_over = await engine.store.call(is_over)  # before its events are read, so that none is missed
        while found := await engine.store.read_large(partial(batch, after)):
            while found:
                after = found[0].seq
                yield found.pop(0)  # removed, to free its memory while the follower is slow
        if was_over:
            return
        await asyncio.sleep(engine.settings.poll_s)


async def _change(engine: Engine, view: _View) -> None:
    """Waits until the pair may have changed since that view."""
    before = view.version, view.is_running
    while True:
        await asyncio.sleep(engine.settings.poll_s)
        now = await engine.store.call(lambda store: (store.versions.current(), _is_running(store, engine, view.pair)))
        if now != before:
            return
