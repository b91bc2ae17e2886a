"""The jobs host: work that continues where it stopped, after time-outs, crashes and lost machines.

A job has its own thread. Its prompt is the first turn, and each run that was cut off is followed by one that continues
its work. As for any turn, the engine decides whether the session is resumed. This host decides what the next run asks
(to continue, or the original prompt again), when it starts and when the job ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.core.durations import DAY_S
from clew.core.ids import SHORT_ID, ThreadId
from clew.core.jobs.job import (
    ACTIVE,
    DEFAULT_PRIORITY,
    LEAST_URGENT,
    MOST_URGENT,
    Job,
    JobStatus,
    Limits,
    StartMode,
)
from clew.core.lookup import LATEST, by_prefix
from clew.core.record import Record, replace
from clew.core.thread import Permissions, Thread, Trust
from clew.engine.engine import Engine
from clew.errors import Conflict, NotFound, UsageError
from clew.hosts.jobs.files import JobFiles
from clew.hosts.jobs.rows import end, last_event_at
from clew.hosts.jobs.runner import JobRunner
from clew.store.store import Store

KIND = "job"
JOBS_SEARCHED = 100_000  # how many of the newest jobs are searched for a prefix of an id
MAX_AHEAD_S = 10 * 366 * DAY_S


class JobSpec(Record):
    """What a new job needs."""

    prompt: str
    cwd: str
    agent: str
    model: str | None = None
    permissions: Permissions = Permissions.EDITS
    trust: Trust = Trust.USER
    key: str | None = None
    priority: int = DEFAULT_PRIORITY
    limits: Limits = Limits()
    checkpoint: bool = False
    not_before: float | None = None
    id: str | None = None  # None: a new id is made


class Jobs:
    """Submits, finds, cancels and retries jobs. `runner` carries them out."""

    def __init__(self, engine: Engine, runner: JobRunner) -> None:
        self.runner = runner
        self._engine = engine
        self._files = JobFiles(engine.context)

    async def submit(self, new: JobSpec) -> Job:
        """Stores a job for a worker to run. It is on disk when this returns."""
        self._engine.adapter(new.agent)
        now, job_id = self._engine.context.clock(), new.id or self._engine.context.new_id()
        for at in (new.not_before, new.limits.deadline_at):
            if at is not None and not 0 <= at <= now + MAX_AHEAD_S:  # this refuses NaN, too
                raise UsageError(f"A job cannot wait for {at}.", hint="Give epoch seconds, at most 10 years ahead.")
        if type(new.priority) is not int or not MOST_URGENT <= new.priority <= LEAST_URGENT:
            raise UsageError(
                f"{new.priority!r} is not a priority.",
                hint=f"Give a whole number from {MOST_URGENT}, the most urgent, to {LEAST_URGENT}.",
            )
        if new.checkpoint:
            await self._files.of(new.cwd, job_id).check()
        thread = Thread(
            id=ThreadId(self._engine.context.new_id()),
            name=f"job-{job_id[:SHORT_ID]}",
            cwd=new.cwd,
            agent=new.agent,
            model=new.model,
            permissions=new.permissions,
            trust=new.trust,
            kind=KIND,
            created_at=now,
            updated_at=now,
        )
        job = Job(
            id=job_id,
            thread_id=thread.id,
            prompt=new.prompt,
            cwd=new.cwd,
            agent=new.agent,
            model=new.model,
            permissions=new.permissions,
            status=JobStatus.QUEUED,
            key=new.key or job_id,
            priority=new.priority,
            limits=new.limits,
            checkpoint=new.checkpoint,
            not_before=new.not_before,
            created_at=now,
        )

        def create(store: Store) -> None:
            store.threads.create(thread)
            store.jobs.create(job)

        await self._engine.store.atomically(create)
        return job

    async def list(
        self, *, statuses: Sequence[JobStatus] | None = None, key: str | None = None, limit: int = 50
    ) -> Sequence[Job]:
        return await self._engine.store.call(
            lambda store: [
                _with_session(store, job) for job in store.jobs.newest(statuses=statuses, key=key, limit=limit)
            ]
        )

    async def find(self, job_id: str) -> Job:
        """By id, by an unambiguous prefix of one, or `latest`. Raises NotFound."""
        return await self._engine.store.call(lambda store: _with_session(store, _find(store, job_id)))

    async def cancel(self, job_id: str) -> Job:
        """Stops a running job and every process that it started. A job that does not run is cancelled at once."""

        def request(store: Store) -> Job:
            job = store.jobs.require(job_id)
            if job.status in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED):
                how = "was cancelled" if job.status is JobStatus.CANCELLED else f"has {job.status}"
                raise Conflict(f"The job is over: it {how}.", hint="clew jobs show tells more.")
            if job.status is JobStatus.RUNNING and self._engine.is_held(store, job.thread_id):
                return store.jobs.update(job.id, cancel_requested=True)
            now = self._engine.context.clock()
            return end(store, job, JobStatus.CANCELLED, "The job was cancelled while it waited.", now)

        await self._engine.recover()  # a dead worker's agent may still be running
        job = await self._engine.store.atomically(request)
        if job.status is JobStatus.RUNNING and job.run_id is not None:
            await self._engine.cancel(job.run_id)
        return job

    async def retry(
        self, job_id: str, start_mode: StartMode | None = None, *, restore: bool = False, keep: bool = False
    ) -> Job:
        """Queues a job again that ended or stopped without success.

        `restore` first restores its files from the last checkpoint; `keep` accepts the files as they are.
        """
        job = await self.find(job_id)
        if job.status is JobStatus.SUCCEEDED or job.status in ACTIVE:
            how = f"has {job.status}" if job.status is JobStatus.SUCCEEDED else f"is {job.status}"
            raise Conflict(f"The job {how}: there is nothing to retry.", hint="clew jobs show tells more.")
        if restore and keep:
            raise UsageError("Files are restored or kept, not both.")
        if (restore or keep) and not job.checkpoint:
            raise UsageError("The job keeps no checkpoints.", hint="Submit it with --checkpoint next time.")
        if job.status is JobStatus.CONFLICT and not restore and not keep:
            raise Conflict(job.error or "Files are not as the job left them.", hint=job.hint)
        if restore:
            await self._files.of(job.cwd, job.id).restore()

        def queue(store: Store) -> Job:
            stored, limits = store.jobs.require(job.id), job.limits
            if stored.tries != job.tries or stored.status is not job.status:
                raise Conflict("Somebody else has retried the job in the meantime.", hint="clew jobs show tells more.")
            if limits.deadline_at is not None and limits.deadline_at <= self._engine.context.clock():
                limits = replace(limits, deadline_at=None)  # a retry after the deadline overrides it
            return store.jobs.update(
                job.id,
                status=JobStatus.QUEUED,
                start_mode=start_mode,
                keep_files=keep,
                tries=job.tries + 1,
                troubles=0,
                limits=replace(limits, max_runs=max(limits.max_runs, 2 * job.runs)),
                cancel_requested=False,
                conflicts=(),
                outcome=None,
                error=None,
                hint=None,
                not_before=None,
                started_at=None,
                wake_at=None,
                ended_at=None,
            )

        return await self._engine.store.atomically(queue)


def _find(store: Store, job_id: str) -> Job:
    if job_id == LATEST:
        newest = store.jobs.newest(limit=1)
        if not newest:
            raise NotFound("There is no job yet.", hint="Submit one with clew jobs submit PROMPT.")
        return newest[0]
    exact = store.jobs.find(job_id)
    if exact is not None:
        return exact
    recent = store.jobs.newest(limit=JOBS_SEARCHED)
    return by_prefix(job_id, recent, lambda job: job.id, noun="job", hint="clew jobs list shows them.")


def _with_session(store: Store, job: Job) -> Job:
    """A running job gets the session of its present run, which is stored before the process is spawned."""
    run = store.runs.find(job.run_id) if job.status is JobStatus.RUNNING and job.run_id is not None else None
    if run is None or run.session_id is None:
        return job
    return replace(job, session_id=run.session_id, session_saved_at=last_event_at(store, job) or run.started_at)
