"""One turn end to end.

The order is the point (laws 4 to 7): prompt durable, thread leased, decision with its provisional pin durable, process
spawned, events durable as they stream, outcome classified, pin moved and answer stored in one transaction. A crash
between any two steps leaves a state that recovery and the next decision can read.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from clew.agents.adapter import Adapter, Binary, Hiding, Launch
from clew.core.answer import GrowingAnswer
from clew.core.decision import Abilities, Fresh, shorter
from clew.core.events import (
    AttemptStarted,
    Event,
    FellBack,
    QuestionAsked,
    QuestionWithdrawn,
    RunQueued,
    SessionStarted,
    Warned,
)
from clew.core.outcome import Outcome, falls_back
from clew.core.permissions import Answer, cannot_ask
from clew.core.record import replace
from clew.core.run import Run, RunStatus, status_after
from clew.core.thread import Permissions, Trust
from clew.engine import git, namespaces, queue, recovery
from clew.engine.agent_process import AgentProcess, check_work_dir
from clew.engine.attempt import AttemptEnd, Budget, LiveAttempt, Watched
from clew.engine.closing import Closing, Finished
from clew.engine.database import Database, never
from clew.engine.ending import Ending
from clew.engine.failures import NOT_ASKED
from clew.engine.faults import passed
from clew.engine.journal import Journal, Noted
from clew.engine.leases import Leases, slot_prefix
from clew.engine.patience import Patient
from clew.engine.plan import Plan, Planner, policy_of, runtime_of
from clew.engine.probe import abilities
from clew.engine.settings import Ask, EngineSettings, Slots, Surroundings
from clew.errors import AgentFailed, Cancelled, ClewError, StoreError
from clew.store.store import Store

FURTHER_BACK = 10  # times as long between two looks: in a long line only the first need be quick


class LiveTurn:
    """A run of this process. `events()` may be listened to by many; `finish()` waits for the end."""

    def __init__(
        self,
        ask: Ask,
        run: Run,
        adapter: Adapter,
        binary: Binary,
        database: Database,
        settings: EngineSettings,
        around: Surroundings,
        adapter_of: Callable[[str], Adapter | None],
        earlier: Sequence[Noted] = (),
    ) -> None:
        self.ask = ask
        self.run = run
        self._adapter = adapter
        self._binary = binary
        self._database = Patient(database, settings.patience_s)
        self._settings = settings
        self._around = around
        self._adapter_of = adapter_of
        self._journal = Journal(self._database, run.id, around.clock, earlier)
        self._leases = Leases(self._database, settings, around, run.id)
        self._answer = GrowingAnswer()
        self._closing = Closing(run, adapter, around, self._answer)
        self._ending = Ending(run, self._database, self._journal, self._leases, self._closing)
        self._drafts: list[Plan] = []
        self._asked_to_stop = False
        self._stopped_at: float | None = None  # when somebody in this process asked it to
        self._has_turn = False  # the thread is its own
        self._abandoned = False  # this process ends; nobody asked the run to
        self._hurry = asyncio.Event()
        self._look = asyncio.Event()  # it may be its turn: it need not wait for the next look
        self._task: asyncio.Task[Finished] | None = None

    def start(self, token: str, on_end: Callable[[LiveTurn], None], *, leased: bool) -> None:
        """`token`: of the thread's lease when it was free already (`leased`), else of the waiting run's own."""
        self._task = asyncio.create_task(self._carry_out(token, leased))
        self._task.add_done_callback(lambda _: on_end(self))

    def cancel(self) -> None:
        """From this process; from another one, through the store."""
        self._asked_to_stop = True
        if self._stopped_at is None:
            self._stopped_at = self._around.clock()

    def kill(self) -> None:
        """A cancel that gives the agent no time."""
        self.cancel()
        self._hurry.set()

    def look(self) -> None:
        """Whether it is its turn now."""
        self._look.set()

    @property
    def is_left(self) -> bool:
        """It is over, and the store does not know: recovery has to bring it to its end."""
        return self._ending.is_left

    @property
    def has_ended(self) -> bool:
        """Its last event has come."""
        return self._journal.has_ended

    def events(self, *, after: int = 0, stored: bool = False) -> AsyncIterator[Noted]:
        return self._journal.listen(after=after, stored=stored)

    async def finish(self) -> Finished:
        """Waits for the end. Cancelling the wait does not cancel the run."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    async def abandon(self) -> None:
        """Ends the run and waits until nothing of it is left. A lasting one that has not begun is left to the next."""
        self._abandoned = True
        self.cancel()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _carry_out(self, token: str, leased: bool) -> Finished:
        try:
            async with self._leases.kept():
                return await self._ended(token, leased)
        finally:
            await self._journal.close()

    async def _ended(self, token: str, leased: bool) -> Finished:
        """Its end is written while the thread is still its own."""
        try:
            return await self._hold_and_run(token, leased)
        except StoreError as error:
            return self._ending.left(error)
        except ClewError as error:
            return await self._ending.failed(RunStatus.FAILED, Outcome.FAILED, error)
        except Exception as error:
            fault = AgentFailed(f"A fault in Clew itself: {error!r}")
            await self._ending.failed(RunStatus.FAILED, Outcome.FAILED, fault)
            raise

    async def _hold_and_run(self, token: str, leased: bool) -> Finished:
        passed("prompt_stored")
        if leased:
            self._leases.holds_thread(self.run.thread_id, token)
        else:
            self._leases.holds(token)
            await self._wait_for_thread()
        passed("lease_taken")
        self._has_turn = leased or self._has_turn
        await self._wait_for_limit()
        here = Slots(slot_prefix(self._around.owner), self._settings.max_agents)
        for slots in (here, self.ask.slots):
            if slots is not None and not self._asked_to_stop:
                await self._leases.take_slot(slots, lambda: self._journal.note(RunQueued("slot")), self._is_cancelled)
        if self._is_left_to_the_next and not await self._is_cancelled_by_someone():
            return await self._leave_queued()
        if await self._is_cancelled():
            await self._hold_those_behind()
            error = Cancelled(queue.CANCELLED_WAITING, hint=NOT_ASKED)
            return await self._ending.failed(RunStatus.CANCELLED, Outcome.CANCELLED, error)
        if self.run.asked.continues is not None and not await self._database.call(
            lambda store: queue.still_continues(store, self.run)
        ):
            error = Cancelled(
                "What this run was to continue after the usage limit is no longer the last thing asked in the thread.",
                hint="Nothing was sent to the agent. Ask again.",
            )
            return await self._ending.failed(RunStatus.CANCELLED, Outcome.CANCELLED, error)
        return await self._run_attempts()

    async def _wait_for_thread(self) -> None:
        """Until the runs before this one are over and nothing holds it, or it is cancelled."""
        token = self._around.new_id()
        told: str | None = None
        while not await self._is_cancelled():
            holder, is_next = await self._database.atomically(
                lambda store: (
                    queue.take_turn(store, self.run, token, self._around, self._settings),
                    queue.is_next(store, self.run),
                ),
                never,
            )
            if holder is None:
                self._leases.holds_thread(self.run.thread_id, token)
                self._has_turn = True
                return
            if holder != told:
                told = holder
                until = await self._database.call(partial(_waits_until, holder))
                is_held = holder == self.run.id
                await self._journal.note(RunQueued("person") if is_held else RunQueued("thread", holder, until))
            await recovery.recover_dead(self._database, self._adapter_of, self._around, self._settings)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.poll_s * (1 if is_next else FURTHER_BACK)):
                    await self._look.wait()
            self._look.clear()

    async def _wait_for_limit(self) -> None:
        """Until the usage limit has reset, or the run is sent or cancelled. The thread is this run's meanwhile."""
        until = self.ask.not_before
        if until is None or until <= self._around.clock():
            return
        await self._journal.note(RunQueued("limit", until=until))
        while until is not None and not await self._is_cancelled():
            left_s = until - self._around.clock()
            if left_s <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, self._settings.poll_s * FURTHER_BACK)):
                    await self._look.wait()
            self._look.clear()
            until = await self._database.call(lambda store: store.require_run(self.run.id).asked.not_before)

    async def _run_attempts(self) -> Finished:
        check_work_dir(self.ask.thread.cwd)
        can = await abilities(self._adapter, self._binary, self._database, self._around.environ, self._around.clock())
        policy = policy_of(self.ask, self._settings)
        runtime = runtime_of(self._adapter, self._binary, can, self._around)
        given = self._around, self.ask, self.run, self._leases.fence, self._drafts.append
        planner = Planner(self._adapter, can, runtime, policy, *given)
        plan = await self._database.surely(planner.first, partial(self._committed, 1))
        passed("decided")
        watched = self._watched()
        end = await self._attempt(plan, can, watched)
        tool_ran = end.tool_ran or await self._database.call(lambda _: self._closing.tool_called(end))
        reason = falls_back(
            end.outcome, resumed=plan.attempt.resumed, tool_ran=tool_ran, can_shorten=planner.can_shorten(plan)
        )
        if reason is None or self._leases.lost.is_set():
            return await self._conclude(plan, end)
        await self._journal.note(FellBack(reason))
        await self._ending.leave(plan, end)
        if end.outcome is Outcome.OVERFLOW:
            policy = shorter(policy)
        second = await self._database.surely(
            lambda store: planner.fallback(store, plan, reason, policy), partial(self._committed, 2)
        )
        end = await self._attempt(second, can, watched)
        return await self._conclude(second, end)

    async def _conclude(self, plan: Plan, end: AttemptEnd) -> Finished:
        await self._hold_those_behind()
        return await self._ending.concluded(plan, end, self._status(end))

    async def _hold_those_behind(self) -> None:
        """When somebody in this process stopped it; a stop through the store has done so already."""
        at = self._stopped_at
        if at is None or not self._has_turn or self._abandoned:
            return

        def hold(store: Store) -> None:
            if not store.cancel_requested(self.run.id):
                queue.hold(store, self.run, at)

        await self._database.atomically(hold, never)

    def _committed(self, number: int, store: Store) -> tuple[Plan] | None:
        """The plan of that attempt, if it is in the store."""
        known = {attempt.id for attempt in store.attempts(self.run.id)}
        found = [plan for plan in self._drafts if plan.attempt.number == number and plan.attempt.id in known]
        return (found[0],) if found else None

    async def _attempt(self, plan: Plan, can: Abilities, watched: Watched) -> AttemptEnd:
        decision = plan.decision
        omitted = decision.omitted if isinstance(decision, Fresh) else 0
        argv = self._adapter.command(self._binary, can, await self._hiding(plan, can))
        environ = await self._environment(plan.launch)
        self._closing.begin(plan)
        started = AttemptStarted(plan.attempt.number, plan.attempt.resumed, decision.reason, omitted)
        cwd, mark = plan.request.work_dir, plan.attempt.id
        try:
            process = await AgentProcess.spawn(argv, cwd=cwd, environ=environ, mark=mark)
        except ClewError:
            await self._note(started)
            raise
        passed("spawned")
        try:
            # The process is known before anything is sent to it: whoever recovers the run then ends it.
            known = {"pid": process.pid, "pid_started": process.started}
            await self._note(started, also=lambda store: store.update_attempt(plan.attempt.id, **known))
            for warning in plan.warnings:
                await self._note(warning)
            if not can.asks and not plan.launch.resume and plan.launch.permissions is Permissions.ASK:
                await self._note(Warned("cannot_ask", cannot_ask(self._adapter.name)))
            live = LiveAttempt(self._adapter, can, plan.launch, self._settings, watched, process)
            line = self._adapter.prompt_line(decision.prompt, plan.attempt.user_uuid)
        except BaseException:
            await process.end(grace_s=0)
            raise
        return await live.carry_out(line, resumed=plan.attempt.resumed)

    async def _hiding(self, plan: Plan, can: Abilities) -> Launch:
        """With what its tools must not read. Where its sandbox cannot be made, no command runs in it either."""
        launch = replace(plan.launch, config_dir=plan.request.runtime.config_dir, hidden=self._settings.hidden)
        needs = launch.hidden and self._adapter.hides(can, launch.permissions) is Hiding.SANDBOX
        return replace(launch, hidden=()) if needs and not await namespaces.available() else launch

    async def _environment(self, launch: Launch) -> Mapping[str, str]:
        """The agent's. Commands that the repository's git settings name run only where the user trusts them."""
        environ = self._adapter.environment(self._around.environ)
        return environ if launch.trust is Trust.PROJECT else await git.agent_environment(environ, launch.work_dir)

    @property
    def _is_left_to_the_next(self) -> bool:
        """This process ends, and the run was to outlive it: nobody cancelled it."""
        return self._abandoned and self.ask.lasting

    def _status(self, end: AttemptEnd) -> RunStatus:
        if self._is_left_to_the_next and end.outcome is Outcome.CANCELLED:
            return RunStatus.INTERRUPTED  # its open questions stay open for the next daemon
        return status_after(end.outcome)

    def _watched(self) -> Watched:
        timeout_s = self._settings.timeout_s if self.ask.timeout_s is None else self.ask.timeout_s
        return Watched(
            note=self._note,
            is_cancelled=self._is_told_to_stop,
            go_on=self._go_on,
            hurry=self._hurry,
            lost=self._leases.lost,
            budget=Budget(timeout_s),
            permissions=self.ask.thread.permissions,
            allowed_tools=self.ask.allowed_tools,
            allowed_by=self.ask.allowed_by,
            person=self.ask.person,
            waits=self.ask.lasting,
            reply=self._reply,
        )

    async def _note(
        self, event: Event, *, waiting: bool = False, also: Callable[[Store], object] | None = None
    ) -> None:
        if isinstance(event, QuestionWithdrawn) and self._is_left_to_the_next:
            return  # the agent takes it back because we stop it: it is still open for the person
        self._answer.feed(event)
        if isinstance(event, SessionStarted) and self._closing.hear(event):
            await self._database.atomically(self._adopt, never)
        await self._journal.note(event, self._wait if waiting else also)

    def _wait(self, store: Store) -> None:
        self._leases.fence(store)
        store.update_run(self.run.id, status=RunStatus.WAITING)

    def _adopt(self, store: Store) -> None:
        self._leases.fence(store)
        self._closing.adopt(store)

    async def _is_told_to_stop(self) -> bool:
        """While it is going on: a store that is away keeps neither its clocks nor a cancel from here waiting."""
        if self._asked_to_stop:
            return True
        return await self._database.glance(lambda store: store.cancel_requested(self.run.id), else_=False)

    async def _is_cancelled(self) -> bool:
        return self._asked_to_stop or await self._is_cancelled_by_someone()

    async def _is_cancelled_by_someone(self) -> bool:
        return await self._database.call(lambda store: store.cancel_requested(self.run.id))

    async def _leave_queued(self) -> Finished:
        """Nobody's from now on: the next daemon takes it up."""
        run = await self._database.atomically(lambda store: store.update_run(self.run.id, owner=None), never)
        return Finished(run, "", Cancelled("The run is still queued.", hint="It goes on with the next daemon."))

    async def _reply(self, question: QuestionAsked) -> Answer | None:
        """None as well when the store is away: the question stays open."""
        return await self._database.glance(
            lambda store: store.question(self.run.id, question.question_id).reply, else_=None
        )

    async def _go_on(self) -> None:
        def go_on(store: Store) -> None:
            self._leases.fence(store)
            store.update_run(self.run.id, status=RunStatus.RUNNING)

        await self._database.atomically(go_on, never)


def _waits_until(run_id: str, store: Store) -> float | None:
    """When a run starts that has the thread and waits for a usage limit to reset; else None."""
    run = store.run(run_id)
    return run.asked.not_before if run is not None and run.status is RunStatus.QUEUED else None
