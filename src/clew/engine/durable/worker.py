"""Durable work on any number of machines: one worker at a time handles an item, and items of one key are in order.

Theory of operation
1. Our own rows are the source of truth. A handler reads the row of its subject (an event, a reply) before it acts, so
   it does no harm if the same work is handed out twice or late.
2. Jobs are claimed in our own store, as many as the worker can run (`claims.py`). Events and replies of hooks go
   through DBOS, which records, over crashes, which worker has which item, and keeps the items of a key in order. It is
   used for nothing else: no counts, no deadlines, no sleeping. Each try of a subject is one workflow with one step,
   named after the subject and the number of the try.
3. A worker has its own id, and a heartbeat in our store. When a worker is dead, any other worker releases its claims,
   and puts the items that DBOS has recorded for it back into the queue. A worker that was only suspended finds its
   leases gone, and writes nothing.
4. Every worker enqueues the work of hooks that is in our rows and not in the queue yet. The name of an item is the same
   for all workers, so it is enqueued once. A worker starts the queue engine when it first finds such work, because the
   engine takes a second to start and a twelfth of a core to run, and nobody without hooks needs it.
5. A worker whose store was deleted, replaced or truncated ends. Whatever started the worker restarts it.
6. Jobs that an older Clew put into its DBOS queue are ignored there: they are claimed by their rows.
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
from clew.engine.durable.claims import Claims, RunClaimed
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

QUEUE = "clew_hooks"
WORKFLOW = "clew_work"
APPLICATION = "clew"
APPLICATION_VERSION = "1"  # the workflow's version, not Clew's: after an upgrade of Clew, queued work must still run
RETRY_S = 2.0  # the pause after a store error
RETRY_AFTER_FAULT_S = 60.0
WARN_EVERY_S = 5.0
HEARTBEAT_S = 5.0
SILENCE_S = 30.0
MAX_ITEMS = 1000  # how many events and replies a worker has at once; nearly all of them wait


class WorkItem(Record):
    """An event or a reply of hooks that waits in our rows."""

    kind: str  # the name of the handler
    subject: str  # the id of an event, or of the job that is replied about
    number: int  # the number of the try
    key: str  # items of one key are handled one at a time and in order

    @property
    def name(self) -> str:
        return f"{QUEUE}/{self.kind}/{self.subject}/{self.number}"


Handler = Callable[[str], Awaitable[None]]


class WorkerSettings(Record):
    id: str  # unique among living workers, and the same after a restart
    queue_url: str | None  # of the PostgreSQL database that holds the queue and the store
    queue_file: str | None = None  # the queue's own file, next to the store's, if there is no such database
    hooks_only: bool = False  # the worker runs only the jobs of hooks
    concurrency: int = 4
    poll_s: float = 0.5
    heartbeat_s: float = HEARTBEAT_S
    silence_s: float = SILENCE_S  # a worker on another machine that sends no heartbeat for this long is dead


class Worker:
    """The only worker of its process. `run` returns when `stop` is set and all its work is back in the queues."""

    def __init__(
        self,
        async_store: AsyncStore,
        context: RuntimeContext,
        settings: WorkerSettings,
        handlers: Mapping[str, Handler],
        waiting: Callable[[Store], Sequence[WorkItem]],
        run_claimed: RunClaimed,
    ) -> None:
        """`waiting` reads the items for the queue, `handlers` handle them, `run_claimed` runs a claimed job."""
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
            lambda job_id, slot: self._persist(partial(run_claimed, job_id, slot), job_id),
            own=not settings.hooks_only,
        )
        self._queued: set[str] = set()  # names of items that are in the queue
        self._loop = asyncio.get_running_loop()
        self._busy: set[asyncio.Task[None]] = set()
        self._called: set[asyncio.Task[Any]] = set()  # calls that the queue engine made and whose end it waits for
        self._stopping = False
        self._queue: contextlib.ExitStack | None = None  # closing it ends the queue engine; None: not started
        self._starting: asyncio.Future[contextlib.ExitStack] | None = None
        self._warned_at = -WARN_EVERY_S
        self._lost: asyncio.Future[StoreError] = self._loop.create_future()  # the store's files are gone
        # The queue engine's own async calls would make its thread pool the loop's default, and later shut it down.
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="clew-queue")

    async def _in_thread(self, work: Callable[..., T], *given: Any) -> T:
        return await self._loop.run_in_executor(self._threads, partial(work, *given))

    async def run(self, stop: asyncio.Event, *, until_idle: bool = False) -> None:
        """`until_idle`: also ends when no work is left in our rows."""
        await self._store.call(self._forget_the_dead)
        tasks: list[asyncio.Task[Any]] = []
        try:
            await self._store.call(self._sign_on)
            poll_s, heartbeat_s = self._settings.poll_s, self._settings.heartbeat_s
            loops = [(poll_s, self._enqueue), (poll_s, self._claim), (heartbeat_s, self._beat)]
            if until_idle:
                loops.append((poll_s, partial(self._stop_if_idle, stop)))
            stopping: asyncio.Task[Any] = asyncio.create_task(stop.wait())
            tasks += [stopping, *(asyncio.create_task(self._every(*each)) for each in loops)]
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
                with contextlib.suppress(Exception):  # the engine did not start, so there is nothing to end
                    self._queue = await self._starting
            if self._queue is not None:
                await self._in_thread(self._queue.close)
            for called in list(self._called):
                called.cancel()
            self._threads.shutdown(wait=False)
            with contextlib.suppress(StoreError):
                await self._store.call(lambda store: store.workers.forget(self._settings.id))

    async def _stop_if_idle(self, stop: asyncio.Event) -> None:
        own = not self._settings.hooks_only
        if not await self._store.call(lambda store: store.jobs.any_unfinished(own=own) or self._waiting(store)):
            stop.set()

    async def _claim(self) -> None:
        while True:
            if not await self._claims.fill():
                await self._claims.until_one_ends(self._settings.poll_s)

    async def handle(self, kind: str, subject: str) -> None:
        """Called by the queue engine. Does not return when the worker stops, so that another worker gets the item."""
        if kind not in self._handlers:
            return  # a job that an older Clew put there: it is claimed by its row
        called = asyncio.current_task()
        assert called is not None
        self._called.add(called)
        task = asyncio.create_task(self._persist(partial(self._handlers[kind], subject), subject))
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

    async def _persist(self, work: Callable[[], Awaitable[T]], subject: str) -> T:
        """Repeats the work until it succeeds. The work reads its rows first, so nothing is done twice."""
        while True:
            try:
                return await work()
            except StoreError as error:
                self._report(error)
                _raise_if_cancelled(error)
                await asyncio.sleep(RETRY_S)
            except Exception as error:  # else the queue would consider the item done, and our row would wait forever
                _raise_if_cancelled(error)
                log.exception("a fault in Clew itself; %s is tried again", subject)
                await asyncio.sleep(RETRY_AFTER_FAULT_S)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except StoreError as error:
                self._report(error)
            except Exception as error:
                self._warn(f"the queue could not be reached: {_first_line(error)}")
                log.debug("the queue could not be reached", exc_info=True)
            await asyncio.sleep(seconds)

    def _report(self, error: StoreError) -> None:
        if error.kind != "lost":
            self._warn(f"the store: {error.message}")
        elif not self._lost.done():
            self._lost.set_result(error)

    def _warn(self, message: str) -> None:
        """Logs at most one warning per WARN_EVERY_S: an outage causes the same error several times a second."""
        now = self._loop.time()
        if now - self._warned_at >= WARN_EVERY_S:
            self._warned_at = now
            log.warning("%s", message)

    async def _start_queue(self) -> None:
        if self._queue is None:
            if self._starting is None:
                self._starting = asyncio.ensure_future(self._in_thread(_launch, self, self._settings))
            try:
                self._queue = await asyncio.shield(self._starting)  # a cancelled start continues, and `run` ends it
            except Exception:
                self._starting = None
                raise

    async def _enqueue(self) -> None:
        waiting = await self._store.call(self._waiting)
        if waiting:
            await self._start_queue()
        for item in waiting:
            if item.name not in self._queued:
                from dbos import DBOS

                options: EnqueueOptions = {
                    "workflow_name": WORKFLOW,
                    "queue_name": QUEUE,
                    "workflow_id": item.name,
                    "queue_partition_key": item.key,
                }
                await self._in_thread(DBOS.enqueue_workflow_with_options, options, item.kind, item.subject)
        self._queued = {item.name for item in waiting}

    async def _beat(self) -> None:
        def beat(store: Store) -> None:
            if not store.workers.beat(self._settings.id, now(store, self._context)):
                self._sign_on(store)  # another worker considered this one dead and removed its row

        await self._store.call(beat)
        await self._claims.check()
        await self._take_over()

    def _sign_on(self, store: Store) -> None:
        at = now(store, self._context)
        settings, owner = self._settings, self._context.owner
        store.workers.save(
            StoredWorker(settings.id, owner, settings.concurrency, at, at, None, hooks_only=settings.hooks_only)
        )

    async def _take_over(self) -> None:
        """Puts items that DBOS has recorded for a dead worker back into the queue."""
        alive = await self._store.call(self._forget_the_dead)
        if self._queue is None:
            return
        from dbos import DBOS

        pending = partial(DBOS.list_workflows, status="PENDING", name=WORKFLOW, load_input=False, load_output=False)
        for workflow in await self._in_thread(pending):
            if workflow.executor_id not in alive:
                await self._in_thread(partial(DBOS.resume_workflow, workflow.workflow_id, queue_name=QUEUE))

    def _forget_the_dead(self, store: Store) -> set[str]:
        """Removes the dead workers, and returns the ids of the living ones."""
        alive = set()
        for worker in store.workers.all():
            alive_until = worker.heartbeat_at + self._settings.silence_s
            is_dead = is_process_dead(store, worker.owner, alive_until, self._context)
            if not is_dead or not store.workers.forget_silent(worker):
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


_running: Worker | None = None  # one per process, because the queue engine has one instance per process


@cache
def _register() -> None:
    from dbos import DBOS

    logging.getLogger("dbos").addFilter(lambda record: not record.exc_info)  # an error with a traceback is also raised

    @DBOS.step(name="clew_handle")
    async def handle(kind: str, subject: str) -> None:
        worker = _running
        assert worker is not None
        handled = asyncio.run_coroutine_threadsafe(worker.handle(kind, subject), worker._loop)
        await asyncio.wrap_future(handled)

    @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
    async def work(kind: str, subject: str) -> None:
        await handle(kind, subject)


def _launch(worker: Worker, settings: WorkerSettings) -> contextlib.ExitStack:
    """Starts the queue engine. Closing the returned stack ends it."""
    global _running
    from dbos import DBOS

    _register()
    _running = worker
    file = settings.queue_file
    with (
        contextlib.ExitStack() as started,
        queue_file.prepared(file) if file is not None else contextlib.nullcontext() as users,
        _reachable(),
    ):
        if users is not None:
            started.callback(os.close, users)
        started.callback(DBOS.destroy, workflow_completion_timeout_sec=0)
        DBOS(config=_config(settings))
        DBOS.listen_queues((QUEUE,))
        DBOS.launch()
        DBOS.register_queue(
            QUEUE,
            partition_concurrency=1,
            worker_concurrency=MAX_ITEMS,
            polling_interval_sec=settings.poll_s,
            on_conflict="always_update",
        )
        return started.pop_all()


@contextlib.contextmanager
def _reachable() -> Iterator[None]:
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        raise StoreError(
            f"The queue's database cannot be reached ({_first_line(error)}).",
            kind="unreachable",
            hint="Check that its server runs, and start the worker again.",
        ) from error


def _raise_if_cancelled(error: Exception) -> None:
    """A task that was cancelled stays cancelled, even if its clean-up raised another error."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error
