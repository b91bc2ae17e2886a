"""One job's runs, one after the other: what is asked of the agent, what follows from each end, what files are saved."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from clew.core.decision import Reason
from clew.core.events import MessageSaid
from clew.core.history import Role, Turn
from clew.core.job import (
    CONTINUE,
    OVER,
    UNDER_WAY,
    IllegalJobMove,
    Job,
    JobStatus,
    Next,
    Wish,
    after_run,
    is_too_old,
)
from clew.core.outcome import Outcome
from clew.core.record import replace
from clew.core.run import LIVE, Run
from clew.core.thread import Thread
from clew.engine.checkpoints import Checkpoints
from clew.engine.closing import Finished
from clew.engine.engine import Engine
from clew.engine.failures import error_of_run
from clew.engine.settings import Ask, Slots
from clew.engine.turn import LiveTurn
from clew.errors import AgentFailed, Busy, ClewError, Conflict, StoreError, UsageLimit
from clew.store.store import Store

log = logging.getLogger("clew.hosts.jobs")

T = TypeVar("T")
SLOTS = "slots/jobs"
LOOK_S = 1.0  # how soon a job that waits sees that it is cancelled, or that its turn has come
CHECKPOINT_S = 120.0


class JobRuns:
    def __init__(
        self, engine: Engine, *, most_at_once: int | None = None, dice: Callable[[], float] = random.random
    ) -> None:
        """`most_at_once`: over all machines; each worker has a limit of its own."""
        self._engine = engine
        self._slots = Slots(SLOTS, most_at_once) if most_at_once is not None else None
        self._dice = dice

    async def carry_out(self, job_id: str, worker: str, slots: asyncio.Semaphore) -> None:
        """To the job's end, or until somebody must act. Cancelled: what was under way is handed back.

        Those of its key that stand before it come first, whoever was to carry them out: a queue that hands a key's turn
        to a later one (the earlier one's worker died) must not lead to two that wait for each other.
        """
        while True:
            first = await self._call(lambda store: store.job_before(job_id))
            await self._carry_to_end(first.id if first is not None else job_id, worker, slots)
            if first is None:
                return

    async def _carry_to_end(self, job_id: str, worker: str, slots: asyncio.Semaphore) -> None:
        while True:
            job = await self._ready(job_id)
            if job is None:
                return
            async with slots:
                try:
                    if not await self._run_once(job, worker):
                        return
                except Busy:
                    await asyncio.sleep(LOOK_S)  # another worker has it after all
                except asyncio.CancelledError:
                    await self._hand_back(job_id, worker)
                    raise
                except StoreError:
                    raise  # whoever called waits until it is well again
                except IllegalJobMove:
                    await asyncio.sleep(LOOK_S)  # it was cancelled, or retried, in this very moment
                except Exception as error:  # noqa: BLE001 - a job must end, and say why
                    await self._stop(job_id, AgentFailed(f"A fault in Clew itself: {error!r}"))
                    return

    async def _ready(self, job_id: str) -> Job | None:
        """The job when it may run; None: it is over."""
        while True:
            job, wait_s = await self._engine.database.atomically(lambda store: self._look(store, job_id))
            if job is None or wait_s <= 0:
                return job
            await asyncio.sleep(min(wait_s, LOOK_S))

    def _look(self, store: Store, job_id: str) -> tuple[Job | None, float]:
        job = store.job(job_id)
        if job is None or job.status in OVER:
            return None, 0.0
        now = self._engine.around.clock()
        if self._engine.is_held(store, job.thread_id):
            return job, LOOK_S  # by a run of a worker that is alive
        if job.cancel_requested:
            self._end(store, job, JobStatus.CANCELLED, "The job was cancelled.")
            return None, 0.0
        if job.limits.deadline_at is not None and now >= job.limits.deadline_at:
            self._end(store, job, JobStatus.FAILED, "The job's deadline has passed.")
            return None, 0.0
        return job, max(job.not_before or 0.0, job.wake_at or 0.0) - now

    async def _run_once(self, job: Job, worker: str) -> bool:
        """One run. True: another is to follow."""
        await self._engine.recover()  # the last worker may have died with it
        ended = await self._call(lambda store: _unconcluded(store, job.id))
        if ended is not None:
            return await self._conclude(job, ended)
        try:
            await self._check_files(job)
            turn = await self._begin(job, worker)
        except (StoreError, Busy):
            raise
        except ClewError as error:
            await self._stop(job.id, error)
            return False
        if turn is None:
            return True  # cancelled in the meantime: a look at the row tells
        return await self._conclude(job, await self._follow(job, turn))

    async def _stop(self, job_id: str, error: ClewError) -> None:
        status = JobStatus.CONFLICT if isinstance(error, FilesChanged) else JobStatus.FAILED

        def end(store: Store) -> None:
            job = store.require_job(job_id)
            if job.status in UNDER_WAY:
                store.update_job(job_id, outcome=None)
                self._end(store, job, status, error.message, error.hint)

        await self._engine.database.atomically(end)

    async def _begin(self, job: Job, worker: str) -> LiveTurn | None:
        """None: the job was cancelled, or is another worker's by now."""
        now = self._engine.around.clock()
        thread, turns, last_at = await self._call(lambda store: _state(store, job))
        saved_at = max(job.session_saved_at or 0.0, last_at or 0.0) or None
        ask = self._ask(replace(job, session_saved_at=saved_at), thread, turns, now)
        job_now = await self._call(lambda store: store.require_job(job.id))
        if job_now.status not in UNDER_WAY or job_now.cancel_requested:
            return None
        turn = await self._engine.start(ask)
        try:
            await self._call(
                lambda store: store.update_job(
                    job.id,
                    status=JobStatus.RUNNING,
                    worker=worker,
                    wish=None,
                    keep_files=False,
                    wake_at=None,
                    run_id=turn.run.id,
                    runs=job.runs + 1,
                    started_at=job.started_at or now,
                )
            )
        except IllegalJobMove:
            await turn.abandon()
            return None
        except BaseException:
            await turn.abandon()
            raise
        return turn

    def _ask(self, job: Job, thread: Thread, turns: Sequence[Turn], now: float) -> Ask:
        """Go on, where that may be of use; else the original prompt."""
        limits = job.limits
        left_s = None if limits.deadline_at is None else max(1.0, limits.deadline_at - now)
        times = [seconds for seconds in (limits.timeout_s, left_s) if seconds is not None]
        common: dict[str, Any] = {
            "thread": thread,
            "agent": job.agent,
            "model": job.model,
            "timeout_s": min(times) if times else None,
            "wait": False,
            "slots": self._slots,
        }
        first = next((turn for turn in turns if turn.role is Role.USER), None)
        if first is None:
            return Ask(text=job.prompt, **common)
        why = _why_afresh(job, now)
        if why is not None:
            return Ask(text=first.text, retry_of=first.id, force_fresh=True, fresh_because=why, **common)
        # Whoever had it when it was cut off may only be asleep: it is left a session that nobody reads any more.
        return Ask(text=CONTINUE, fork=job.outcome == Outcome.KILLED, **common)

    async def _follow(self, job: Job, turn: LiveTurn) -> Finished:
        """The run to its end; its markers and, now and then, its files are saved meanwhile."""
        saving = asyncio.create_task(self._save_now_and_then(job)) if job.checkpoint else None
        try:
            async for noted in turn.events(stored=True):
                event, at = noted.event, noted.at
                if isinstance(event, MessageSaid) and event.message_id:
                    marker = event.message_id
                    await self._call(lambda store, marker=marker, at=at: store.add_marker(job.id, marker, at))  # type: ignore[misc]
            return await turn.finish()
        except asyncio.CancelledError:
            await turn.abandon()
            await asyncio.shield(self._conclude(job, await turn.finish()))  # handed back, with its files saved
            raise
        except BaseException:
            await turn.abandon()
            raise
        finally:
            if saving is not None:
                saving.cancel()
                await asyncio.gather(saving, return_exceptions=True)

    async def _conclude(self, job: Job, finished: Finished) -> bool:
        """What follows from the end of a run, once: written only while the run is the job's newest."""
        if job.checkpoint:
            await self._save_if_possible(job, "end" if finished.error is None else "cut_off")
        now = self._engine.around.clock()
        resets_at = finished.error.resets_at if isinstance(finished.error, UsageLimit) else None

        def write(store: Store) -> bool:
            job_now, run = store.require_job(job.id), store.require_run(finished.run.id)
            if job_now.run_id != run.id or job_now.saved_run_id == run.id or job_now.status not in UNDER_WAY:
                return True  # it is another worker's by now, or over
            if run.status in LIVE:
                return True  # so is the run: what this process has to say of it does not count
            outcome = Outcome.SUCCESS if finished.error is None else Outcome(run.outcome or Outcome.FAILED)
            what = after_run(job_now, outcome, resets_at=resets_at, now=now, dice=self._dice())
            if job_now.status is not JobStatus.RUNNING:
                store.update_job(job.id, status=JobStatus.RUNNING)
            store.update_job(job.id, **_changes(job_now, run, outcome, finished, what, now))
            return what.status in UNDER_WAY

        return await self._engine.database.atomically(write)

    async def _hand_back(self, job_id: str, worker: str) -> None:
        """This worker ends; another goes on."""

        def give_back(store: Store) -> None:
            job = store.require_job(job_id)
            if job.status is JobStatus.RUNNING and job.worker == worker:
                store.update_job(job_id, status=JobStatus.QUEUED, worker=None)

        await self._engine.database.atomically(give_back)

    async def _check_files(self, job: Job) -> None:
        """Saves the files after a run whose end nobody saw; raises Conflict when somebody else changed them since."""
        if not job.checkpoint:
            return
        kept = self._checkpoints(job.cwd, job.id)
        if job.run_id is None:
            await kept.save("start")
            return
        difference = await kept.difference()
        conflicts = difference.unmerged
        if job.saved_run_id == job.run_id and not job.keep_files:
            conflicts = tuple(dict.fromkeys((*difference.unmerged, *difference.changed)))
        if conflicts and not job.keep_files:
            await self._call(lambda store: store.update_job(job.id, conflicts=conflicts))
            raise FilesChanged(conflicts)
        await kept.save("cut_off" if job.saved_run_id != job.run_id else "kept")

    async def _save_now_and_then(self, job: Job) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            await self._save_if_possible(job, "interval")

    async def _save_if_possible(self, job: Job, why: str) -> None:
        """A checkpoint that cannot be made (a full disk) is no reason to end the job."""
        try:
            await self._checkpoints(job.cwd, job.id).save(why)
        except ClewError as error:
            log.warning("no checkpoint of job %s: %s", job.id[:8], error.message)

    def _checkpoints(self, cwd: str, job_id: str) -> Checkpoints:
        return Checkpoints(cwd, job_id, self._engine.around.environ)

    def _end(self, store: Store, job: Job, status: JobStatus, error: str, hint: str | None = None) -> Job:
        return store.update_job(job.id, status=status, error=error, hint=hint, ended_at=self._engine.around.clock())

    async def _call(self, work: Callable[[Store], T]) -> T:
        return await self._engine.database.call(work)


class FilesChanged(Conflict):
    """The files are not as the job left them."""

    def __init__(self, paths: Sequence[str]) -> None:
        shown = ", ".join(paths[:5]) + (f" and {len(paths) - 5} more" if len(paths) > 5 else "")
        super().__init__(
            f"Files are not as the job left them: {shown}.",
            hint="Put them back with clew jobs retry --restore (what is there is saved first), or go on: --keep.",
        )


def heard_at(store: Store, job: Job) -> float | None:
    """When its newest run was last heard of."""
    events = store.events(job.run_id, max(0, store.last_seq(job.run_id) - 1)) if job.run_id else []
    return events[-1].at if events else None


def _state(store: Store, job: Job) -> tuple[Thread, tuple[Turn, ...], float | None]:
    """The job's thread, its turns, and when its newest run was last heard of."""
    return store.require_thread(job.thread_id), store.history(job.thread_id), heard_at(store, job)


def _why_afresh(job: Job, now: float) -> Reason | None:
    """Why the session is not to be tried at all; None: the engine decides."""
    if job.wish is Wish.FRESH:
        return Reason(job.outcome) if job.outcome in (Reason.OVERFLOW, Reason.POISONED) else Reason.FORCED_FRESH
    if job.wish is Wish.RESUME:
        return None
    if is_too_old(job, now):
        return Reason.EXPIRED
    if job.resume_count >= job.limits.max_resumes:
        return Reason.WORN_OUT
    return None


def _unconcluded(store: Store, job_id: str) -> Finished | None:
    """The job's newest run, when it is over and nothing followed from it yet: its worker died in between."""
    job = store.require_job(job_id)
    run = store.run(job.run_id) if job.run_id is not None and job.saved_run_id != job.run_id else None
    if run is None or run.status in LIVE:
        return None
    turn = store.turn(run.answer_turn_id) if run.answer_turn_id is not None else None
    return Finished(run, turn.text if turn is not None else "", error_of_run(run))


def _changes(job: Job, run: Run, outcome: Outcome, finished: Finished, what: Next, now: float) -> dict[str, Any]:
    return {
        "status": what.status,
        "wish": Wish.FRESH if what.afresh else None,
        "wake_at": what.wake_at,
        "troubles": job.troubles + 1 if what.counts_as_trouble else 0,
        "session_id": run.session_id,
        "session_saved_at": now + what.excused_s,
        "resume_count": job.resume_count + 1 if run.session_resumed else 0,
        "reason": job.reason if run.session_resumed else run.reason,
        "saved_run_id": run.id,
        "worker": None if what.status is JobStatus.QUEUED else job.worker,
        "outcome": outcome,
        "result": finished.text if outcome is Outcome.SUCCESS else None,
        "error": finished.error.message if finished.error else None,
        "hint": finished.error.hint if finished.error else None,
        "ended_at": now if what.status in OVER else None,
    }
