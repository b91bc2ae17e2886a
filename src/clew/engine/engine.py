"""The engine's front door: start a run, find a dead one, cancel any."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from clew.agents.adapter import Adapter, Binary
from clew.core.decision import Abilities, Decision
from clew.core.events import RunEnded, to_body
from clew.core.ids import RunId, SessionId, ThreadId
from clew.core.question import QuestionState
from clew.core.run import LIVE, Run, RunStatus
from clew.core.thread import Thread
from clew.engine import launching, leases, probe, queue, recovery
from clew.engine.database import Database
from clew.engine.journal import Noted
from clew.engine.plan import default_model_fact, model_for, named_model, new_run, runtime_of
from clew.engine.settings import AgentSettings, Ask, EngineSettings, Surroundings
from clew.engine.turn import LiveTurn
from clew.errors import AgentMissing, Busy, ClewError, StoreError, UsageError
from clew.store.records import StoredEvent
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.adoption import Adopted, Found

T = TypeVar("T")
log = logging.getLogger("clew.engine")
TIDY_MOST_S = 30.0  # between two looks
FOLLOWED_CHARS = 256 * 1024  # of events that are read at once for one who follows


def _events(run_id: str, after: int, store: Store) -> list[StoredEvent]:
    return store.next_events(run_id, after, most_chars=FOLLOWED_CHARS)


def check_word(what: str, value: str | None) -> None:
    """It goes on a command line, so it may hold nothing that ends a word there."""
    if value is not None and not value.isprintable():
        raise UsageError(f"The {what} holds characters that cannot be printed.")
    if value is not None and value.startswith("-"):
        raise UsageError(f"{value!r} is no {what}.", hint="A name does not begin with a dash.")


class Engine:
    """Carries turns out. Open one per process; close it, or what it started is ended by the next one that opens."""

    def __init__(
        self, store: Store, adapters: Mapping[str, Adapter], settings: EngineSettings, around: Surroundings
    ) -> None:
        self.database = Database(store)
        self.settings = settings
        self.around = around
        self._adapters = adapters
        self._live: dict[str, LiveTurn] = {}
        self._beside: set[asyncio.Task[object]] = set()
        self._tidying: set[asyncio.Task[None]] = set()

    async def recover(self) -> list[Run]:
        """Brings to an end what a crash left behind. Called by whoever asks, serves or works; never by a mere look."""
        return await recovery.recover_dead(self.database, self._adapters.get, self.around, self.settings)

    async def gone(self, runs: Sequence[Run]) -> set[str]:
        """The ids of those whose process is gone. Only looks: nothing is ended, and nothing written."""
        return await self.database.call(
            lambda store: {run.id for run in runs if run.status in LIVE and recovery.is_gone(store, run, self.around)}
        )

    def adapter(self, agent: str) -> Adapter:
        adapter = self._adapters.get(agent)
        if adapter is None:
            raise UsageError(f"There is no agent {agent!r}.", hint=f"Known: {', '.join(sorted(self._adapters))}.")
        return adapter

    def agents(self) -> list[str]:
        return sorted(self._adapters)

    async def default_model(self, agent: str) -> str | None:
        """What answers when nothing names a model; None: not known before its first run."""
        configured = self.agent_settings(agent).model
        return configured or await self.database.call(lambda store: store.fact(default_model_fact(agent)))

    def find(self, agent: str) -> Binary:
        return self.adapter(agent).find(self.agent_settings(agent).path, self.around.environ)

    async def abilities(self, agent: str, binary: Binary) -> Abilities:
        return await probe.abilities(
            self.adapter(agent), binary, self.database, self.around.environ, self.around.clock()
        )

    def agent_settings(self, agent: str) -> AgentSettings:
        return self.settings.agents.get(agent, AgentSettings())

    async def start(self, ask: Ask, also: Callable[[Store, Run], None] | None = None) -> LiveTurn:
        """The prompt is on disk when this returns; the run goes on by itself.

        `also` is what a host has to write about it, in the same transaction: both are stored, or neither.
        """
        binary = self.find(ask.agent)
        launching.prepare()
        token = self.around.new_id()
        model = named_model(ask, ask.thread, self.agent_settings(ask.agent).model)
        if model is None:
            model = await self.database.call(lambda store: self._model(ask, store))
        check_word("model", model)  # wherever it comes from: a flag, the thread, the settings, the store
        run = new_run(ask, model, self.around)
        leases.ours.add(run.id)
        try:
            try:
                leased = await self._open_run(ask, run, token, also)
            except Busy:
                if not await self.recover():
                    raise
                leased = await self._open_run(ask, run, token, also)  # what was in the way had died
        except BaseException:
            leases.ours.discard(run.id)
            raise
        return self._carry_out(ask, run, binary, token, leased=leased)

    async def _open_run(self, ask: Ask, run: Run, token: str, also: Callable[[Store, Run], None] | None) -> bool:
        return await self.database.atomically(
            lambda store: queue.open_run(store, ask, run, token, self.around, self.settings, also),
            lambda store: store.run(run.id) is not None,
        )

    def _carry_out(
        self, ask: Ask, run: Run, binary: Binary, token: str, *, leased: bool, earlier: Sequence[Noted] = ()
    ) -> LiveTurn:
        turn = LiveTurn(
            ask,
            run,
            self.adapter(ask.agent),
            binary,
            self.database,
            self.settings,
            self.around,
            self._adapters.get,
            earlier,
        )
        self._live[run.id] = turn
        turn.start(token, self._ended, leased=leased)
        return turn

    def _ended(self, turn: LiveTurn) -> None:
        self._live.pop(turn.run.id, None)
        leases.ours.discard(turn.run.id)
        if turn.is_left:
            task = asyncio.create_task(self._tidy_up(turn.run.id))
            self._tidying.add(task)
            task.add_done_callback(self._tidying.discard)

    async def _tidy_up(self, run_id: RunId) -> None:
        """Until a run that was left is at its end: others take it for alive as long as this process is."""
        wait_s = self.settings.poll_s
        while True:
            await asyncio.sleep(wait_s)
            with contextlib.suppress(StoreError):
                await self.recover()
                run = await self.database.call(lambda store: store.run(run_id))
                if run is None or run.status not in LIVE or run.owner is None:
                    return
            wait_s = min(2 * wait_s, TIDY_MOST_S)

    def is_held(self, store: Store, thread_id: ThreadId) -> bool:
        """A run that is alive has the thread."""
        held = store.lease(leases.thread_key(thread_id))
        return held is not None and not leases.is_dead(store, held, self.around)

    async def take_up(self, may_run: Callable[[Thread], bool] | None = None) -> list[LiveTurn]:
        """Carries on the queued runs that a dead daemon left behind. Called by daemons only.

        One whose agent is not to be found just now, or that this daemon may not run, goes on waiting.
        """
        taken = []
        for run in await self.database.call(queue.left_behind):
            try:
                turn = await self._take_up(run, may_run)
            except (AgentMissing, StoreError) as error:
                log.warning("a queued run waits: %s", error.message)
            except ClewError as error:
                await self.database.atomically(partial(self._fail_unstarted, run, error.message))
            else:
                taken += [turn] if turn is not None else []
        return taken

    def _fail_unstarted(self, run: Run, message: str, store: Store) -> None:
        queue.end_unstarted(store, run, RunStatus.FAILED, message, self.around.clock())

    async def _take_up(self, run: Run, may_run: Callable[[Thread], bool] | None) -> LiveTurn | None:
        binary = self.find(run.agent)
        check_word("model", run.model)
        thread = await self.database.call(lambda store: store.require_thread_by_id(run.thread_id))
        if may_run is not None and not may_run(thread):
            return None
        if run.id in self._live:
            return None
        token = self.around.new_id()
        leases.ours.add(run.id)
        leased: bool | None = None
        try:
            leased, stored = await self.database.call(
                lambda store: (
                    queue.take_up(store, run, token, self.around, self.settings),
                    store.events(run.id),
                )
            )
        finally:
            if leased is None:
                leases.ours.discard(run.id)
        if leased is None:
            return None
        earlier = [Noted(each.seq, each.at, each.event) for each in stored if each.event is not None]
        asked = run.asked
        ask = Ask(
            thread=thread,
            text=run.prompt,
            agent=run.agent,
            model=run.model,
            standing=thread.standing,
            force_fresh=asked.force_fresh,
            retry_of=asked.retry_of,
            enable_resume=asked.enable_resume,
            timeout_s=asked.timeout_s,
            not_before=asked.not_before,
            continues=asked.continues,
            lasting=True,
        )
        return self._carry_out(ask, run, binary, token, leased=leased, earlier=earlier)

    async def outlook(self, ask: Ask) -> Decision:
        """What the next turn would be: decided as it will be, and nothing stored."""
        from clew.engine import outlook

        return await outlook.outlook(self, ask)

    async def next_sessions(self, asks: Sequence[Ask]) -> list[SessionId | None]:
        """That many turns would resume, all of one agent; None: of a fresh one. Raises AgentMissing."""
        from clew.engine import outlook

        return await outlook.sessions(self, asks)

    def _model(self, ask: Ask, store: Store) -> str | None:
        return model_for(ask, ask.thread, self.agent_settings(ask.agent).model, store)

    async def follow(self, run_id: RunId, after: int = 0) -> AsyncGenerator[StoredEvent, None]:
        """A run's events after that one as they become durable, to the last; of a run of any process."""
        turn = self._live.get(run_id)
        if turn is not None:
            async for noted in turn.events(after=after, stored=True):
                after = noted.seq
                yield StoredEvent(noted.seq, noted.at, noted.event.kind, noted.event, to_body(noted.event))
                if isinstance(noted.event, RunEnded):
                    return
        while True:
            run = await self.database.call(lambda store: store.run(run_id))
            while batch := await self.database.read_large(partial(_events, run_id, after)):
                while batch:
                    after = batch[0].seq
                    yield batch.pop(0)  # and not kept here: whoever is told may take long, and hold it otherwise
            if run is None or run.status not in LIVE:
                return  # it was over before its events were read, so they are all there
            await asyncio.sleep(self.settings.poll_s)

    async def cancel(self, run_id: RunId, *, hold: bool = True) -> bool:
        """Asks a run of any process to stop. False: it is over already.

        When it had begun, a daemon's prompts that were queued behind it are held until they are sent, unless `hold`
        is False.
        """

        def ask_to_stop(store: Store) -> bool:
            run = store.require_run(run_id)
            if run.status is RunStatus.QUEUED and run.owner is None:
                queue.end_unstarted(store, run, RunStatus.CANCELLED, queue.CANCELLED_WAITING, self.around.clock())
                return True
            if run.status in LIVE:
                now = self.around.clock()
                return queue.stop(store, run, now) if hold else store.request_cancel(run_id, now)
            still_open = [question for question in store.questions_of_run(run_id) if question.is_open]
            for question in still_open:  # of a run that died with Clew: nobody need answer it
                store.close_question(question, QuestionState.WITHDRAWN, self.around.clock())
            return bool(still_open)

        asked = await self.database.atomically(ask_to_stop)
        self._look(run_id)
        return asked

    async def send(self, run_id: RunId) -> Run:
        """Starts a queued run before the others that wait, held or not, and stops the one that is going on.

        It starts in the process that has it; one that nobody has, with the next daemon. Raises Conflict once it has
        started.
        """
        run = await self.database.atomically(
            lambda store: queue.send(store, store.require_run(run_id), self.around.clock())
        )
        self._look(run_id)
        return run

    def _look(self, run_id: RunId) -> None:
        """If it waits in this process, it need not wait any longer to hear of it."""
        turn = self._live.get(run_id)
        if turn is not None:
            turn.look()

    async def adopt(self, thread: Thread, agent: str, session_id: str, *, model: str | None = None) -> Adopted:
        """Makes a session that was begun without Clew the thread's own, as far as its file tells what it holds."""
        from clew.engine import adoption

        found = await self.look_at(agent, thread.cwd, session_id)
        if found is None:
            return adoption.Adopted(None, ())
        return await self.database.atomically(
            lambda store: adoption.adopt(store, thread, found, session_id, model, self.around)
        )

    async def look_at(self, agent: str, work_dir: str, session_id: str) -> Found | None:
        """A session's file, to adopt it in a transaction of the caller's own. None: there is none, or nothing in it."""
        from clew.engine import adoption

        adapter, binary = self.adapter(agent), self.find(agent)
        runtime = runtime_of(adapter, binary, await self.abilities(agent, binary), self.around)
        return await asyncio.to_thread(adoption.look_at, adapter, runtime, work_dir, session_id)

    def beside(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """A host's own work with runs that it started. Runs are ended before the store is closed, and so is this."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        return task

    async def close(self) -> None:
        """Ends what still runs, all at once, and closes the store."""
        await self._abandon_all()
        while self._beside:  # a host's work may have started one more run meanwhile
            await asyncio.wait(set(self._beside), timeout=self.settings.poll_s)
            await self._abandon_all()
        for task in list(self._tidying):  # the next start does it
            task.cancel()
        await asyncio.gather(*self._tidying, return_exceptions=True)
        self.database.close()

    async def _abandon_all(self) -> None:
        turns = list(self._live.values())
        async with asyncio.TaskGroup() as group:
            for turn in turns:
                group.create_task(turn.abandon())
