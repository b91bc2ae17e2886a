"""Durable work on any number of machines: each piece of it by one worker at a time, those of one key in order.

Theory of operation
1. Our own rows are the truth. A handler carries one subject (a job) to its end by looking at its row first, so work
   that is handed out twice, late or again does no harm.
2. Jobs are claimed in our own store, as many as the worker can run (`claims.py`). Events and replies of hooks are
   handed to DBOS, which keeps which worker has what, in which order by key, over crashes. We ask it for nothing else:
   no counts, no deadlines, no sleeping. Each try of a subject is one workflow with one step, named after both.
3. A worker has an id of its own and a heartbeat in our store. When one is not alive, any of the others releases what it
   had claimed, and puts back into its queue whatever DBOS has down for it. A worker that was only asleep finds its
   leases gone, and writes nothing.
4. What hooks have waiting in our rows and not in the queue yet is put there by every worker, by the same name: once.
   A worker starts the queue engine when it first finds such work: it takes a second and then a twelfth of a core, and
   whoever has no hooks has no use for it.
5. A worker whose store was deleted, replaced or cut short ends: whoever started it starts it again.
6. What an older Clew had put into its own queue of jobs stays there: the jobs are claimed by their rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

from clew.core.record import Record
from clew.engine.durable import queue_file
from clew.engine.durable.claims import Claims, RunClaimed, WorkerSlot
from clew.engine.leases import is_process_dead, now
from clew.engine.settings import RuntimeContext
from clew.engine.storage.async_store import AsyncStore
from clew.errors import StoreError
from clew.store.rows.jobs import StoredWorker
from clew.store.store import Store

if TYPE_CHECKING:
    from dbos import DBOSConfig, EnqueueOptions

T = TypeVar("T")
log = logging.getLogger("clew.engine.durable.worker")

QUEUE = "clew_hooks"  # what hooks set going
WORKFLOW = "clew_work"
APPLICATION = "clew"
APPLICATION_VERSION = "1"  # of the shape of a workflow, not of Clew: an upgrade must not strand what is queued
AFTER_TROUBLE_S = 2.0
AFTER_FAULT_S = 60.0
WARN_EVERY_S = 5.0
HEARTBEAT_S = 5.0
SILENCE_S = 30.0
MOST_AT_ONCE = 1000  # of the events and replies that a worker holds: nearly all of them wait


class WorkItem(Record):
    """A piece of work that waits in our rows."""

    kind: str  # which handler
    subject: str  # what of: a job's id
    number: int  # which try of it
    key: str  # those of one key are done one at a time and in order

    @property
    def name(self) -> str:
        return f"{QUEUE}/{self.kind}/{self.subject}/{self.number}"


Handler = Callable[[str], Awaitable[None]]


class WorkerSettings(Record):
    id: str  # unique among those that are alive, and the same after a restart
    queue_url: str | None  # of the PostgreSQL database that holds the queue, and the store
    queue_file: str | None = None  # when it is in a file of its own, beside the store's
    hooks_only: bool = False  # it leaves other jobs to other workers
    concurrency: int = 4
    poll_s: float = 0.5
    heartbeat_s: float = HEARTBEAT_S
    silence_s: float = SILENCE_S  # of a worker on another machine, before it counts as dead


class Worker:
    """Runs in one process; `run` returns when `stop` is set and everything has been handed back."""

    def __init__(
        self,
        async_store: AsyncStore,
        context: RuntimeContext,
        settings: WorkerSettings,
        handlers: Mapping[str, Handler],
        waiting: Callable[[Store], Sequence[WorkItem]],
        carry: RunClaimed,
    ) -> None:
        """`handlers` and `waiting`: of what goes through the queue; `carry`: of a job that was claimed."""
        self._store = async_store
        self._context = context
        self._settings = settings
        self._handlers = handlers
        self._waiting = waiting
        self._claims = Claims(
            async_store,
            context.clock,
            settings.id,
            settings.concurrency,
            partial(self._carry_surely, carry),
            own=not settings.hooks_only,
        )
        self._queued: set[str] = set()  # by name: what is known to be in the queue
        self._loop = asyncio.get_running_loop()
        self._busy: set[asyncio.Task[None]] = set()
        self._called: set[asyncio.Task[Any]] = set()  # by the queue, which waits for them
        self._stopping = False
        self._queue: contextlib.ExitStack | None = None  # what ends the queue engine; None: it has not been started
        self._starting: asyncio.Future[contextlib.ExitStack] | None = None
        self._warned_at = -WARN_EVERY_S
        self._lost: asyncio.Future[StoreError] = self._loop.create_future()  # the store's files were taken away
        # The queue engine's own async calls would make its pool the loop's default, and shut that down with itself.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="clew-queue")

    async def _in_thread(self, work: Callable[..., T], *given: Any) -> T:
        return await self._loop.run_in_executor(self._threads, partial(work, *given))

    async def run(self, stop: asyncio.Event, *, until_idle: bool = False) -> None:
        """`until_idle`: also ends when nothing waits in our rows any more."""
        await self._store.call(self._forget_the_dead)
        tasks: list[asyncio.Task[Any]] = []
        try:
            await self._store.call(self._sign_on)
            tasks.append(asyncio.create_task(self._every(self._settings.poll_s, self._hand_in)))
            tasks.append(asyncio.create_task(self._every(self._settings.poll_s, self._claim)))
            tasks.append(asyncio.create_task(self._every(self._settings.heartbeat_s, self._beat)))
            if until_idle:
                look = partial(self._look_whether_idle, stop)
                tasks.append(asyncio.create_task(self._every(self._settings.poll_s, look)))
            stopping: asyncio.Task[Any] = asyncio.create_task(stop.wait())
            tasks.append(stopping)
            await asyncio.wait({stopping, self._lost}, return_when=asyncio.FIRST_COMPLETED)
            if self._lost.done():
                log.error("%s", await self._store.rescue())
                raise self._lost.result()
        finally:
            self._stopping = True
            for task in [*tasks, *self._busy]:
                task.cancel()
            await asyncio.gather(*tasks, *self._busy, return_exceptions=True)
            await self._claims.end()
            if self._queue is None and self._starting is not None:
                with contextlib.suppress(Exception):  # it did not start, so there is nothing to end
                    self._queue = await self._starting
            if self._queue is not None:
                await self._in_thread(self._queue.close)
            for called in list(self._called):
                called.cancel()
            self._threads.shutdown(wait=False)
            with contextlib.suppress(StoreError):
                await self._store.call(lambda store: store.workers.forget(self._settings.id))

    async def _look_whether_idle(self, stop: asyncio.Event) -> None:
        if not await self._store.call(lambda store: self._claims.any_left(store) or self._waiting(store)):
            stop.set()

    async def _claim(self) -> None:
        while True:
            if not await self._claims.fill():
                await self._claims.until_one_ends(self._settings.poll_s)

    async def handle(self, kind: str, subject: str) -> None:
        """Called by the queue. Does not return when the worker stops: what it had is not done, and goes to others."""
        if kind not in self._handlers:
            return  # a job, which an older Clew put there: it is claimed by its row
        called = asyncio.current_task()
        assert called is not None
        self._called.add(called)
        task = asyncio.create_task(self._persist(self._handlers[kind], subject))
        self._busy.add(task)
        try:
            await task
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            await asyncio.Event().wait()
        finally:
            self._busy.discard(task)
            self._called.discard(called)

    async def _carry_surely(self, carry: RunClaimed, job_id: str, slot: WorkerSlot) -> float | None:
        return await self._persist(lambda subject: carry(subject, slot), job_id)

    async def _persist(self, handler: Callable[[str], Awaitable[T]], subject: str) -> T:
        """A store that is away for a while is no end: what was done is in it, and the handler looks."""
        while True:
            try:
                return await handler(subject)
            except StoreError as error:
                self._warn_of(error)
                _raise_if_cancelled(error)
                await asyncio.sleep(AFTER_TROUBLE_S)
            except Exception as error:  # the queue takes it for done otherwise, and our row would wait for ever
                _raise_if_cancelled(error)
                log.exception("a fault in Clew itself; %s is tried again", subject)
                await asyncio.sleep(AFTER_FAULT_S)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except StoreError as error:
                self._warn_of(error)
            except Exception as error:
                self._warn(f"the queue could not be reached: {_first_line(error)}")
                log.debug("the queue could not be reached", exc_info=True)
            await asyncio.sleep(seconds)

    def _warn_of(self, error: StoreError) -> None:
        if error.kind != "lost":
            self._warn(f"the store: {error.message}")
        elif not self._lost.done():
            self._lost.set_result(error)

    def _warn(self, words: str) -> None:
        """Now and then: all that this worker does meets the same trouble, several times a second."""
        now = self._loop.time()
        if now - self._warned_at >= WARN_EVERY_S:
            self._warned_at = now
            log.warning("%s", words)

    async def _start_queue(self) -> None:
        if self._queue is None:
            if self._starting is None:
                self._starting = asyncio.ensure_future(self._in_thread(_launch, self, self._settings))
            try:
                self._queue = await asyncio.shield(self._starting)  # if cancelled, it goes on, and `run` ends it
            except Exception:
                self._starting = None
                raise

    async def _hand_in(self) -> None:
        waiting = await self._store.call(self._waiting)
        if waiting:
            await self._start_queue()
        for work in waiting:
            if work.name not in self._queued:
                from dbos import DBOS

                options: EnqueueOptions = {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": work.name,
                    "queue_partition_key": work.key,
                }
                await self._in_thread(DBOS.enqueue_workflow_with_options, options, work.kind, work.subject)
        self._queued = {work.name for work in waiting}

    async def _beat(self) -> None:
        if not await self._store.call(self._is_known):
            await self._store.call(self._sign_on)
        await self._claims.check()
        await self._take_over()

    def _is_known(self, store: Store) -> bool:
        return store.workers.beat(self._settings.id, now(store, self._context))

    def _sign_on(self, store: Store) -> None:
        at = now(store, self._context)
        settings, owner = self._settings, self._context.owner
        store.workers.save(
            StoredWorker(settings.id, owner, settings.concurrency, at, at, None, hooks_only=settings.hooks_only)
        )

    async def _take_over(self) -> None:
        """What the queue has down for a worker that is not alive goes back into it."""
        alive = await self._store.call(self._forget_the_dead)
        if self._queue is None:
            return
        from dbos import DBOS

        pending = partial(DBOS.list_workflows, status="PENDING", name=WORKFLOW, load_input=False, load_output=False)
        for workflow in await self._in_thread(pending):
            if workflow.executor_id not in alive:
                await self._in_thread(partial(DBOS.resume_workflow, workflow.workflow_id, queue_name=QUEUE))

    def _forget_the_dead(self, store: Store) -> set[str]:
        """The workers that are alive; the others are forgotten."""
        alive = set()
        for worker in store.workers.all():
            heard = worker.heartbeat_at + self._settings.silence_s
            if not is_process_dead(store, worker.owner, heard, self._context) or not store.workers.forget_silent(
                worker
            ):
                alive.add(worker.id)
        return alive


def _config(settings: WorkerSettings) -> DBOSConfig:
    from dbos import DBOSPortableJSONSerializer

    file = settings.queue_file
    config: DBOSConfig = {
        "name": APPLICATION,
        "executor_id": settings.id,
        "application_version": APPLICATION_VERSION,
        "serializer": DBOSPortableJSONSerializer(),
        "log_level": "ERROR",
        "system_database_url": settings.queue_url or f"sqlite:///{file}",
    }
    if file is not None:
        config["system_database_engine"] = queue_file.connected(file)
    return config


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


_running: Worker | None = None  # the queue engine has one instance a process, and so have we


@cache
def _register() -> None:
    from dbos import DBOS

    logging.getLogger("dbos").addFilter(lambda record: not record.exc_info)  # such an error is raised as well

    @DBOS.step(name="clew_handle")
    async def handle(kind: str, subject: str) -> None:
        worker = _running
        assert worker is not None
        there = asyncio.run_coroutine_threadsafe(worker.handle(kind, subject), worker._loop)
        await asyncio.wrap_future(there)

    @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
    async def work(kind: str, subject: str) -> None:
        await handle(kind, subject)


def _launch(worker: Worker, settings: WorkerSettings) -> contextlib.ExitStack:
    """Starts the queue engine. What it returns ends it."""
    global _running
    from dbos import DBOS

    _register()
    _running = worker
    file = settings.queue_file
    with (
        contextlib.ExitStack() as started,
        queue_file.made_ready(file) if file is not None else contextlib.nullcontext() as users,
        _reached(),
    ):
        if users is not None:
            started.callback(os.close, users)
        started.callback(_end)
        DBOS(config=_config(settings))
        DBOS.listen_queues((QUEUE,))
        DBOS.launch()
        DBOS.register_queue(
            QUEUE,
            partition_concurrency=1,
            worker_concurrency=MOST_AT_ONCE,
            polling_interval_sec=settings.poll_s,
            on_conflict="always_update",
        )
        return started.pop_all()


@contextlib.contextmanager
def _reached() -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        raise StoreError(
            f"The queue's database cannot be reached ({_first_line(error)}).",
            kind="unreachable",
            hint="See that its server runs, and start the worker again.",
        ) from error


def _raise_if_cancelled(error: Exception) -> None:
    """A task that was cancelled stays cancelled, even if its clean-up raised another error."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error


def _end() -> None:
    global _running
    from dbos import DBOS

    DBOS.destroy(workflow_completion_timeout_sec=0)
    _running = None
