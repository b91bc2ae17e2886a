"""Stores the end of a run exactly once, even if a process dies or the connection breaks during the commit (ADR 32)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.runs.events import RunEnded
from clew.core.runs.run import LIVE, IllegalStatus, Run, RunStatus
from clew.engine.attempt import AttemptEnd
from clew.engine.faults import passed
from clew.engine.finish.results import FinishedRun, RunResults, SessionFile
from clew.engine.journal import Journal, JournalEntry
from clew.engine.leases import HeldLeases
from clew.engine.planning.plan import AttemptPlan
from clew.engine.storage.async_store import StoreAccess
from clew.errors import ClewError, StoreError
from clew.store.store import Store


class EndOfRun:
    def __init__(
        self, run: Run, async_store: StoreAccess, journal: Journal, leases: HeldLeases, results: RunResults
    ) -> None:
        self._run = run
        self._store = async_store
        self._journal = journal
        self._leases = leases
        self._results = results
        self.is_left_to_recovery = False  # the end could not be stored

    async def store_attempt(self, plan: AttemptPlan, end: AttemptEnd) -> None:
        """Stores the end of an attempt that is followed by another attempt."""
        file = await asyncio.to_thread(self._results.read_session, plan, end)

        def write(store: Store) -> None:
            self._leases.fence(store)
            self._results.store_attempt(store, plan, end, file)

        def is_stored(store: Store) -> bool:
            attempts = store.runs.attempts(self._run.id)
            return any(attempt.id == plan.attempt.id and attempt.ended_at for attempt in attempts)

        await self._store.atomically(write, is_stored)

    async def conclude(
        self,
        plan: AttemptPlan,
        end: AttemptEnd,
        status: RunStatus,
        also: Callable[[Store, AttemptEnd, RunResults], None],
    ) -> FinishedRun:
        """Stores the end of the last attempt, and of the run. `also` writes more in the same transaction."""
        passed("outcome_known")
        async with self._journal.taking() as unstored:
            file = await asyncio.to_thread(self._results.read_session, plan, end)
            finished, last = await self._store.atomically(
                lambda store: self._write(store, plan, end, file, status, unstored, also), self._is_over
            )
        self._leases.given_back()
        passed("outcome_stored")
        await self._journal.stored(last)
        return finished

    def _write(
        self,
        store: Store,
        plan: AttemptPlan,
        end: AttemptEnd,
        file: SessionFile,
        status: RunStatus,
        unstored: Sequence[JournalEntry],
        also: Callable[[Store, AttemptEnd, RunResults], None],
    ) -> tuple[FinishedRun, list[JournalEntry]]:
        """Stores the last events and releases the leases in the same transaction. So a run that has ended always has
        its last event and never blocks the next run of its thread, even if this process dies next."""
        self._leases.fence(store)
        finished, warning = self._results.store_run(store, plan, end, file, status)
        also(store, end, self._results)
        run = finished.run
        message = finished.error.message if finished.error else ""
        ended = RunEnded(run.status, end.outcome, run.usage, run.cost_usd, message)
        last = self._journal.numbered(*([warning] if warning else []), ended)
        store.events.append(run.id, [(each.seq, each.at, each.event) for each in (*unstored, *last)])
        self._leases.give_back(store)
        return finished, last

    def _is_over(self, store: Store) -> bool:
        return store.runs.require(self._run.id).status not in LIVE

    async def fail(self, status: RunStatus, outcome: Outcome, error: ClewError) -> FinishedRun:
        """Stores the end of a run that failed outside of an attempt."""
        try:
            await self._journal.flush()
            run, last = await self._store.atomically(
                lambda store: self._write_failure(store, status, outcome, error), self._is_over
            )
            await self._journal.stored([last])
        except (ClewError, IllegalStatus):  # the store failed, or another process has the run now
            self.is_left_to_recovery = True
            run = replace(self._run, status=status, error=error.message)
        return FinishedRun(run, self._results.answer.text, error)

    def _write_failure(
        self, store: Store, status: RunStatus, outcome: Outcome, error: ClewError
    ) -> tuple[Run, JournalEntry]:
        if self._leases.has_fence:
            self._leases.fence(store)  # raises if another process took the thread over: that process stores the end
        now = self._results.context.clock()
        run = store.runs.update(self._run.id, status=status, outcome=outcome, error=error.message, ended_at=now)
        [last] = self._journal.numbered(RunEnded(status, outcome, message=error.message))
        store.events.append(run.id, [(last.seq, last.at, last.event)])
        return run, last

    def leave_to_recovery(self, error: StoreError) -> FinishedRun:
        """The store failed, not the run. Nothing of the run's end is stored, and recovery ends it, as after a crash.

        A prompt that was not sent to an agent stays queued, what the agent said is kept, and an open question stays
        open.
        """
        self.is_left_to_recovery = True
        run = replace(self._run, status=RunStatus.INTERRUPTED, error=error.message)
        return FinishedRun(run, self._results.answer.text, error)
