"""Carries out the runs of a job, one after the other.

A worker may be suspended while another worker takes over its job, and may wake at any point of this code. So whatever a
worker writes about a job, it writes in a transaction that first checks that its run is still the job's newest.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from clew.core.decision import Reason
from clew.core.ids import SHORT_ID, RunId
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
from clew.hosts.jobs import rows as job_rows
from clew.hosts.jobs.files import FilesChanged, JobFiles
from clew.hosts.jobs.next_request import next_request
from clew.hosts.jobs.preparation import JobPreparation
from clew.hosts.jobs.rows import NotNext
from clew.store.store import Store

log = logging.getLogger("clew.hosts.jobs.jobs")

T = TypeVar("T")
SLOTS = "slots/jobs"
POLL_S = 1.0  # how soon a waiting job notices that it was cancelled, or that it may start
CHECKPOINT_S = 120.0


class _MustEnd(Exception):
    """The job was cancelled, or its deadline has passed. A transaction must record that."""


class JobRunner:
    def __init__(
        self,
        engine: Engine,
        *,
        max_running: int | None = None,
        preparations: Mapping[str, JobPreparation] = MappingProxyType({}),
        checkpoint_s: float = CHECKPOINT_S,
    ) -> None:
        """`max_running` is the limit over all machines; each worker has its own limit as well.

        `preparations`: by the kind of job.
        """
        self._preparations = preparations
        self._engine = engine
        self._slots = Slots(SLOTS, max_running) if max_running is not None else None
        self._checkpoint_s = checkpoint_s
        self._files = JobFiles(engine.context)

    async def carry_out(self, job_id: str, worker: str) -> None:
        """Runs the job until it stops, in a process that is not a worker. Earlier jobs of the same key are run first.

        If this is cancelled, the job is queued again.
        """
        slot = WorkerSlot(asyncio.Semaphore(0))  # held from the start; nothing else here competes for it
        while True:
            first = await self._call(lambda store: store.jobs.predecessor(job_id))
            ready_at = await self.run_claimed(first.id if first is not None else job_id, worker, slot)
            if ready_at is not None:
                await asyncio.sleep(min(ready_at - self._engine.context.clock(), POLL_S))
            elif first is None:
                return

    async def run_claimed(self, job_id: str, worker: str, slot: WorkerSlot) -> float | None:
        """Runs a job that this worker has claimed. `slot` is the job's share of what the worker may run at once.

        None: the job has stopped. Otherwise the job may not start before the returned time, and another worker can
        claim it then. A job that has started waits here instead, because its session is on this machine. If this is
        cancelled, the job is queued again.
        """
        while True:
            try:
                job, wait_s = await self._check(job_id)
                if job is None:
                    return None
                if wait_s > 0:
                    if job.run_id is None:
                        return self._engine.context.clock() + wait_s
                    slot.release()
                    await asyncio.sleep(min(wait_s, POLL_S))
                    continue
                await slot.acquire()
                if not await self._run_once(job, worker):
                    return None
            except NotNext:
                return self._engine.context.clock() + POLL_S
            except (Busy, IllegalJobMove):  # another worker has the job, or it was cancelled at this moment
                slot.release()
                await asyncio.sleep(POLL_S)
            except asyncio.CancelledError:
                await self._hand_back(job_id, worker)
                raise

    async def _check(self, job_id: str) -> tuple[Job | None, float]:
        """The job, and how long it must wait. None: it has stopped. Raises NotNext."""
        try:
            return await self._call(lambda store: self._read(store, job_id, may_end=False))
        except _MustEnd:
            return await self._engine.store.atomically(lambda store: self._read(store, job_id, may_end=True))

    def _read(self, store: Store, job_id: str, *, may_end: bool) -> tuple[Job | None, float]:
        job = store.jobs.find(job_id)
        if job is None or job.status in STOPPED:
            return None, 0.0
        now = leases.now(store, self._engine.context)  # the store's clock, because other machines set the job's times
        if self._engine.is_held(store, job.thread_id):
            return job, POLL_S  # a run is in progress in the job's thread
        deadline = job.limits.deadline_at
        is_late = deadline is not None and now >= deadline
        if (job.cancel_requested or is_late) and not may_end:
            raise _MustEnd
        ended_at = self._engine.context.clock()
        if job.cancel_requested:
            job_rows.end(store, job, JobStatus.CANCELLED, "The job was cancelled.", ended_at)
            return None, 0.0
        if is_late:
            job_rows.end(store, job, JobStatus.FAILED, TOO_LATE, ended_at, outcome=Outcome.TIMED_OUT)
            return None, 0.0
        if store.jobs.predecessor(job_id) is not None:
            raise NotNext
        ready_at = max(job.not_before or 0.0, job.wake_at or 0.0)
        return job, min(ready_at, deadline or ready_at) - now

    async def _run_once(self, job: Job, worker: str) -> bool:
        """Carries out one run. True: the job continues."""
        if job.run_id is not None:
            await self._engine.recover()  # the worker of the last run may have died
            job_now, wait_s = await self._check(job.id)
            if job_now is None or wait_s > 0:
                return True  # it was concluded meanwhile: the next check of its row finds out what follows
            job = job_now
        begun: RunId | None = None
        try:
            ended = await self._call(lambda store: job_rows.unconcluded(store, job)) if job.run_id is not None else None
            if ended is not None:
                return await self._conclude(job, ended)
            is_prepared = job.run_id is not None and await asyncio.to_thread(os.path.isdir, job.cwd)
            if job.kind in self._preparations and not is_prepared:
                await self._preparations[job.kind].prepare(job)
            await self._files.check(job)
            turn = await self._begin(job, worker)
            if turn is None:
                return True  # the job was cancelled or taken over: the next check of its row finds out which
            begun = turn.run.id
            unsaved: list[JournalEntry] = []
            return await self._conclude(job, await self._follow(job, turn, unsaved), unsaved)
        except (StoreError, Busy, IllegalJobMove, NotNext):
            raise  # the caller waits and tries again
        except ClewError as error:
            return await self._stop(job, begun, error)
        except Exception as error:  # noqa: BLE001 - the job must end with an error message
            return await self._stop(job, begun, AgentFailed(f"A fault in Clew itself: {error!r}"))

    async def _stop(self, job: Job, begun: RunId | None, error: ClewError) -> bool:
        """Ends the job because of the error. True: another worker has the job, so this worker must not end it."""

        def end(store: Store) -> bool:
            job_now = store.jobs.require(job.id)
            if job_now.run_id != (begun or job.run_id) or self._engine.is_held(store, job.thread_id):
                return True
            if begun is not None and store.runs.require(begun).status is RunStatus.INTERRUPTED:
                return True  # another worker took it over
            if job_now.status in ACTIVE:
                job_rows.end(
                    store,
                    job_now,
                    JobStatus.CONFLICT if isinstance(error, FilesChanged) else JobStatus.FAILED,
                    error.message,
                    self._engine.context.clock(),
                    hint=error.hint,
                    outcome=error.code if isinstance(error, AgentMissing) else None,
                    conflicts=error.paths if isinstance(error, FilesChanged) else (),
                )
            return False

        return await self._engine.store.atomically(end)

    async def _begin(self, job: Job, worker: str) -> LiveTurn | None:
        """None: the job was cancelled or taken over. Raises NotNext."""
        now = self._engine.context.clock()
        context = await self._call(lambda store: job_rows.read_context(store, job))
        request = next_request(job, context, self._slots, now)
        if job.kind in self._preparations:
            request = request.replace(rules_of=await self._preparations[job.kind].rules_of(job))
        try:
            # `begin` is part of the transaction that opens the run, so two workers never run the same job at once.
            return await self._engine.start(request, lambda store, run: job_rows.begin(store, job, run, worker, now))
        except job_rows.NotOurs:
            return None

    async def _follow(self, job: Job, turn: LiveTurn, unsaved: list[JournalEntry]) -> FinishedRun:
        """Waits for the end of the run. Meanwhile it saves the agent's messages as markers, and checkpoints of files.

        Messages that are stored together with the end of the run are added to `unsaved`, for `_conclude` to save.
        """
        saving = asyncio.create_task(self._save_files(job, turn.run)) if job.checkpoint else None
        try:
            async for entry in turn.events(stored=True):
                if isinstance(entry.event, MessageSaid) and turn.has_ended:
                    unsaved.append(entry)
                elif isinstance(entry.event, MessageSaid):
                    await self._engine.store.atomically(
                        lambda store, entry=entry: job_rows.add_markers(store, job.id, turn.run.id, [entry])  # type: ignore[misc]
                    )
            return await turn.finish()
        except asyncio.CancelledError:
            await turn.abandon()
            await asyncio.shield(self._conclude(job, await turn.finish(), unsaved))
            raise
        except BaseException:
            await turn.abandon()
            raise
        finally:
            if saving is not None:
                saving.cancel()
                await asyncio.gather(saving, return_exceptions=True)

    async def _conclude(self, job: Job, finished: FinishedRun, unsaved: Sequence[JournalEntry] = ()) -> bool:
        """Stores what follows from the end of a run, once, and only if the run is the job's newest.

        True: the job continues, or another worker has it.
        """
        if isinstance(finished.error, StoreError):
            return True  # recovery ends the run once the store works again
        if job.checkpoint and not await self._call(lambda store: job_rows.is_open(store, job.id, finished.run.id)):
            return True  # the job was taken over or has stopped, so the files are not this worker's to save
        await self._files.save(job, "end" if finished.error is None else "cut_off")
        resets_at = finished.error.resets_at if isinstance(finished.error, UsageLimit) else None
        _warn_about_lost_session(job, finished.run)

        def write(store: Store) -> bool:
            job_now, run = store.jobs.require(job.id), store.runs.require(finished.run.id)
            if not job_rows.is_open(store, job.id, run.id) or run.status in LIVE:
                return True  # another worker has the job, or has the run if it is still live according to the store
            job_rows.add_markers(store, job.id, run.id, unsaved)
            now = leases.now(store, self._engine.context)
            outcome = Outcome.SUCCESS if finished.error is None else Outcome(run.outcome or Outcome.FAILED)
            is_success = outcome is Outcome.SUCCESS  # then the next step does not depend on the earlier runs
            step = after_run(
                job_now,
                outcome,
                earlier=() if is_success else job_rows.earlier_outcomes(store, job_now, run),
                resumed=not is_success and any(attempt.resumed for attempt in store.runs.attempts(run.id)),
                resets_at=resets_at,
                now=now,
                jitter=random.random(),
            )
            if job_now.status is not JobStatus.RUNNING:
                store.jobs.update(job.id, status=JobStatus.RUNNING)
            store.jobs.update(job.id, **job_rows.changes(store, job_now, run, finished, outcome, step, now))
            return step.status in ACTIVE

        return await self._engine.store.atomically(write)

    async def _hand_back(self, job_id: str, worker: str) -> None:
        """Queues a running job again, because this worker stops."""

        def give_back(store: Store) -> None:
            job = store.jobs.require(job_id)
            if job.status is JobStatus.RUNNING and job.worker == worker:
                store.jobs.update(job_id, status=JobStatus.QUEUED, worker=None)

        await self._engine.store.atomically(give_back)

    async def _save_files(self, job: Job, run: Run) -> None:
        while True:
            await asyncio.sleep(self._checkpoint_s)
            if await self._call(lambda store: job_rows.is_open(store, job.id, run.id)):
                await self._files.save(job, "interval")

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.store.call(work)


LOST = frozenset({Reason.EXPIRED, Reason.SESSION_MISSING, Reason.REJECTED})


def _warn_about_lost_session(job: Job, run: Run) -> None:
    """Logs a warning if the session should have been resumed, but was gone or too old."""
    if run.reason in LOST and not run.session_resumed:
        log.warning(
            "job %s: the session was not resumed (%s); a fresh one got the whole transcript",
            job.id[:SHORT_ID],
            run.reason,
        )
