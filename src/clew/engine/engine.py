"""Carries out turns: it starts runs, takes over queued runs of dead processes, and follows, cancels and sends any run.

What happens to one run is in `turn`; the order in which runs of a thread start is in `queue`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from clew.agents.adapter import Adapter, Binary
from clew.core.decision import Abilities
from clew.core.ids import RunId, SessionId, ThreadId
from clew.core.runs.events import RunEnded, to_body
from clew.core.runs.question import QuestionState
from clew.core.runs.run import LIVE, Run, RunStatus
from clew.core.thread import Thread
from clew.engine import leases, queue, recovery
from clew.engine.journal import JournalEntry
from clew.engine.planning.plan import runtime_of
from clew.engine.process import launching, probe
from clew.engine.request import (
    TurnRequest,
    check_argument,
    check_images,
    default_model_key,
    model_for,
    named_model,
    new_run,
    request_of,
)
from clew.engine.settings import AgentSettings, EngineSettings, RuntimeContext
from clew.engine.storage.async_store import IDEMPOTENT, AsyncStore
from clew.engine.turn import LiveTurn
from clew.engine.warm.pool import NoWarmAgents, WarmAgents
from clew.errors import AgentMissing, Busy, ClewError, StoreError, UsageError
from clew.store.records import StoredEvent
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.core.explanation import Explanation
    from clew.core.history import History
    from clew.engine.planning.preview import NextTurn
    from clew.engine.sessions.adoption import Adopted, FoundSession
    from clew.engine.sessions.compaction import Compacted
    from clew.engine.storage.images import ImageFolder

T = TypeVar("T")
log = logging.getLogger("clew.engine")
MAX_RECOVERY_PAUSE_S = 30.0  # the longest pause between two tries to end a run
FOLLOWED_CHARS = 256 * 1024  # how many characters of a run's events are read at once for one follower


class Engine:
    """Open one per process, and close it. Runs that a crash leaves are ended by `recover`, in any later engine."""

    def __init__(
        self,
        store: Store,
        adapters: Mapping[str, Adapter],
        settings: EngineSettings,
        context: RuntimeContext,
        warm: WarmAgents | None = None,
    ) -> None:
        """`warm`: where agents are kept between two turns of a thread; None: they end with the turn."""
        self.store = AsyncStore(store)
        self.settings = settings
        self.context = context
        self.warm = warm if warm is not None else NoWarmAgents(context.owner)
        self.warm.when_ended(self._kept_agent_ended)
        self._adapters = adapters
        self._live: dict[str, LiveTurn] = {}
        self._background: set[asyncio.Task[object]] = set()
        self._recovering: set[asyncio.Task[None]] = set()
        self._releasing: set[asyncio.Task[None]] = set()
        self._starting_ahead = asyncio.Lock()
        self.process_ends = False  # the process ends as soon as this is closed

    @cached_property
    def images(self) -> ImageFolder:
        """The files of the prompts' images."""
        from clew.engine.storage.images import ImageFolder  # here, because few prompts have any

        return ImageFolder(self.settings.images)

    # The agents

    def agents(self) -> list[str]:
        return sorted(self._adapters)

    def adapter_of(self, agent: str) -> Adapter | None:
        """None: this installation has no such agent."""
        return self._adapters.get(agent)

    def adapter(self, agent: str) -> Adapter:
        adapter = self._adapters.get(agent)
        if adapter is None:
            raise UsageError(f"There is no agent {agent!r}.", hint=f"Known: {', '.join(sorted(self._adapters))}.")
        return adapter

    def agent_settings(self, agent: str) -> AgentSettings:
        return self.settings.agents.get(agent, AgentSettings())

    def find(self, agent: str) -> Binary:
        return self.adapter(agent).find(self.agent_settings(agent).path, self.context.environ)

    async def abilities(self, agent: str, binary: Binary) -> Abilities:
        return await probe.abilities(
            self.adapter(agent), binary, self.store, self.context.environ, self.context.clock()
        )

    async def default_model(self, agent: str) -> str | None:
        """The model that answers when nothing names one. None: it is not known before the agent's first run."""
        configured = self.agent_settings(agent).model
        return configured or await self.store.call(lambda store: store.key_values.get(default_model_key(agent)))

    # Starting a run

    async def start(self, request: TurnRequest, also: Callable[[Store, Run], None] | None = None) -> LiveTurn:
        """The prompt is stored when this returns. The run then continues in the background.

        `also` writes what a host stores about the run, in the same transaction.
        """
        binary = self.find(request.agent)
        if request.images:
            check_images(request.agent, await self.abilities(request.agent, binary))
            await asyncio.to_thread(self.images.files, request.images)
        if not await self.warm.holds(request.thread.id):
            launching.prepare()
        token = self.context.new_id()
        configured = self.agent_settings(request.agent).model
        model = named_model(request, configured)
        if model is None:
            model = await self.store.call(lambda store: model_for(request, configured, store))
        check_argument("model", model)  # it may come from a flag, the thread, the settings or the store
        run = new_run(request, model, self.context)
        leases.runs_of_this_process.add(run.id)
        try:
            try:
                opened = await self._open_run(request, run, binary, token, also)
            except Busy:
                if not await self.recover():
                    raise
                # The run that held the thread was dead.
                opened = await self._open_run(request, run, binary, token, also)
        except BaseException:
            leases.runs_of_this_process.discard(run.id)
            raise
        return self._carry_out(request, run, binary, token, opened)

    async def _open_run(
        self,
        request: TurnRequest,
        run: Run,
        binary: Binary,
        token: str,
        also: Callable[[Store, Run], None] | None,
    ) -> queue.Opened:
        made: list[queue.Opened] = []

        def open_run(store: Store) -> queue.Opened:
            probe.look_up(store, request.agent, binary)
            with store.transaction():
                made.append(queue.open_run(store, request, run, token, self.context, self.settings, also))
            return made[-1]

        return await self.store.commit_surely(
            open_run, lambda store: (made[-1],) if store.runs.find(run.id) is not None else None
        )

    def _carry_out(
        self,
        request: TurnRequest,
        run: Run,
        binary: Binary,
        token: str,
        opened: queue.Opened,
        earlier: Sequence[JournalEntry] = (),
    ) -> LiveTurn:
        turn = LiveTurn(
            request,
            run,
            self.adapter(request.agent),
            binary,
            self.store,
            self.settings,
            self.context,
            self.adapter_of,
            self.warm,
            earlier,
        )
        self._live[run.id] = turn
        turn.start(token, opened, self._ended)
        return turn

    def _ended(self, turn: LiveTurn) -> None:
        self._live.pop(turn.run.id, None)
        leases.runs_of_this_process.discard(turn.run.id)
        if turn.is_left_to_recovery:
            task = asyncio.create_task(self._recover_until_over(turn.run.id))
            self._recovering.add(task)
            task.add_done_callback(self._recovering.discard)

    async def take_up(self, may_run: Callable[[Thread], bool] | None = None) -> list[LiveTurn]:
        """Carries out the queued runs that a dead daemon left. Only daemons call this.

        A run stays queued when its agent cannot be found now, or when this daemon may not run it.
        """
        taken = []
        for run in await self.store.call(queue.left_behind):
            try:
                turn = await self._take_up(run, may_run)
            except (AgentMissing, StoreError) as error:
                log.warning("a queued run waits: %s", error.message)
            except ClewError as error:
                await self.store.atomically(partial(self._fail_unstarted, run, error.message))
            else:
                taken += [turn] if turn is not None else []
        return taken

    def _fail_unstarted(self, run: Run, message: str, store: Store) -> None:
        queue.end_unstarted(store, run, RunStatus.FAILED, message, self.context.clock())

    async def _take_up(self, run: Run, may_run: Callable[[Thread], bool] | None) -> LiveTurn | None:
        binary = self.find(run.agent)
        check_argument("model", run.model)
        thread = await self.store.call(lambda store: store.threads.require_by_id(run.thread_id))
        if may_run is not None and not may_run(thread):
            return None
        if run.id in self._live:
            return None
        token = self.context.new_id()
        leases.runs_of_this_process.add(run.id)
        opened: queue.Opened | None = None
        try:
            opened, stored = await self.store.call(
                lambda store: (
                    queue.take_up(store, run, token, self.context, self.settings),
                    store.events.of_run(run.id),
                )
            )
        finally:
            if opened is None:
                leases.runs_of_this_process.discard(run.id)
        if opened is None:
            return None
        earlier = [JournalEntry(each.seq, each.at, each.event) for each in stored if each.event is not None]
        return self._carry_out(request_of(run, thread), run, binary, token, opened, earlier)

    # Previews

    async def preview(self, request: TurnRequest, change: Callable[[History], History] | None = None) -> NextTurn:
        """What would be decided about this turn now, or after a change of the thread's history. Stores nothing."""
        from clew.engine.planning import preview

        return await preview.preview(self, request, change)

    async def explain(self, request: TurnRequest) -> Explanation:
        """What this turn would do now, with its exact prompt and an estimate of its price. Stores nothing."""
        from clew.engine.planning import explanation

        return await explanation.explain(self, request)

    async def next_sessions(self, requests: Sequence[TurnRequest]) -> list[SessionId | None]:
        """The session that each turn would resume (None: a fresh one). All are of one agent. Raises AgentMissing."""
        from clew.engine.planning import preview

        return await preview.sessions(self, requests)

    def is_held(self, store: Store, thread_id: ThreadId) -> bool:
        """Whether a run of a live process holds the thread."""
        return leases.live_lease(store, leases.thread_key(thread_id), self.context) is not None

    # Runs of any process

    async def follow(self, run_id: RunId, after: int = 0) -> AsyncGenerator[StoredEvent, None]:
        """The run's events after number `after`, up to its last one. Each is yielded once it is stored."""
        turn = self._live.get(run_id)
        if turn is not None:
            async for entry in turn.events(after=after, stored=True):
                after = entry.seq
                yield StoredEvent(entry.seq, entry.at, entry.event.kind, entry.event, to_body(entry.event))
                if isinstance(entry.event, RunEnded):
                    return
        while True:
            run = await self.store.call(lambda store: store.runs.find(run_id))
            while batch := await self.store.read_large(partial(_next_events, run_id, after)):
                while batch:
                    after = batch[0].seq
                    yield batch.pop(0)  # removed, to free its memory: the follower may be slow, and the batch is large
            if run is None or run.status not in LIVE:
                return  # the run had ended before its events were read, so all of them were read
            await asyncio.sleep(self.settings.poll_s)

    async def cancel(self, run_id: RunId, *, hold: bool = True) -> bool:
        """Asks a run to stop; withdraws the open questions of a run that has ended. False: there was nothing to do.

        If the run had started, a daemon's prompts that are queued behind it are held until somebody sends them, unless
        `hold` is False.
        """

        def ask_to_stop(store: Store) -> bool:
            run = store.runs.require(run_id)
            if run.status is RunStatus.QUEUED and run.owner is None:
                queue.end_unstarted(store, run, RunStatus.CANCELLED, queue.CANCELLED_WAITING, self.context.clock())
                return True
            if run.status in LIVE:
                now = self.context.clock()
                return queue.stop(store, run, now) if hold else store.runs.request_cancel(run_id, now)
            still_open = [question for question in store.questions.of_run(run_id) if question.is_open]
            for question in still_open:  # the run died with its process, and its questions need no answer any more
                store.questions.close(question, QuestionState.WITHDRAWN, self.context.clock())
            return bool(still_open)

        asked = await self.store.atomically(ask_to_stop)
        self._poll_now(run_id)
        return asked

    async def send(self, run_id: RunId) -> Run:
        """Lets a queued run start before all others that wait, even if it is held, and stops the run in progress.

        The run starts in the process that carries it out or, if there is none, in the next daemon. Raises Conflict if
        it has already started.
        """
        run = await self.store.atomically(
            lambda store: queue.send(store, store.runs.require(run_id), self.context.clock())
        )
        self._poll_now(run_id)
        return run

    def _poll_now(self, run_id: RunId) -> None:
        """Makes the run, if it waits in this process, read the store now and not only at its next poll."""
        turn = self._live.get(run_id)
        if turn is not None:
            turn.poll_now()

    # Recovery after a crash

    async def recover(self) -> list[Run]:
        """Ends the runs that a crash left. Commands that ask, serve or work call it; commands that only read do not."""
        return await recovery.recover_dead(self.store, self.adapter_of, self.context, self.settings)

    async def gone(self, runs: Sequence[Run]) -> set[str]:
        """The ids of the runs whose process is dead. Writes nothing."""

        def dead(store: Store) -> set[str]:
            live = (run for run in runs if run.status in LIVE)
            return {run.id for run in live if recovery.is_run_dead(store, run, self.context)}

        return await self.store.call(dead)

    async def _recover_until_over(self, run_id: RunId) -> None:
        """Retries the recovery of a run whose end could not be stored.

        Only this process can recover it: to the others the run is alive as long as its process is.
        """
        wait_s = self.settings.poll_s
        while True:
            await asyncio.sleep(wait_s)
            with contextlib.suppress(StoreError):
                await self.recover()
                run = await self.store.call(lambda store: store.runs.find(run_id))
                if run is None or run.status not in LIVE or run.owner is None:
                    return
            wait_s = min(2 * wait_s, MAX_RECOVERY_PAUSE_S)

    # Agents that are kept between two turns

    async def start_ahead(self, thread: Thread) -> bool:
        """Starts the agent that the thread's next turn will need, if that resumes a session. Whether one waits now.

        One is started at a time, however many callers there are: a second one for the same thread finds the first.
        """
        from clew.engine.warm import ahead

        async with self._starting_ahead:
            return await ahead.start_ahead(self, thread)

    def _kept_agent_ended(self, mark: str) -> None:
        task = asyncio.create_task(self._release_kept(mark))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _release_kept(self, mark: str) -> None:
        with contextlib.suppress(StoreError):  # whoever recovers next releases it
            await self.store.atomically(lambda store: store.leases.release(leases.warm_key(mark)), IDEMPOTENT)

    # Sessions that were started outside Clew

    async def adopt(self, thread: Thread, agent: str, session_id: str, *, model: str | None = None) -> Adopted:
        """Makes the session the thread's own. What its file holds becomes turns of the thread."""
        from clew.engine.sessions import adoption

        found = await self.find_session(agent, thread.cwd, session_id)
        if found is None:
            return adoption.Adopted(None, ())
        return await self.store.atomically(
            lambda store: adoption.adopt(store, thread, found, session_id, model, self.context)
        )

    async def find_session(self, agent: str, work_dir: str, session_id: str) -> FoundSession | None:
        """Reads a session's file, for a caller that adopts the session in its own transaction.

        None: there is no file, or it is empty.
        """
        from clew.engine.sessions import adoption

        adapter, binary = self.adapter(agent), self.find(agent)
        runtime = runtime_of(adapter, binary, await self.abilities(agent, binary), self.context)
        return await asyncio.to_thread(adoption.find_session, adapter, runtime, work_dir, session_id)

    async def compact(self, thread: Thread, focus: str = "") -> Compacted:
        """Lets the agent summarise the session that the next turn would resume. Raises Busy, UsageError, AgentError."""
        from clew.engine.sessions import compaction

        return await compaction.compact(self, thread, focus)

    # Closing

    def in_background(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Starts a host's task that works with runs. `close` ends the runs and waits for the task."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def close(self) -> None:
        """Ends all runs of this process, concurrently, and closes the store."""
        await self._abandon_all()
        while self._background:  # a host's task may start another run while it ends
            await asyncio.wait(set(self._background), timeout=self.settings.poll_s)
            await self._abandon_all()
        await self.warm.close()
        while self._releasing:
            await asyncio.wait(set(self._releasing))
        for task in list(self._recovering):  # the next engine recovers these runs
            task.cancel()
        await asyncio.gather(*self._recovering, return_exceptions=True)
        self.store.close(process_ends=self.process_ends)

    async def _abandon_all(self) -> None:
        turns = list(self._live.values())
        async with asyncio.TaskGroup() as group:
            for turn in turns:
                group.create_task(turn.abandon())


def _next_events(run_id: str, after: int, store: Store) -> list[StoredEvent]:
    return store.events.next(run_id, after, max_chars=FOLLOWED_CHARS)
