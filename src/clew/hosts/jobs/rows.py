"""What a job's runs read and write of it, each inside one transaction or one moment's view."""

from __future__ import annotations

from typing import Any, TypedDict

from clew.core.events import MessageSaid
from clew.core.history import Turn
from clew.core.ids import RunId
from clew.core.job import OVER, UNDER_WAY, Job, JobStatus, Next, Wish
from clew.core.outcome import Outcome
from clew.core.record import Record
from clew.core.run import LIVE, Run
from clew.core.thread import Thread
from clew.core.work_done import Call, calls, work_done
from clew.engine.closing import Finished
from clew.engine.failures import error_of_run
from clew.engine.journal import Noted
from clew.store.store import Store

RUNS_LOOKED_AT = 1000  # more than a job has between two retries
CALLS_TOLD = 200  # more than there is ever room for


class Before(TypedDict, total=False):
    """See `after_run`."""

    earlier: tuple[str | None, ...]
    resumed: bool


class NotItsTurn(Exception):
    """Another job of the key goes first by now."""


class NotOurs(Exception):
    """The job is over, or another worker has it."""


class State(Record):
    """What a job's next run goes on from."""

    thread: Thread
    turns: tuple[Turn, ...]
    last: Run | None  # the job's newest
    asked: bool  # its prompt may have reached the agent
    heard_at: float | None  # when it was last heard of
    went_on: bool  # another job has asked something in the thread since this one did: its prompt is asked anew
    done: str | None = None  # how far its runs came, and what they did with their tools, in short


def state(store: Store, job: Job) -> State:
    last = store.run(job.run_id) if job.run_id is not None else None
    asked = last is not None and _was_asked(store, last)
    thread, turns = store.require_thread_by_id(job.thread_id), store.history(job.thread_id)
    went_on = _went_on(store, job, turns)
    return State(thread, turns, last, asked, heard_at(store, job), went_on, _done(store, job, turns))


def _was_asked(store: Store, run: Run) -> bool:
    """Its prompt may have reached an agent here: a process's id is stored before the prompt is sent to it."""
    return any(attempt.pid is not None for attempt in store.attempts(run.id))


def _done(store: Store, job: Job, turns: tuple[Turn, ...]) -> str | None:
    """Of the runs that its prompt and what followed it led to; the newest are read first, until there is enough.

    What came with an import is not told: its tools ran elsewhere, and no turn shows what they returned.
    """
    if job.prompt_turn_id is None:
        return None
    place = next((n for n, turn in enumerate(turns) if turn.id == job.prompt_turn_id), len(turns))
    asked = {turn.id for turn in turns[place:]}
    runs = [run for run in store.runs(thread_id=job.thread_id, limit=RUNS_LOOKED_AT) if run.prompt_turn_id in asked]
    runs = [run for run in runs if _was_asked(store, run)]
    made: tuple[Call, ...] = ()
    for run in runs:
        made = (*calls(step.event for step in store.steps(run.id)), *made)
        if len(made) > CALLS_TOLD:
            break
    marked = [each for each in store.markers(job.id, limit=1) if each.run_id in {run.id for run in runs}]
    return work_done(made, marked[0] if marked else None)


def _went_on(store: Store, job: Job, turns: tuple[Turn, ...]) -> bool:
    if job.prompt_turn_id is None:
        return False
    others = store.prompt_turns_of_key(job)
    place = next((n for n, turn in enumerate(turns) if turn.id == job.prompt_turn_id), len(turns))
    return any(turn.id in others for turn in turns[place:])


def heard_at(store: Store, job: Job) -> float | None:
    """When the agent of its newest run was last heard of. That a run ended may be found out much later."""
    if job.run_id is None:
        return None
    return store.heard_at(job.run_id)


def before(store: Store, job: Job, run: Run) -> Before:
    """What came before the end of a run: what follows from a success does not depend on it."""
    since = job.started_at or 0.0
    runs = store.runs(thread_id=job.thread_id, limit=RUNS_LOOKED_AT)
    return {
        "earlier": tuple(each.outcome for each in runs if each.id != run.id and each.created_at >= since),
        "resumed": any(attempt.resumed for attempt in store.attempts(run.id)),
    }


def begin(store: Store, job: Job, run: Run, worker: str, now: float) -> None:
    """The key is this job's from here to its end, and the run its newest. Raises NotItsTurn, and NotOurs when the job
    was cancelled, or is another worker's by now."""
    stored = store.require_job(job.id)
    if stored.status not in UNDER_WAY or stored.cancel_requested or stored.run_id != job.run_id:
        raise NotOurs
    if store.job_before(job.id) is not None:
        raise NotItsTurn
    store.update_job(
        job.id,
        status=JobStatus.RUNNING,
        worker=worker,
        wish=None,
        keep_files=False,
        wake_at=None,
        run_id=run.id,
        runs=job.runs + 1,
        prompt_turn_id=stored.prompt_turn_id or run.prompt_turn_id,
        started_at=stored.started_at or now,
    )


def is_open(store: Store, job_id: str, run_id: RunId) -> bool:
    """The run is the job's newest, and nothing followed from it yet."""
    return is_open_now(store.require_job(job_id), run_id)


def is_open_now(job: Job, run_id: RunId) -> bool:
    return job.run_id == run_id and job.saved_run_id != run_id and job.status in UNDER_WAY


def add_marker(job_id: str, run_id: RunId, said: Noted, store: Store) -> None:
    """How far the agent has come, unless it is one that nobody waits for any more."""
    if isinstance(said.event, MessageSaid) and is_open(store, job_id, run_id):
        store.add_marker(job_id, run_id, said.seq, said.event.message_id, said.at)


def unconcluded(store: Store, job: Job) -> Finished | None:
    """The job's newest run, when it is over and nothing followed from it yet: its worker died in between."""
    run = store.run(job.run_id) if job.run_id is not None and job.saved_run_id != job.run_id else None
    if run is None or run.status in LIVE:
        return None
    turn = store.turn(run.answer_turn_id) if run.answer_turn_id is not None else None
    return Finished(run, turn.text if turn is not None else "", error_of_run(run))


def _troubles(job: Job, what: Next) -> int:
    """In a row; a usage limit neither counts nor ends the row."""
    if not what.counts:
        return job.troubles
    return job.troubles + 1 if what.counts_as_trouble else 0


def changes(
    store: Store, job: Job, run: Run, finished: Finished, outcome: Outcome, what: Next, now: float
) -> dict[str, Any]:
    """Of the job's row, after a run."""
    changed = {
        "status": what.status,
        "wish": Wish.FRESH if what.afresh else job.wish,  # of a run that never came to pass: still to be met
        "wake_at": what.wake_at,
        "troubles": _troubles(job, what),
        "runs": job.runs if what.counts else job.runs - 1,
        "saved_run_id": run.id,
        "worker": None if what.status is JobStatus.QUEUED else job.worker,
        "outcome": outcome,
        "result": finished.text if outcome is Outcome.SUCCESS else None,
        "error": " ".join(filter(None, (finished.error.message if finished.error else None, what.error))) or None,
        "hint": finished.error.hint if finished.error else None,
        "ended_at": now if what.status in OVER else None,
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
