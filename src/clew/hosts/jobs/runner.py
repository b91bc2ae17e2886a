"""One job's runs, one after the other: what is asked of the agent, and what follows from each end.

A worker may have slept while another took its job over, and may wake at any point of this. So whatever it writes of a
job is written in one transaction with a look at the rows: only while the run that it speaks of is the job's newest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from clew.core.decision import Reason
from clew.core.ids import RunId
from clew.core.jobs.job import ACTIVE, STOPPED, TOO_LATE, IllegalJobMove, Job, JobStatus, after_run
from clew.core.outcome import Outcome
from clew.core.runs.events import MessageSaid
from clew.core.runs.run import LIVE, Run, RunStatus
from clew.engine import leases
from clew.engine.durable.claims import WorkerSlot
from clew.engine.engine import Engine
from clew.engine.finish.results import FinishedRun
from clew.engine.journal import JournalEntry
from clew.engine.request import Slots
from clew.engine.turn import LiveTurn
from clew.errors import AgentFailed, AgentMissing, Busy, ClewError, StoreError, UsageLimit
from clew.hosts.jobs import asks as job_asks
from clew.hosts.jobs import rows as job_rows
from clew.hosts.jobs.files import FilesChanged, JobFiles
from clew.hosts.jobs.preparation import JobPreparation
from clew.hosts.jobs.rows import NotItsTurn
from clew.store.store import Store

log = logging.getLogger("clew.hosts.jobs.jobs")

T = TypeVar("T")
NO_PREPARATIONS: Mapping[str, JobPreparation] = MappingProxyType({})
SLOTS = "slots/jobs"
LOOK_S = 1.0  # how soon a job that waits sees that it is cancelled, or that its turn has come
CHECKPOINT_S = 120.0


class _ToBeEnded(Exception):
    """The job was cancelled, or its deadline has passed: that is written in a transaction."""


class JobRunner:
    """Carries jobs out: all their runs, one after the other."""

    def __init__(
        self,
        engine: Engine,
        *,
        max_running: int | None = None,
        preparations: Mapping[str, JobPreparation] = NO_PREPARATIONS,
        checkpoint_s: float = CHECKPOINT_S,
    ) -> None:
        """`max_running`: over all machines; each worker has a limit of its own.

        `preparations`: by the kind of the jobs that need one.
        """
        self._preparations = preparations
        self._engine = engine
        self._slots = Slots(SLOTS, max_running) if max_running is not None else None
        self._checkpoint_s = checkpoint_s
        self._files = JobFiles(engine.context)

    async def carry_out(self, job_id: str, worker: str) -> None:
        """To the job's end, or until somebody must act. Cancelled: what was under way is handed back.

        For a process that is no worker and has no claim. Those of its key that stand before it come first, whoever was
        to carry them out.
        """
        while True:
            first = await self._call(lambda store: store.jobs.predecessor(job_id))
            try:
                await self._carry_to_end(first.id if first is not None else job_id, worker)
            except NotItsTurn:
                continue
            if first is None:
                return

    async def run_claimed(self, job_id: str, worker: str, slot: WorkerSlot) -> float | None:
        """A job that this worker has claimed, with a place for it among those that run: as far as it goes.

        None: it is over, or somebody must act. Else it is not the job's turn or not yet its time, and nothing of it is
        lost when another worker takes it up from the time that this says on. One that has begun is waited for: its
        session is here. Cancelled: what was under way is handed back.
        """
        while True:
            try:
                job, wait_s = await self._looked(job_id)
                if job is None:
                    return None
                if wait_s > 0:
                    if job.run_id is None:
                        return self._engine.context.clock() + wait_s
                    slot.release()
                    await asyncio.sleep(min(wait_s, LOOK_S))
                    continue
                await slot.acquire()
                if not await self._run_once(job, worker):
                    return None
            except NotItsTurn:
                return self._engine.context.clock() + LOOK_S
            except (Busy, IllegalJobMove):  # another worker has it after all, or it was cancelled in this very moment
                slot.release()
                await asyncio.sleep(LOOK_S)
            except asyncio.CancelledError:
                await self._hand_back(job_id, worker)
                raise

    async def _carry_to_end(self, job_id: str, worker: str) -> None:
        while (job := await self._ready(job_id)) is not None:
            try:
                if not await self._run_once(job, worker):
                    return
            except (Busy, IllegalJobMove):  # another worker has it after all, or its state changed at this very moment
                await asyncio.sleep(LOOK_S)
            except asyncio.CancelledError:
                await self._hand_back(job_id, worker)
                raise

    async def _ready(self, job_id: str) -> Job | None:
        """The job when it may run; None: it is over. Raises NotItsTurn."""
        while True:
            job, wait_s = await self._looked(job_id)
            if job is None or wait_s <= 0:
                return job
            await asyncio.sleep(min(wait_s, LOOK_S))

    async def _looked(self, job_id: str) -> tuple[Job | None, float]:
        """The job, and how long it is to wait; None: it is over. Raises NotItsTurn."""
        try:
            return await self._call(lambda store: self._look(store, job_id, may_end=False))
        except _ToBeEnded:
            return await self._engine.store.atomically(lambda store: self._look(store, job_id))

    def _look(self, store: Store, job_id: str, *, may_end: bool = True) -> tuple[Job | None, float]:
        job = store.jobs.find(job_id)
        if job is None or job.status in STOPPED:
            return None, 0.0
        now = leases.now(store, self._engine.context)  # other machines set the times that it is compared with
        if self._engine.is_held(store, job.thread_id):
            return job, LOOK_S  # by a run of a worker that is alive
        is_late = job.limits.deadline_at is not None and now >= job.limits.deadline_at
        if (job.cancel_requested or is_late) and not may_end:
            raise _ToBeEnded
        if job.cancel_requested:
            job_rows.end(store, job, JobStatus.CANCELLED, "The job was cancelled.", self._engine.context.clock())
            return None, 0.0
        if is_late:
            store.jobs.update(job_id, outcome=Outcome.TIMED_OUT)
            job_rows.end(store, job, JobStatus.FAILED, TOO_LATE, self._engine.context.clock())
            return None, 0.0
        if store.jobs.predecessor(job_id) is not None:
            raise NotItsTurn
        ready_at = max(job.not_before or 0.0, job.wake_at or 0.0)
        return job, min(ready_at, job.limits.deadline_at or ready_at) - now

    async def _run_once(self, job: Job, worker: str) -> bool:
        """One run. True: another is to follow."""
        if job.run_id is not None:
            await self._engine.recover()  # the last worker may have died with it
            job = await self._call(lambda store: store.jobs.require(job.id))
        begun: RunId | None = None
        try:
            ended = await self._call(lambda store: job_rows.unconcluded(store, job)) if job.run_id is not None else None
            if ended is not None:
                return await self._conclude(job, ended)
            is_there = job.run_id is not None and await asyncio.to_thread(os.path.isdir, job.cwd)
            if job.kind in self._preparations and not is_there:
                await self._preparations[job.kind].prepare(job)
            await self._files.check(job)
            turn = await self._begin(job, worker)
            if turn is None:
                return True  # cancelled in the meantime: a look at the row tells
            begun = turn.run.id
            said: list[JournalEntry] = []
            return await self._conclude(job, await self._follow(job, turn, said), said)
        except (StoreError, Busy, IllegalJobMove, NotItsTurn):
            raise  # whoever called waits until it is well again
        except ClewError as error:
            return await self._stop(job, begun, error)
        except Exception as error:  # noqa: BLE001 - a job must end, and say why
            return await self._stop(job, begun, AgentFailed(f"A fault in Clew itself: {error!r}"))

    async def _stop(self, job: Job, begun: RunId | None, error: ClewError) -> bool:
        """Ends the job for want of a run. True: it is another worker's by now, and not this one's to end."""

        def end(store: Store) -> bool:
            job_now = store.jobs.require(job.id)
            if job_now.run_id != (begun or job.run_id) or self._engine.is_held(store, job.thread_id):
                return True
            if begun is not None and store.runs.require(begun).status is RunStatus.INTERRUPTED:
                return True  # by whoever took it over
            if job_now.status in ACTIVE:
                changed = isinstance(error, FilesChanged)
                outcome = error.code if isinstance(error, AgentMissing) else None
                store.jobs.update(job.id, outcome=outcome, conflicts=error.paths if changed else ())  # type: ignore[attr-defined]
                status = JobStatus.CONFLICT if changed else JobStatus.FAILED
                job_rows.end(store, job_now, status, error.message, self._engine.context.clock(), error.hint)
            return False

        return await self._engine.store.atomically(end)

    async def _begin(self, job: Job, worker: str) -> LiveTurn | None:
        """None: the job was cancelled, or is another worker's by now. Raises NotItsTurn."""
        now = self._engine.context.clock()
        state = await self._call(lambda store: job_rows.read_context(store, job))
        ask = job_asks.ask(job, state, self._slots, now)
        try:
            # In the transaction that opens the run: of two that carry the job out, only one ever asks.
            return await self._engine.start(ask, lambda store, run: job_rows.begin(store, job, run, worker, now))
        except job_rows.NotOurs:
            return None

    async def _follow(self, job: Job, turn: LiveTurn, said: list[JournalEntry]) -> FinishedRun:
        """The run to its end; its markers and, now and then, its files are saved meanwhile.

        Markers of messages that are stored together with the run's end are left to its conclusion, in `said`.
        """
        saving = asyncio.create_task(self._save_now_and_then(job, turn.run)) if job.checkpoint else None
        try:
            async for noted in turn.events(stored=True):
                if isinstance(noted.event, MessageSaid) and turn.has_ended:
                    said.append(noted)
                elif isinstance(noted.event, MessageSaid):
                    marker = partial(job_rows.add_marker, job.id, turn.run.id, noted)
                    await self._engine.store.atomically(marker)
            return await turn.finish()
        except asyncio.CancelledError:
            await turn.abandon()
            await asyncio.shield(self._conclude(job, await turn.finish(), said))  # handed back, with its files saved
            raise
        except BaseException:
            await turn.abandon()
            raise
        finally:
            if saving is not None:
                saving.cancel()
                await asyncio.gather(saving, return_exceptions=True)

    async def _conclude(self, job: Job, finished: FinishedRun, said: Sequence[JournalEntry] = ()) -> bool:
        """What follows from the end of a run, once: written only while the run is the job's newest."""
        if isinstance(finished.error, StoreError):
            return True  # the store tells what became of it, when it is well and recovery has been there
        if job.checkpoint and not await self._call(lambda store: job_rows.is_open(store, job.id, finished.run.id)):
            return True  # it is another worker's by now, or over; so are the files
        await self._files.save(job, "end" if finished.error is None else "cut_off")
        resets_at = finished.error.resets_at if isinstance(finished.error, UsageLimit) else None
        _tell_of_loss(job, finished.run)

        def write(store: Store) -> bool:
            job_now, run = store.jobs.require(job.id), store.runs.require(finished.run.id)
            if not job_rows.is_open_now(job_now, run.id):
                return True
            if run.status in LIVE:
                return True  # so is the run: what this process has to say of it does not count
            for noted in said:
                job_rows.add_marker(job.id, run.id, noted, store)
            now = leases.now(store, self._engine.context)
            outcome = Outcome.SUCCESS if finished.error is None else Outcome(run.outcome or Outcome.FAILED)
            is_success = outcome is Outcome.SUCCESS  # then nothing depends on the runs before it
            what = after_run(
                job_now,
                outcome,
                earlier=() if is_success else job_rows.earlier_outcomes(store, job_now, run),
                resumed=not is_success and job_rows.was_resumed(store, run),
                resets_at=resets_at,
                now=now,
                jitter=random.random(),
            )
            if job_now.status is not JobStatus.RUNNING:
                store.jobs.update(job.id, status=JobStatus.RUNNING)
            store.jobs.update(job.id, **job_rows.changes(store, job_now, run, finished, outcome, what, now))
            return what.status in ACTIVE

        return await self._engine.store.atomically(write)

    async def _hand_back(self, job_id: str, worker: str) -> None:
        """This worker ends; another goes on."""

        def give_back(store: Store) -> None:
            job = store.jobs.require(job_id)
            if job.status is JobStatus.RUNNING and job.worker == worker:
                store.jobs.update(job_id, status=JobStatus.QUEUED, worker=None)

        await self._engine.store.atomically(give_back)

    async def _save_now_and_then(self, job: Job, run: Run) -> None:
        while True:
            await asyncio.sleep(self._checkpoint_s)
            if await self._call(lambda store: job_rows.is_open(store, job.id, run.id)):
                await self._files.save(job, "interval")

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.store.call(work)


LOST = frozenset({Reason.EXPIRED, Reason.SESSION_MISSING, Reason.REJECTED})


def _tell_of_loss(job: Job, run: Run) -> None:
    """A session that was to be gone on in, and was not there any more: somebody may wonder where it went."""
    if run.reason in LOST and not run.session_resumed:
        log.warning(
            "job %s: the session was not resumed (%s); a fresh one was told the whole of it", job.id[:8], run.reason
        )
