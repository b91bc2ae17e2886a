"""Jobs for surfaces: submit a job, show it with the figures of its runs, and follow the events of all its runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from clew.api.thread import choice
from clew.core.costs.usage import MONEY_DIGITS, NO_USAGE, Usage
from clew.core.ids import SHORT_ID
from clew.core.jobs.job import (
    ACTIVE,
    DEFAULT_PRIORITY,
    STOPPED,
    SUBMITTED,
    UNUSABLE_SESSION,
    Job,
    JobStatus,
    Limits,
    ProgressMarker,
)
from clew.core.outcome import Outcome
from clew.core.record import Record, replace
from clew.core.runs.run import Run
from clew.core.thread import Permissions, Trust
from clew.engine.durable.worker import SILENCE_S
from clew.engine.leases import is_process_dead
from clew.errors import (
    AgentFailed,
    AgentMissing,
    AuthFailed,
    BillingFailed,
    Cancelled,
    ClewError,
    Conflict,
    TimedOut,
    UsageError,
    UsageLimit,
    WrongModel,
)
from clew.hosts.jobs.jobs import MAX_AHEAD_S, JobSpec
from clew.hosts.validation import check_prompt, existing_dir
from clew.store.records import StoredEvent
from clew.system.timestamps import stamp

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.config import Settings
    from clew.store.rows.jobs import StoredWorker
    from clew.store.store import Store

RUNS_SHOWN = 10_000  # more than any job may have
POLL_S = 0.25  # how soon a change by another process is noticed
KEY_CHARS = 200
MARKERS_SHOWN = 1000  # the newest
MARKER_CHARS = 200  # how much of the agent's message is shown; the run's events have all of it
START_A_WORKER = "start `clew work`, or `clew serve --work`"  # plain `clew serve` runs only jobs of hooks
START_A_WORKER_FOR_HOOKS = "start `clew serve` or `clew work`"


class JobOptions(Record):
    """What a job is submitted with; None: the default."""

    prompt: str
    cwd: str
    agent: str | None = None
    model: str | None = None
    permissions: str | None = None
    trust: str | None = None
    key: str | None = None
    priority: int | None = None  # from 1, the most urgent, to 100; None: 50
    limits: Mapping[str, Any] = MappingProxyType({})  # fields of `Limits`; the others have their defaults
    checkpoint: bool = False
    delay_s: float | None = None
    id: str | None = None  # of the new job; None: a random one


class JobView(Record):
    """A job with the figures of its runs."""

    job: Job
    thread: str  # the name of its thread
    usage: Usage
    cost_usd: float
    runs: tuple[Run, ...]  # the oldest first
    stderr_tail: str = ""  # of the last run, when the job failed
    no_worker: str | None = None  # if the job waits and no worker is alive to run it: what to do
    markers: tuple[ProgressMarker, ...] | None = None  # its progress, the oldest first; None: not read

    def to_json(self) -> dict[str, Any]:
        """The object of the command line and the HTTP API."""
        job, limits = self.job, self.job.limits
        looked_up = {} if self.markers is None else {"markers": self._markers(self.markers)}
        return {
            "id": job.id,
            "status": job.status.value,
            "runs": job.runs,
            "resume_count": job.resume_count,
            "session_id": job.session_id,
            "session_saved_at": stamp(job.session_saved_at),
            "reason": job.reason,
            "outcome": job.outcome,
            "result": job.result,
            "error": _error_object(job),
            "stderr_tail": self.stderr_tail,
            "conflicts": list(job.conflicts),
            "prompt": job.prompt,
            "cwd": job.cwd,
            "agent": job.agent,
            "model": job.model,
            "permissions": job.permissions.value,
            "key": None if job.key == job.id else job.key,
            "priority": job.priority,
            "checkpoint": job.checkpoint,
            "limits": {**limits.as_dict(), "deadline_at": stamp(limits.deadline_at)},
            "tries": job.tries,
            "thread_id": job.thread_id,
            "thread": self.thread,
            "run_id": job.run_id,
            "worker": job.worker,
            "cancel_requested": job.cancel_requested,
            "usage": self.usage.as_dict(),
            "cost_usd": round(self.cost_usd, MONEY_DIGITS),
            "created_at": stamp(job.created_at),
            "not_before": stamp(job.not_before),
            "started_at": stamp(job.started_at),
            "wake_at": stamp(job.wake_at),
            "ended_at": stamp(job.ended_at),
            "no_worker": self.no_worker,
            **looked_up,
        }

    def _markers(self, markers: Sequence[ProgressMarker]) -> list[dict[str, Any]]:
        return [
            {
                "number": each.number,
                "run": self.run_number(each),
                "run_id": each.run_id,
                "message_id": each.message_id,
                "at": stamp(each.at),
                "text": each.text[:MARKER_CHARS],
            }
            for each in markers
        ]

    def run_number(self, marker: ProgressMarker) -> int | None:
        """The number of the marker's run within the job, from 1."""
        return next((n for n, run in enumerate(self.runs, 1) if run.id == marker.run_id), None)


class JobEvent(Record):
    """An event of one of a job's runs."""

    number: int  # of the run within the job, from 1
    run: Run  # as it was when its first event was read
    stored: StoredEvent


class JobChanged(Record):
    """The state of the job has changed since the last event."""

    job: Job


async def submit(client: Client, options: JobOptions) -> Job:
    """Submits a job, which is stored when this returns. Missing options come from the settings."""
    check_prompt(options.prompt)
    _check_texts(options)
    now, settings = client.engine.context.clock(), client.settings
    limits = _limits(settings, options.limits)
    deadline = limits.deadline_at
    if deadline is not None and deadline > now + MAX_AHEAD_S:
        raise UsageError("The deadline is more than ten years away.", hint="Leave it out: a job need not have one.")
    if options.delay_s is not None and options.delay_s > MAX_AHEAD_S:
        raise UsageError("The delay is longer than ten years.", hint="Submit it nearer the time.")
    begins_at = now + (options.delay_s or 0.0)
    if deadline is not None and begins_at >= deadline:
        raise UsageError("The job would begin only after its deadline.", hint="Shorten the delay, or give it longer.")
    agent = options.agent or settings.of("agent")
    return await client.jobs.submit(
        JobSpec(
            prompt=options.prompt,
            cwd=existing_dir(options.cwd),
            agent=agent,
            model=options.model or settings.model_of(agent),
            permissions=choice(Permissions, options.permissions or Permissions.EDITS),
            trust=choice(Trust, options.trust or settings.of("trust")),
            key=options.key,
            priority=DEFAULT_PRIORITY if options.priority is None else options.priority,
            limits=limits,
            checkpoint=options.checkpoint,
            not_before=None if options.delay_s is None else begins_at,
            id=options.id,
        )
    )


def _limits(settings: Settings, named: Mapping[str, Any]) -> Limits:
    """Limits that were not named have their defaults; `max_age_s` has the setting `max_age` if that was set."""
    age = settings["max_age"]
    return replace(Limits() if age.source == "default" else Limits(max_age_s=age.value), **named)


def _check_texts(options: JobOptions) -> None:
    """Raises UsageError for keys and models that are not safe to show in tables and logs, or on a command line."""
    if options.key is not None and not (options.key.strip() and options.key.isprintable()):
        raise UsageError(f"The key {options.key[:40]!r} is blank, or cannot be printed.", hint=_KEY_HINT)
    if options.key is not None and len(options.key) > KEY_CHARS:
        raise UsageError(f"The key has {len(options.key):,} characters; the limit is {KEY_CHARS}.", hint=_KEY_HINT)
    if options.model is not None and not options.model.isprintable():
        raise UsageError(f"The model {options.model[:40]!r} cannot be printed.")


_KEY_HINT = "Name what the jobs have in common, such as a repository: shop, or https://example.org/shop.git."


async def view_jobs(client: Client, jobs: Sequence[Job]) -> list[JobView]:
    """The jobs with the figures of their runs, without markers."""
    return await client.engine.store.call(lambda store: _views(client, store, jobs))


async def view_job(client: Client, job_id: str) -> JobView:
    """The job with its markers, by its id, an unambiguous beginning of it, or `latest`. Raises NotFound."""
    job = await client.jobs.find(job_id)

    def look(store: Store) -> JobView:
        [found] = _views(client, store, [job])
        return replace(found, markers=tuple(store.jobs.markers(job.id, MARKERS_SHOWN)))

    return await client.engine.store.call(look)


def _views(client: Client, store: Store, jobs: Sequence[Job]) -> list[JobView]:
    alive = _alive(client, store)
    return [replace(_view(store, job), no_worker=_no_worker(client, store, job, alive)) for job in jobs]


def _no_worker(client: Client, store: Store, job: Job, alive: Sequence[StoredWorker]) -> str | None:
    if job.status not in ACTIVE or any(takes(worker, job.kind) for worker in alive):
        return None
    if client.engine.is_held(store, job.thread_id):
        return None  # a process that is not a worker runs it: `clew jobs submit --wait`
    how = START_A_WORKER if job.kind == SUBMITTED else START_A_WORKER_FOR_HOOKS
    return f"No worker is alive to run the job: {how}."


def _view(store: Store, job: Job) -> JobView:
    runs = _runs(store, job)
    usage = sum((run.usage for run in runs), NO_USAGE)
    name = store.threads.require_by_id(job.thread_id).name
    tail = store.views.run(runs[-1]).stderr_tail if runs and job.status is JobStatus.FAILED else ""
    return JobView(job, name, usage, sum(run.cost_usd for run in runs), runs, tail)


def _runs(store: Store, job: Job) -> tuple[Run, ...]:
    """The runs of the job, the oldest first."""
    runs = tuple(reversed(store.runs.newest(thread_id=job.thread_id, limit=RUNS_SHOWN)))
    if job.kind == SUBMITTED:
        return runs  # the job has a thread of its own
    own = tuple(store.runs.of_job(job.id))
    if job.run_id is None or len(own) >= job.runs:
        return own
    # Some are older than the record of which job a run belongs to: the last ones up to the job's newest run are shown.
    end = next((number for number, run in enumerate(runs, start=1) if run.id == job.run_id), 0)
    return runs[max(0, end - job.runs) : end]


async def follow(
    client: Client, job_id: str, after: tuple[int, int] = (1, 0)
) -> AsyncGenerator[JobEvent | JobChanged, None]:
    """Every event of every run of the job, when it is stored, and the job whenever its state has changed.

    The last item is the job when it is no longer active. `after` says where to begin: the number of a run, and of the
    last event in it that is skipped.
    """
    number, seq = max(1, after[0]), after[1]
    seen: Job | None = None
    while True:
        job, runs = await client.engine.store.call(lambda store: _job_and_runs(store, job_id))
        left = len(runs) >= number
        if (seen is None or _state(job) != _state(seen)) and not (left and job.status in STOPPED):
            seen = job
            yield JobChanged(job)
        if left:
            run = runs[number - 1]
            async with aclosing(client.views.follow(run.id, seq)) as events:
                with suppress(StopAsyncIteration):
                    while True:
                        # An event may be large, so no variable keeps it.
                        yield JobEvent(number, run, await anext(events))
            number, seq = number + 1, 0
        elif job.status in STOPPED:
            return
        else:
            await asyncio.sleep(POLL_S)


def _job_and_runs(store: Store, job_id: str) -> tuple[Job, tuple[Run, ...]]:
    with store.reading():
        job = store.jobs.require(job_id)
        return job, _runs(store, job)


def _state(job: Job) -> tuple[object, ...]:
    return job.status, job.wake_at, job.cancel_requested, job.tries


async def workers(client: Client, kind: str | None = None) -> list[StoredWorker]:
    """The workers that are alive, as far as this process can tell; with a `kind`, those that run jobs of that kind."""
    found = await client.engine.store.call(lambda store: _alive(client, store))
    return [each for each in found if kind is None or takes(each, kind)]


def takes(worker: StoredWorker, kind: str) -> bool:
    """Whether the worker runs jobs of that kind. A daemon without `--work` runs only jobs of hooks."""
    return kind != SUBMITTED or not worker.hooks_only


async def predecessor(client: Client, job_id: str) -> Job | None:
    """The job of the same key that must end before this job starts, if there is one."""
    return await client.engine.store.call(lambda store: store.jobs.predecessor(job_id))


async def own_worker(client: Client) -> str | None:
    """The id of the worker that runs in this process, if there is one."""
    found = await client.engine.store.call(lambda store: store.workers.all())
    return next((each.id for each in found if each.owner == client.engine.context.owner), None)


async def jobs_of_worker(client: Client, worker: str, since: float, seen: Mapping[str, Job]) -> list[Job]:
    """The jobs that a worker has, those that it had at some time since `since`, and those of `seen` that it has just
    returned to the queue; the oldest first."""

    def read(store: Store) -> list[Job]:
        found = {job.id: job for job in store.jobs.of_worker(worker, since)}
        left = [store.jobs.find(each) for each, job in seen.items() if each not in found and job.status not in STOPPED]
        found |= {job.id: job for job in left if job is not None and job.worker in (None, worker)}
        return sorted(found.values(), key=lambda job: job.created_at)

    return await client.engine.store.call(read)


def _alive(client: Client, store: Store) -> list[StoredWorker]:
    context = client.engine.context
    return [
        each
        for each in store.workers.all()
        if not is_process_dead(store, each.owner, each.heartbeat_at + SILENCE_S, context)
    ]


LOG_IN = "Log in with the agent's own CLI, or set its key"

_BY_STATUS: dict[JobStatus, type[ClewError]] = {
    JobStatus.CONFLICT: Conflict,
    JobStatus.CANCELLED: Cancelled,
}
_BY_OUTCOME: dict[str, type[ClewError]] = {
    Outcome.AUTH: AuthFailed,
    Outcome.BILLING: BillingFailed,
    Outcome.WRONG_MODEL: WrongModel,
    Outcome.USAGE_LIMIT: UsageLimit,
    Outcome.TIMED_OUT: TimedOut,
    AgentMissing.code: AgentMissing,
}


def error_of(job: Job) -> ClewError | None:
    """Why the job, or its last run, failed; None: nothing is wrong."""
    if job.status is JobStatus.SUCCEEDED or (job.error is None and job.status not in STOPPED):
        return None
    otherwise = AuthFailed if job.status is JobStatus.BLOCKED else AgentFailed
    kind = _BY_STATUS.get(job.status) or _BY_OUTCOME.get(job.outcome or "", otherwise)
    return kind(job.error or f"The job is {job.status}.", hint=_hint(job))


def _hint(job: Job) -> str | None:
    """What to do about the job. The hint of a run does not fit: it is for a user who asks in a chat."""
    if job.status in ACTIVE:
        return "It continues by itself."
    retry = f"clew jobs retry {job.id[:SHORT_ID]}"
    if job.status is JobStatus.CONFLICT:
        return f"{retry} --restore restores them (what is there is saved first); {retry} --keep continues with them."
    if job.status is JobStatus.BLOCKED:
        act = "Add credit, or change the plan" if job.outcome == Outcome.BILLING else LOG_IN
        return f"{act}; then {retry} continues where it stopped."
    if job.outcome == Outcome.WRONG_MODEL:
        return "Submit it again with another --model."
    if job.status is JobStatus.FAILED and job.outcome in UNUSABLE_SESSION:
        why = "it does not fit into a new session" if job.outcome == Outcome.OVERFLOW else "new sessions fail too"
        return f"Submit a smaller task, or with another model: {why}. {retry} --fresh starts again with the prompt."
    if job.status is JobStatus.FAILED and job.hint and (job.outcome is None or job.outcome == AgentMissing.code):
        return f"{job.hint} Then {retry} continues where it stopped."  # it failed before its first run
    return f"{retry} continues where it stopped."


def _error_object(job: Job) -> dict[str, Any] | None:
    error = error_of(job)
    return None if error is None else {"code": error.code, "message": error.message, "hint": error.hint}
