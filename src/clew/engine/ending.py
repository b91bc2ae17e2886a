"""The end of a run, written once: whatever dies next, whatever breaks in the very commit (ADR 32)."""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.events import RunEnded
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.run import LIVE, IllegalStatus, Run, RunStatus
from clew.engine.attempt import AttemptEnd
from clew.engine.closing import Closing, Finished
from clew.engine.database import Access
from clew.engine.faults import passed
from clew.engine.journal import Journal, Noted
from clew.engine.leases import Leases
from clew.engine.plan import Plan
from clew.errors import ClewError, StoreError
from clew.store.store import Store


class Ending:
    def __init__(self, run: Run, database: Access, journal: Journal, leases: Leases, closing: Closing) -> None:
        self._run = run
        self._database = database
        self._journal = journal
        self._leases = leases
        self._closing = closing
        self.is_left = False  # to recovery: the store could not be told of the end

    async def leave(self, plan: Plan, end: AttemptEnd) -> None:
        """An attempt that another follows."""

        def write(store: Store) -> None:
            self._leases.fence(store)
            self._closing.leave(store, plan, end)

        def is_left(store: Store) -> bool:
            return any(attempt.id == plan.attempt.id and attempt.ended_at for attempt in store.attempts(self._run.id))

        await self._database.atomically(write, is_left)

    async def concluded(self, plan: Plan, end: AttemptEnd, status: RunStatus) -> Finished:
        """After the last attempt."""
        passed("outcome_known")
        async with self._journal.taking() as unstored:
            finished, last_words = await self._database.atomically(
                lambda store: self._conclude(store, plan, end, status, unstored), self._is_over
            )
        self._leases.given_back()
        passed("outcome_stored")
        await self._journal.tell_stored(last_words)
        return finished

    def _conclude(
        self, store: Store, plan: Plan, end: AttemptEnd, status: RunStatus, unstored: Sequence[Noted]
    ) -> tuple[Finished, list[Noted]]:
        """The last events are part of the transaction, as is the thread's next turn: a run that has ended says so, and
        is in nobody's way, whatever dies next."""
        self._leases.fence(store)
        finished, warning = self._closing.conclude(store, plan, end, status)
        run = finished.run
        message = finished.error.message if finished.error else ""
        last_words = RunEnded(run.status, end.outcome, run.usage, run.cost_usd, message)
        noted = self._journal.upcoming(*([warning] if warning else []), last_words)
        store.append_events(run.id, [(each.seq, each.at, each.event) for each in (*unstored, *noted)])
        self._leases.give_back(store)
        return finished, noted

    def _is_over(self, store: Store) -> bool:
        return store.require_run(self._run.id).status not in LIVE

    async def failed(self, status: RunStatus, outcome: Outcome, error: ClewError) -> Finished:
        """An end that no agent had a part in; the run must not stay open."""
        try:
            await self._journal.flush()
            run, noted = await self._database.atomically(
                lambda store: self._fail(store, status, outcome, error), self._is_over
            )
            await self._journal.tell_stored([noted])
        except (ClewError, IllegalStatus):
            self.is_left = True
            run = replace(self._run, status=status, error=error.message)  # the store failed, or the run is not ours
        return Finished(run, self._closing.answer.text, error)

    def _fail(self, store: Store, status: RunStatus, outcome: Outcome, error: ClewError) -> tuple[Run, Noted]:
        if self._leases.held_thread:
            self._leases.fence(store)  # whoever took the thread over says how the run ended
        now = self._closing.around.clock()
        run = store.update_run(self._run.id, status=status, outcome=outcome, error=error.message, ended_at=now)
        [noted] = self._journal.upcoming(RunEnded(status, outcome, message=error.message))
        store.append_events(run.id, [(noted.seq, noted.at, noted.event)])
        return run, noted

    def left(self, error: StoreError) -> Finished:
        """The store failed, not the run: none of its end is written, and recovery has it, as after a crash.

        A prompt that nobody was asked stays queued, what was said is kept, and an open question stays open.
        """
        self.is_left = True
        run = replace(self._run, status=RunStatus.INTERRUPTED, error=error.message)
        return Finished(run, self._closing.answer.text, error)
