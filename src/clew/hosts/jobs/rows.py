"""What a job's runs read and write of it, each inside one transaction or one moment's view."""

from __future__ import annotations

from typing import Any

from clew.core.history import Turn
from clew.core.ids import RunId
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

RUNS_LOOKED_AT = 1000  # more than a job has between two retries
CALLS_TOLD = 200  # more than there is ever room for


class NotItsTurn(Exception):
    """Another job of the key goes first by now."""


class NotOurs(Exception):
    """The job is over, or another worker has it."""


class JobContext(Record):
    """What a job's next run goes on from."""

    thread: Thread
    turns: tuple[Turn, ...]
    last: Run | None  # the job's newest
    asked: bool  # its prompt may have reached the agent
    heard_at: float | None  # when it was last heard of
    went_on: bool  # another job has asked something in the thread since this one did: its prompt is asked anew
    done: str | None = None  # how far its runs came, and what they did with their tools, in short


def read_context(store: Store, job: Job) -> JobContext:
    last = store.runs.find(job.run_id) if job.run_id is not None else None
    asked = last is not None and _was_asked(store, last)
    thread, turns = store.threads.require_by_id(job.thread_id), store.turns.history(job.thread_id)
    went_on = _went_on(store, job, turns)
    return JobContext(thread, turns, last, asked, heard_at(store, job), went_on, _done(store, job, turns))


def _was_asked(store: Store, run: Run) -> bool:
    """Its prompt may have reached an agent here: a process's id is stored before the prompt is sent to it."""
    return any(attempt.pid is not None for attempt in store.runs.attempts(run.id))


def _done(store: Store, job: Job, turns: tuple[Turn, ...]) -> str | None:
    """Of the runs that its prompt and what followed it led to; the newest are read first, until there is enough.

    What came with an import is not told: its tools ran elsewhere, and no turn shows what they returned.
    """
    if job.prompt_turn_id is None:
        return None
    position = next((n for n, turn in enumerate(turns) if turn.id == job.prompt_turn_id), len(turns))
    asked = {turn.id for turn in turns[position:]}
    runs = [
        run for run in store.runs.newest(thread_id=job.thread_id, limit=RUNS_LOOKED_AT) if run.prompt_turn_id in asked
    ]
    runs = [run for run in runs if _was_asked(store, run)]
    made: tuple[Call, ...] = ()
    for run in runs:
        made = (*calls(step.event for step in store.events.steps(run.id)), *made)
        if len(made) > CALLS_TOLD:
            break
    marked = [each for each in store.jobs.markers(job.id, limit=1) if each.run_id in {run.id for run in runs}]
    return work_done(made, marked[0] if marked else None)


def _went_on(store: Store, job: Job, turns: tuple[Turn, ...]) -> bool:
    if job.prompt_turn_id is None:
        return False
    others = store.jobs.prompt_turns_of_key(job)
    position = next((n for n, turn in enumerate(turns) if turn.id == job.prompt_turn_id), len(turns))
    return any(turn.id in others for turn in turns[position:])


def heard_at(store: Store, job: Job) -> float | None:
    """When the agent of its newest run was last heard of. That a run ended may be found out much later."""
    if job.run_id is None:
        return None
    return store.events.last_activity_at(job.run_id)


def earlier_outcomes(store: Store, job: Job, run: Run) -> tuple[str | None, ...]:
    """The outcomes of the runs before this one, since a person last queued the job; the newest first."""
    since = job.started_at or 0.0
    runs = store.runs.newest(thread_id=job.thread_id, limit=RUNS_LOOKED_AT)
    return tuple(each.outcome for each in runs if each.id != run.id and each.created_at >= since)


def was_resumed(store: Store, run: Run) -> bool:
    return any(attempt.resumed for attempt in store.runs.attempts(run.id))


def begin(store: Store, job: Job, run: Run, worker: str, now: float) -> None:
    """The key is this job's from here to its end, and the run its newest. Raises NotItsTurn, and NotOurs when the job
    was cancelled, or is another worker's by now."""
    stored = store.jobs.require(job.id)
    if stored.status not in ACTIVE or stored.cancel_requested or stored.run_id != job.run_id:
        raise NotOurs
    if store.jobs.predecessor(job.id) is not None:
        raise NotItsTurn
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


def end(store: Store, job: Job, status: JobStatus, error: str, now: float, hint: str | None = None) -> Job:
    return store.jobs.update(job.id, status=status, error=error, hint=hint, ended_at=now)


def is_open(store: Store, job_id: str, run_id: RunId) -> bool:
    """The run is the job's newest, and nothing followed from it yet."""
    return is_open_now(store.jobs.require(job_id), run_id)


def is_open_now(job: Job, run_id: RunId) -> bool:
    return job.run_id == run_id and job.saved_run_id != run_id and job.status in ACTIVE


def add_marker(job_id: str, run_id: RunId, said: JournalEntry, store: Store) -> None:
    """How far the agent has come, unless it is one that nobody waits for any more."""
    if isinstance(said.event, MessageSaid) and is_open(store, job_id, run_id):
        store.jobs.add_marker(job_id, run_id, said.seq, said.event.message_id, said.at)


def unconcluded(store: Store, job: Job) -> FinishedRun | None:
    """The job's newest run, when it is over and nothing followed from it yet: its worker died in between."""
    run = store.runs.find(job.run_id) if job.run_id is not None and job.saved_run_id != job.run_id else None
    if run is None or run.status in LIVE:
        return None
    turn = store.turns.find(run.answer_turn_id) if run.answer_turn_id is not None else None
    return FinishedRun(run, turn.text if turn is not None else "", error_of_run(run))


def _troubles(job: Job, what: NextStep) -> int:
    """In a row; a usage limit neither counts nor ends the row."""
    if not what.counts:
        return job.troubles
    return job.troubles + 1 if what.counts_as_trouble else 0


def changes(
    store: Store, job: Job, run: Run, finished: FinishedRun, outcome: Outcome, what: NextStep, now: float
) -> dict[str, Any]:
    """Of the job's row, after a run."""
    changed = {
        "status": what.status,
        # One that is still set was asked for a run that never started: the next run has to follow it.
        "start_mode": StartMode.FRESH if what.fresh_session else job.start_mode,
        "wake_at": what.wake_at,
        "troubles": _troubles(job, what),
        "runs": job.runs if what.counts else job.runs - 1,
        "saved_run_id": run.id,
        "worker": None if what.status is JobStatus.QUEUED else job.worker,
        "outcome": outcome,
        "result": finished.text if outcome is Outcome.SUCCESS else None,
        "error": " ".join(filter(None, (finished.error.message if finished.error else None, what.error))) or None,
        "hint": finished.error.hint if finished.error else None,
        "ended_at": now if what.status in STOPPED else None,
    }
    if run.session_id is not None:  # or it had not come so far: the session is as it was
        changed |= {
            "session_id": run.session_id,
            "session_saved_at": (heard_at(store, job) or now) + what.excused_s,
            "resume_count": job.resume_count + run.session_resumed,
            "session_resumes": job.session_resumes + what.counts if run.session_resumed else 0,
            "reason": job.reason if run.session_resumed else run.reason,
        }
    return changed
