"""Runs a pair: asks its next prompt, stores the result, and repeats until the pair is done or must stop.

Every write to a pair checks the pair's lease in the same transaction. So a process that was suspended while another one
took its pair over writes nothing more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from clew.core.pairs import prompts
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
from clew.hosts.pairs import folder, rows, saving
from clew.hosts.pairs.answer import read_order
from clew.hosts.pairs.files import FileScan, scan_files
from clew.hosts.pairs.live import LivePair
from clew.hosts.structured_output import SchemaMismatch
from clew.store.rows.pairs import KeptFiles
from clew.store.store import Store

log = logging.getLogger("clew.hosts.pairs.pairs")

T = TypeVar("T")
SAVE_EVERY_ROUNDS = 5
STOPPED = "The pair was stopped."


class PairRuns:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._store = engine.store
        self._context = engine.context

    async def run(self, live: LivePair) -> None:
        try:
            async with live.leases.kept(on_lost=live.cancel):
                try:
                    live.error = await self._run_to_end(live)
                except ClewError as error:
                    live.error = error
                except Exception as error:
                    live.error = AgentFailed(f"A fault in Clew itself: {error!r}")
                    raise
                finally:
                    await self._store_end(live)
        finally:
            live.send(None)  # else a listener would wait for ever

    async def _run_to_end(self, live: LivePair) -> ClewError | None:
        """Returns the error that stopped the pair; None: it is done."""
        unrecorded = await self._recover(live)
        if unrecorded is not None:
            error = await self._record(live, unrecorded)
            if error is not None:
                return error
        while True:
            pair = await self._store.call(lambda store: store.pairs.require(live.pair.id))
            if pair.phase is Phase.DONE:
                return None
            if live.is_lost:
                return taken_over(pair)
            if live.stopped or pair.stop_requested:
                return Cancelled(STOPPED)
            finished = await self._ask(live, pair)
            error = await self._record(live, finished)
            if isinstance(error, UsageLimit) and live.options.wait_for_limit:
                live.not_before = await self._store.call(partial(wake_at, run=finished.run))
                await self._recover(live)
                continue
            if error is not None:
                return error
            if pair.phase is Phase.WORKING and pair.number % SAVE_EVERY_ROUNDS == 0:
                await self._save(live)

    async def _recover(self, live: LivePair) -> FinishedRun | None:
        """Sets the prompt to continue with, and reports once which files somebody else has changed.

        Returns a successful run whose answer has not been recorded yet, if there is one.
        """
        pair, (run_id, kept) = await self._store.call(
            lambda store: (store.pairs.require(live.pair.id), rows.known_files(store, live.pair))
        )
        scan = await self._scan(live, pair, run_id, kept)
        changed = scan.changed if scan is not None else ()

        def write(store: Store, now: float) -> FinishedRun | None:
            if scan is not None:
                store.pairs.keep_files(pair.id, scan.files)
            return rows.recover(store, store.pairs.require(pair.id), changed, now, rows.new_mark(self._context))

        unrecorded = await self._write(live, write)
        if changed:
            message = f"changed by somebody else since: {_listed(changed)}"
            live.send(PairWarned(pair.number, "files_changed", message))
        return unrecorded

    async def _scan(
        self, live: LivePair, pair: Pair, run_id: str | None, kept: KeptFiles | None = None
    ) -> FileScan | None:
        """Scans the files. Warns once if they are not scanned, for example because there are too many."""
        scan = await live.scan(scan_files(pair.cwd, self._context.environ, run_id, kept))
        if scan is not None and scan.skipped_because and not live.warned_not_scanned:
            live.warned_not_scanned = True
            message = f"the files here are not checked for changes by somebody else: {scan.skipped_because}"
            live.send(PairWarned(pair.number, "not_looked", message))
        return scan

    async def _ask(self, live: LivePair, pair: Pair) -> FinishedRun:
        """Asks the pair's prompt, and waits for the end of the run."""
        part = pair.part

        def request(store: Store) -> TurnRequest:
            thread = store.threads.require(pair.thread_of(part))
            model = pair.model_of(part)
            if part is PairPart.WORKER:
                rounds = {each.number: each for each in store.pairs.rounds(pair.id)}
                model = rounds[pair.number].worker_model or model
            how = live.options
            options = TurnOptions(
                agent=pair.agent,
                model=model,
                fresh_session=part in pair.fresh_parts,
                timeout_s=how.timeout_s,
                person=how.person,
            )
            return TurnRequest(thread, pair.asking, options, standing=thread.standing, not_before=live.not_before)

        def record(store: Store, run: Run) -> None:
            live.leases.fence(store)
            if store.pairs.require(pair.id).stop_requested:  # since the loop has looked
                raise Cancelled(STOPPED)
            rows.record_start(store, pair, run, self._context.clock())

        turn = await self._engine.start(await self._store.call(request), record)
        live.not_before = None
        run = turn.run
        live.follow(turn)
        live.send(PairAsked(pair.number, pair.last_round, part, run.id, run.model, pair.asking))
        async for stored in turn.events():
            live.send(PairRunEvent(pair.number, part, run.id, stored.event))
        return await turn.finish()

    async def _record(self, live: LivePair, finished: FinishedRun) -> ClewError | None:
        """Stores the result of a run, and what follows from it. Returns an error that stops the pair."""
        pair = await self._store.call(lambda store: store.pairs.require(live.pair.id))
        if pair.part is PairPart.WORKER:
            scan = await self._scan(live, pair, finished.run.id)
            await self._record_report(live, pair, finished, scan.files if scan is not None else None)
            return finished.error
        if finished.error is not None:
            return finished.error
        try:
            order = read_order(finished.text)
        except SchemaMismatch as error:
            if pair.asked_again:
                return AgentFailed(
                    f"The instructor's answer does not fit, and neither did the one before: {error}",
                    hint=f"clew threads show pair-{pair.name}-instructor has it; {_continues(pair)} and asks again.",
                )
            text = prompts.invalid_answer(str(error))
            await self._write(live, lambda store, now: rows.set_prompt(store, pair, text, now, asked_again=True))
            message = f"the instructor's answer does not fit, and is asked for once more: {error}"
            live.send(PairWarned(pair.number, "asked_again", message))
            return None
        await self._record_order(live, pair, finished, order)
        return None

    async def _record_report(self, live: LivePair, pair: Pair, finished: FinishedRun, kept: KeptFiles | None) -> None:
        def write(store: Store, now: float) -> None:
            store.pairs.keep_files(pair.id, kept)
            if finished.error is None:
                rows.record_report(store, pair, finished.text, now, rows.new_mark(self._context))

        await self._write(live, write)
        if finished.error is None:
            live.send(PairWorked(pair.number, finished.text, finished.run.id))

    async def _record_order(self, live: LivePair, pair: Pair, finished: FinishedRun, order: Order) -> None:
        await self._write(
            live, lambda store, now: rows.record_order(store, pair, order, now, rows.new_mark(self._context))
        )
        live.send(PairOrdered(pair.number, order, finished.run.id))
        if order.worker_model is not None and order.worker_model not in pair.models:
            known = ", ".join(pair.models) or "none"
            message = f"the instructor named a model that was not given ({order.worker_model}; known: {known}): ignored"
            live.send(PairWarned(pair.number, "unknown_model", message))

    async def _store_end(self, live: LivePair) -> None:
        """Stores why the pair stopped, and writes the state file."""
        if live.is_lost:
            return
        error = live.error
        try:
            if error is not None:
                error.hint = _hint(error, live.pair)
                fields = {"error": error.message, "hint": error.hint, "error_code": error.code}
                await self._write(live, lambda store, now: store.pairs.update(live.pair.id, at=now, **fields))
            await self._save(live)
        except ClewError as trouble:
            log.warning("the end of a pair could not be stored: %s", trouble.message)

    async def _save(self, live: LivePair) -> None:
        """Writes the state file. A failure does not stop the pair: the store has everything."""
        if not live.options.auto_save:
            return
        whole = await self._store.call(lambda store: saving.saved_pair(store, live.pair.id))
        pair = whole.pair
        path, saved = folder.path_of(pair.cwd, pair.id), None
        try:
            saved = await asyncio.to_thread(saving.write, whole, self._context.environ)
            path = path.with_name(folder.CURRENT)
            await asyncio.to_thread(folder.point_at, saved)
        except OSError as error:
            live.send(PairWarned(pair.number, "not_saved", saving.not_written(path, error)))
        if saved is not None:
            live.saved = str(saved)
            live.send(PairSaved(pair.number, live.saved))

    async def _write(self, live: LivePair, work: Callable[[Store, float], T]) -> T:
        """Does `work` in one transaction, and only while this process holds the pair's lease."""

        def fenced(store: Store) -> T:
            live.leases.fence(store)
            return work(store, self._context.clock())

        return await self._store.atomically(fenced)


def _continues(pair: Pair) -> str:
    return f"clew pair --session {pair.name} continues it"


def _hint(error: ClewError, pair: Pair) -> str:
    """What to do about the error in a pair. The error's own hint may be to ask again, which is wrong in a pair."""
    continues = _continues(pair)
    match error:
        case WrongModel():
            return f"{continues}; --instructor-model and --worker-model choose another model."
        case Cancelled() | AgentFailed():
            return error.hint if error.hint and continues in error.hint else f"{continues}."
        case AuthFailed():
            return f"Log in with the agent's own CLI, or set its key; then {continues}."
        case BillingFailed():
            return f"Add credit, or change the plan; then {continues}."
        case UsageLimit():
            return f"When it has reset, {continues}."
        case TimedOut():
            return f"{continues}; --timeout gives a run more time."
    return f"{error.hint} Then {continues}." if error.hint else f"{continues}."


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def taken_over(pair: Pair) -> Busy:
    return Busy(f"Another process took the pair {pair.name} over.", hint="It continues there.")
