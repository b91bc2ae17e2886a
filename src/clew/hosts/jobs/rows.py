"""What a job's runs read and write in the store. Each function is called inside one transaction or one read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.core.history import Turn
from clew.core.ids import RunId, TurnId
from clew.core.jobs.job import ACTIVE, STOPPED, Job, JobStatus, NextStep, StartMode
from clew.core.outcome import Outcome
from clew.core.record import Record
from clew.core.runs.events import MessageSaid
from clew.core.runs.run import LIVE, Run
from clew.core.thread import Thread
from clew.core.work_done import Call, calls, work_done
from clew.engine.finish.failures import error_of_run
from clew.engine.finish.results import FinishedRun
from clew.engine.journal import JournalEntry
from clew.store.store import Store

RUNS_READ = 1000  # more than a job has between two retries
MAX_CALLS = 200  # tool calls; more than the summary of the work has room for


class NotNext(Exception):
    """Another job of the same key must run first."""


class NotOurs(Exception):
    """The job has stopped, or another worker has it."""


class JobContext(Record):
    """What the request of a job's next run depends on."""

    thread: Thread
    turns: tuple[Turn, ...]
    last: Run | None  # the job's newest run
    was_prompt_sent: bool  # the agent may have received the prompt of `last`
    last_event_at: float | None  # when the agent sent the last event of `last`
    is_overtaken: bool  # another job has sent a prompt in the thread since this one did, so this prompt is sent again
    done: str | None = None  # a summary of the progress and the tool calls of the job's runs


def read_context(store: Store, job: Job) -> JobContext:
    last = store.runs.find(job.run_id) if job.run_id is not None else None
    turns = store.turns.history(job.thread_id)
    position = next((n for n, turn in enumerate(turns) if turn.id == job.prompt_turn_id), len(turns))
    since = {turn.id for turn in turns[position:]}
    return JobContext(
        thread=store.threads.require_by_id(job.thread_id),
        turns=turns,
        last=last,
        was_prompt_sent=last is not None and _was_prompt_sent(store, last),
        last_event_at=last_event_at(store, job),
        is_overtaken=bool(since & store.jobs.prompt_turns_of_key(job)),
        done=_done(store, job, since),
    )


def _was_prompt_sent(store: Store, run: Run) -> bool:
    """Whether an agent may have received it. The process id is stored before the prompt is sent to the process."""
    return any(attempt.pid is not None for attempt in store.runs.attempts(run.id))


def _done(store: Store, job: Job, prompts: set[TurnId]) -> str | None:
    """What the runs of these prompts did. The newest runs are read first, until there are enough tool calls.

    Imported runs are left out: their tools ran on another machine, and no turn has their results.
    """
    if not prompts:
        return None
    runs = [
        run
        for run in store.runs.newest(thread_id=job.thread_id, limit=RUNS_READ)
        if run.prompt_turn_id in prompts and _was_prompt_sent(store, run)
    ]
    made: tuple[Call, ...] = ()
    for run in runs:
        made = (*calls(step.event for step in store.events.steps(run.id)), *made)
        if len(made) > MAX_CALLS:
            break
    markers = [each for each in store.jobs.markers(job.id, limit=1) if each.run_id in {run.id for run in runs}]
    return work_done(made, markers[0] if markers else None)


def last_event_at(store: Store, job: Job) -> float | None:
    """When the agent of the newest run sent its last event. The end of the run may be recorded much later."""
    return None if job.run_id is None else store.events.last_activity_at(job.run_id)


def earlier_outcomes(store: Store, job: Job, run: Run) -> tuple[str | None, ...]:
    """The outcomes of the runs before this one since a person last queued the job, the newest first."""
    since = job.started_at or 0.0
    runs = store.runs.newest(thread_id=job.thread_id, limit=RUNS_READ)
    return tuple(each.outcome for each in runs if each.id != run.id and each.created_at >= since)


def begin(store: Store, job: Job, run: Run, worker: str, now: float) -> None:
    """Makes the run the job's newest. From now until the job ends, no other job of its key runs.

    Raises NotNext, and NotOurs when the job was cancelled, another worker has it, or it has to wait since it was read.
    """
    stored = store.jobs.require(job.id)
    is_same = stored.run_id == job.run_id and stored.wake_at == job.wake_at
    if stored.status not in ACTIVE or stored.cancel_requested or not is_same:
        raise NotOurs
    if store.jobs.predecessor(job.id) is not None:
        raise NotNext
    store.jobs.update(
        job.id,
        status=JobStatus.RUNNING,
        worker=worker,
        start_mode=None,
        keep_files=False,
        wake_at=None,
        run_id=run.id,
        runs=job.runs + 1,
        prompt_turn_id=stored.prompt_turn_id or run.prompt_turn_id,
        started_at=stored.started_at or now,
    )


def end(
    store: Store, job: Job, status: JobStatus, error: str, now: float, *, hint: str | None = None, **changes: Any
) -> Job:
    return store.jobs.update(job.id, status=status, error=error, hint=hint, ended_at=now, **changes)


def is_open(store: Store, job_id: str, run_id: RunId) -> bool:
    """Whether the run is the newest of an active job and has not been concluded."""
    job = store.jobs.require(job_id)
    return job.run_id == run_id and job.saved_run_id != run_id and job.status in ACTIVE


def add_markers(store: Store, job_id: str, run_id: RunId, entries: Sequence[JournalEntry]) -> None:
    """Stores the agent's messages as progress, unless the run was taken over or concluded."""
    if is_open(store, job_id, run_id):
        for entry in entries:
            if isinstance(entry.event, MessageSaid):
                store.jobs.add_marker(job_id, run_id, entry.seq, entry.event.message_id, entry.at)


def unconcluded(store: Store, job: Job) -> FinishedRun | None:
    """The job's newest run, if it has ended and its worker died before it concluded the run."""
    run = store.runs.find(job.run_id) if job.run_id is not None and job.saved_run_id != job.run_id else None
    if run is None or run.status in LIVE:
        return None
    turn = store.turns.find(run.answer_turn_id) if run.answer_turn_id is not None else None
    return FinishedRun(run, turn.text if turn is not None else "", error_of_run(run))


def _troubles(job: Job, step: NextStep) -> int:
    """The number of consecutive errors. A usage limit neither counts as an error nor resets the number."""
    if not step.counts:
        return job.troubles
    return job.troubles + 1 if step.counts_as_trouble else 0


def changes(
    store: Store, job: Job, run: Run, finished: FinishedRun, outcome: Outcome, step: NextStep, now: float
) -> dict[str, Any]:
    """The new values of the job's row after a run."""
    changed = {
        "status": step.status,
        # A start mode that is still set was requested for a run that never started. The next run must use it.
        "start_mode": StartMode.FRESH if step.fresh_session else job.start_mode,
        "wake_at": step.wake_at,
        "troubles": _troubles(job, step),
        "runs": job.runs if step.counts else job.runs - 1,
        "saved_run_id": run.id,
        "worker": None if step.status is JobStatus.QUEUED else job.worker,
        "outcome": outcome,
        "result": finished.text if outcome is Outcome.SUCCESS else None,
        "error": " ".join(filter(None, (finished.error.message if finished.error else None, step.error))) or None,
        "hint": finished.error.hint if finished.error else None,
        "ended_at": now if step.status in STOPPED else None,
    }
    if run.session_id is not None:  # else the run ended before it had a session, and the job keeps its last one
        changed |= {
            "session_id": run.session_id,
            "session_saved_at": (last_event_at(store, job) or now) + step.excused_s,
            "resume_count": job.resume_count + run.session_resumed,
            "session_resumes": job.session_resumes + step.counts if run.session_resumed else 0,
            "reason": job.reason if run.session_resumed else run.reason,
        }
    return changed
