"""One pair carried out: what is due is asked, what came of it is put down, until it is done or must stop.

Whatever is written of a pair is written in one transaction with a look at its lease: a process that slept, while
another took its pair over, writes nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from clew.core.pairs import prompts as words
from clew.core.pairs.pair import (
    Order,
    Pair,
    PairAsked,
    PairOrdered,
    PairPart,
    PairRunEvent,
    PairSaved,
    PairWarned,
    PairWorked,
    Phase,
)
from clew.core.runs.options import TurnOptions
from clew.core.runs.run import Run
from clew.engine.engine import Engine
from clew.engine.finish.results import FinishedRun
from clew.engine.limits import wake_at
from clew.engine.request import TurnRequest
from clew.errors import (
    AgentFailed,
    AuthFailed,
    BillingFailed,
    Busy,
    Cancelled,
    ClewError,
    TimedOut,
    UsageLimit,
    WrongModel,
)
from clew.hosts.pairs import files as pair_files
from clew.hosts.pairs import folder as pair_folder
from clew.hosts.pairs import rows as pair_rows
from clew.hosts.pairs import saving as pair_saving
from clew.hosts.pairs.answer import read_order
from clew.hosts.pairs.files import Look
from clew.hosts.pairs.live import LivePair
from clew.hosts.structured_output import SchemaMismatch
from clew.store.rows.pairs import KeptFiles
from clew.store.store import Store

log = logging.getLogger("clew.hosts.pairs.pairs")

T = TypeVar("T")
SAVE_EVERY = 5  # rounds


class PairRuns:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def carry_out(self, live: LivePair) -> None:
        try:
            async with live.leases.kept(on_lost=live.cancel):
                try:
                    live.error = await self._go(live)
                except ClewError as error:
                    live.error = error
                except Exception as error:
                    live.error = AgentFailed(f"A fault in Clew itself: {error!r}")
                    raise
                finally:
                    await self._put_down(live)
        finally:
            live.tell(None)  # or whoever listens to its events would wait for ever

    async def _go(self, live: LivePair) -> ClewError | None:
        """To its end, or to what must stop it."""
        left = await self._pick_up(live)
        if left is not None:
            error = await self._settle(live, left)
            if error is not None:
                return error
        while True:
            pair = await self._call(lambda store: store.pairs.require(live.pair.id))
            if pair.phase is Phase.DONE:
                return None
            if live.lost:
                return taken_over(pair)
            if live.stopped:
                return Cancelled("The pair was stopped.")
            finished = await self._ask(live, pair)
            error = await self._settle(live, finished)
            if isinstance(error, UsageLimit) and live.manner.wait_for_limit:
                live.not_before = await self._call(partial(wake_at, run=finished.run))
                await self._pick_up(live)
                continue
            if error is not None:
                return error
            if pair.phase is Phase.WORKING and pair.number % SAVE_EVERY == 0:
                await self._save(live)

    async def _pick_up(self, live: LivePair) -> FinishedRun | None:
        """What it was left with, and which files somebody has changed since; told once."""
        pair, (run_id, kept) = await self._call(
            lambda store: (store.pairs.require(live.pair.id), pair_rows.known_files(store, live.pair))
        )
        look = await self._look(live, pair, run_id, kept)
        changed = look.changed if look is not None else ()

        def write(store: Store, now: float) -> FinishedRun | None:
            if look is not None:
                store.pairs.keep_files(pair.id, look.files)
            return pair_rows.pick_up(store, store.pairs.require(pair.id), changed, now, self._mark())

        left = await self._write(live, write)
        if changed:
            message = f"changed by somebody else since: {_listed(changed)}"
            live.tell(PairWarned(pair.number, "files_changed", message))
        return left

    async def _look(self, live: LivePair, pair: Pair, run_id: str | None, kept: KeptFiles | None = None) -> Look | None:
        """At the files. That there are too many is said once."""
        look = await live.looked(pair_files.look(pair.cwd, self._engine.context.environ, run_id, kept))
        if look is not None and look.too_much and not live.told_too_much:
            live.told_too_much = True
            message = f"the files here are not looked at: {look.too_much}. What somebody else changes is not told"
            live.tell(PairWarned(pair.number, "not_looked", message))
        return look

    async def _ask(self, live: LivePair, pair: Pair) -> FinishedRun:
        """What is due, asked, to the end of its run."""
        part = pair.part

        def prepared(store: Store) -> TurnRequest:
            thread = store.threads.require(pair.thread_of(part))
            model = pair.instructor_model
            if part is PairPart.WORKER:
                rounds = {each.number: each for each in store.pairs.rounds(pair.id)}
                model = rounds[pair.number].worker_model or pair.worker_model
            manner = live.manner
            options = TurnOptions(agent=pair.agent, model=model, timeout_s=manner.timeout_s, person=manner.person)
            return TurnRequest(thread, pair.asking, options, standing=thread.standing, not_before=live.not_before)

        def note(store: Store, run: Run) -> None:
            live.leases.fence(store)
            pair_rows.began(store, pair, run, self._engine.context.clock())

        turn = await self._engine.start(await self._call(prepared), note)
        live.not_before = None
        run = turn.run
        live.follow(turn)
        live.tell(PairAsked(pair.number, pair.last_round, part, run.id, run.model, pair.asking))
        async for noted in turn.events():
            live.tell(PairRunEvent(pair.number, part, run.id, noted.event))
        return await turn.finish()

    async def _settle(self, live: LivePair, finished: FinishedRun) -> ClewError | None:
        """What follows from the end of a run, written down. An error: the pair stops, and can be gone on with."""
        pair = await self._call(lambda store: store.pairs.require(live.pair.id))
        if pair.part is PairPart.WORKER:
            look = await self._look(live, pair, finished.run.id)
            await self._worked(live, pair, finished, look.files if look is not None else None)
            return finished.error
        if finished.error is not None:
            return finished.error
        try:
            order = read_order(finished.text)
        except SchemaMismatch as error:
            if pair.asked_again:
                return AgentFailed(
                    f"The instructor's answer does not fit, and neither did the one before: {error}",
                    hint=f"clew threads show pair-{pair.name}-instructor has it; {_goes_on(pair)} and asks again.",
                )
            again = words.again(str(error))
            await self._write(live, lambda store, now: pair_rows.due(store, pair, again, now, asked_again=True))
            message = f"the instructor's answer does not fit, and is asked for once more: {error}"
            live.tell(PairWarned(pair.number, "asked_again", message))
            return None
        await self._ordered(live, pair, finished, order)
        return None

    async def _worked(self, live: LivePair, pair: Pair, finished: FinishedRun, kept: KeptFiles | None) -> None:
        def write(store: Store, now: float) -> None:
            store.pairs.keep_files(pair.id, kept)
            if finished.error is None:
                pair_rows.worked(store, pair, finished.text, now, self._mark())

        await self._write(live, write)
        if finished.error is None:
            live.tell(PairWorked(pair.number, finished.text, finished.run.id))

    async def _ordered(self, live: LivePair, pair: Pair, finished: FinishedRun, order: Order) -> None:
        await self._write(live, lambda store, now: pair_rows.ordered(store, pair, order, now, self._mark()))
        live.tell(PairOrdered(pair.number, order, finished.run.id))
        if order.worker_model is not None and order.worker_model not in pair.models:
            known = ", ".join(pair.models) or "none"
            words_ = f"the instructor named a model that was not given ({order.worker_model}; known: {known}): ignored"
            live.tell(PairWarned(pair.number, "unknown_model", words_))

    async def _put_down(self, live: LivePair) -> None:
        """Why it stopped, and the state file."""
        error = live.error
        try:
            if error is not None and not live.lost:
                error.hint = hint_of(error, live.pair)
                fields = {"error": error.message, "hint": error.hint, "error_code": error.code}
                await self._write(live, lambda store, now: store.pairs.update(live.pair.id, at=now, **fields))
            if not live.lost:
                await self._save(live)
        except ClewError as trouble:
            log.warning("the end of a pair could not be put down: %s", trouble.message)

    async def _save(self, live: LivePair) -> None:
        """The state file. One that cannot be written stops nobody: all of it is in the store."""
        if not live.manner.auto_save:
            return
        whole = await self._call(lambda store: pair_saving.saved_pair(store, live.pair.id))
        pair, environ = whole.pair, self._engine.context.environ
        where, saved = pair_folder.path_of(pair.cwd, pair.id), None
        try:
            saved = await asyncio.to_thread(pair_saving.write, whole, environ)
            where = where.with_name(pair_folder.CURRENT)
            await asyncio.to_thread(pair_folder.point_at, saved)
        except OSError as error:
            live.tell(PairWarned(pair.number, "not_saved", pair_saving.not_written(where, error)))
        if saved is not None:
            live.saved = str(saved)
            live.tell(PairSaved(pair.number, live.saved))

    async def _write(self, live: LivePair, work: Callable[[Store, float], T]) -> T:
        """In one transaction, and only while the pair is this process's own."""

        def fenced(store: Store) -> T:
            live.leases.fence(store)
            return work(store, self._engine.context.clock())

        return await self._engine.store.atomically(fenced)

    def _mark(self) -> str:
        return self._engine.context.new_id()[:16]

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.store.call(work)


def _goes_on(pair: Pair) -> str:
    return f"clew pair --session {pair.name} goes on with it"


def hint_of(error: ClewError, pair: Pair) -> str:
    """What to do about it, with this pair: the words of a run speak of asking again."""
    goes_on = _goes_on(pair)
    match error:
        case WrongModel():
            return f"{goes_on}; --instructor-model and --worker-model choose another model."
        case Cancelled() | AgentFailed():
            return error.hint if error.hint and goes_on in error.hint else f"{goes_on}."
        case AuthFailed():
            return f"Log in with the agent's own CLI, or set its key; then {goes_on}."
        case BillingFailed():
            return f"Add credit, or change the plan; then {goes_on}."
        case UsageLimit():
            return f"When it has reset, {goes_on}."
        case TimedOut():
            return f"{goes_on}; --timeout gives a run more time."
    return f"{error.hint} Then {goes_on}." if error.hint else f"{goes_on}."


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def taken_over(pair: Pair) -> Busy:
    return Busy(f"Another process took the pair {pair.name} over.", hint="It goes on there.")
