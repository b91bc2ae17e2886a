"""One turn end to end.

The order is the point (laws 4 to 7): prompt durable, thread leased, decision with its provisional pin durable, process
spawned, events durable as they stream, outcome classified, pin moved and answer stored in one transaction. A crash
between any two steps leaves a state that recovery and the next decision can read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from clew.agents.adapter import Adapter, Binary
from clew.core.answer import GrowingAnswer
from clew.core.decision import Abilities, Fresh, Policy, shorter
from clew.core.events import AttemptStarted, Event, FellBack, RunEnded, RunQueued, SessionStarted
from clew.core.outcome import Outcome, falls_back
from clew.core.pins import Runtime
from clew.core.record import replace
from clew.core.run import IllegalStatus, Run, RunStatus
from clew.engine import queue, recovery
from clew.engine.agent_process import AgentProcess
from clew.engine.attempt import AttemptEnd, Budget, LiveAttempt, Watched
from clew.engine.closing import Closing, Finished
from clew.engine.database import Database
from clew.engine.faults import passed
from clew.engine.journal import Journal, Noted
from clew.engine.leases import Leases
from clew.engine.plan import Plan, Planner
from clew.engine.probe import abilities
from clew.engine.settings import Ask, EngineSettings, Surroundings
from clew.errors import AgentFailed, Cancelled, ClewError
from clew.store.store import Store


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
    ) -> None:
        self.ask = ask
        self.run = run
        self._adapter = adapter
        self._binary = binary
        self._database = database
        self._settings = settings
        self._around = around
        self._adapter_of = adapter_of
        self._journal = Journal(database, run.id, around.clock)
        self._leases = Leases(database, settings, around, run.id)
        self._answer = GrowingAnswer()
        self._closing = Closing(run, adapter, around, self._answer)
        self._asked_to_stop = False
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[Finished] | None = None

    def start(self, token: str, on_end: Callable[[LiveTurn], None], *, leased: bool) -> None:
        """`token`: of the thread's lease when it was free already (`leased`), else of the waiting run's own."""
        self._task = asyncio.create_task(self._carry_out(token, leased))
        self._task.add_done_callback(lambda _: on_end(self))

    def cancel(self) -> None:
        """From this process; from another one, through the store."""
        self._asked_to_stop = True

    def kill(self) -> None:
        """A cancel that gives the agent no time."""
        self.cancel()
        self._hurry.set()

    def events(self) -> AsyncIterator[Noted]:
        return self._journal.listen()

    async def finish(self) -> Finished:
        """Waits for the end. Cancelling the wait does not cancel the run."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    async def abandon(self) -> None:
        """Ends the run as cancelled and waits until nothing of it is left."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _carry_out(self, token: str, leased: bool) -> Finished:
        try:
            async with self._leases.kept():
                return await self._hold_and_run(token, leased)
        except ClewError as error:
            return await self._ended(RunStatus.FAILED, Outcome.FAILED, error)
        except Exception as error:
            await self._ended(RunStatus.FAILED, Outcome.FAILED, AgentFailed(f"A fault in Clew itself: {error!r}"))
            raise
        finally:
            await self._journal.close()

    async def _hold_and_run(self, token: str, leased: bool) -> Finished:
        passed("prompt_stored")
        if leased:
            self._leases.holds_thread(self.run.thread_id, token)
        else:
            self._leases.holds(token)
            await self._wait_for_thread()
        passed("lease_taken")
        await self._leases.take_slot(lambda: self._journal.note(RunQueued("slot")), self._is_cancelled)
        if await self._is_cancelled():
            error = Cancelled("The run was cancelled while it waited.", hint="Nothing was sent to the agent.")
            return await self._ended(RunStatus.CANCELLED, Outcome.CANCELLED, error)
        return await self._run_attempts()

    async def _wait_for_thread(self) -> None:
        """Until the runs before this one are over, or it is cancelled."""
        token = self._around.new_id()
        told: str | None = None
        while not await self._is_cancelled():
            holder = await self._database.call(
                lambda store: queue.take_turn(store, self.run, token, self._around, self._settings)
            )
            if holder is None:
                self._leases.holds_thread(self.run.thread_id, token)
                return
            if holder != told:
                told = holder
                await self._journal.note(RunQueued("thread", held_by=holder))
            await recovery.recover_dead(self._database, self._adapter_of, self._around, self._settings)
            await asyncio.sleep(self._settings.poll_s)

    async def _run_attempts(self) -> Finished:
        can = await abilities(self._adapter, self._binary, self._database, self._around.environ, self._around.clock())
        policy = self._policy()
        planner = Planner(
            self._adapter, can, self._runtime(can), policy, self._around, self.ask, self.run, self._leases.fence
        )
        plan = await self._database.call(planner.first)
        passed("decided")
        watched = self._watched()
        end = await self._attempt(plan, can, watched)
        reason = falls_back(end.outcome, resumed=plan.attempt.resumed, tool_ran=end.tool_ran)
        if reason is None or self._leases.lost.is_set():
            return await self._conclude(plan, end)
        await self._journal.note(FellBack(reason))
        await self._database.atomically(lambda store: self._leave(store, plan, end))
        if end.outcome is Outcome.OVERFLOW:
            policy = shorter(policy)
        second = await self._database.call(lambda store: planner.fallback(store, plan, reason, policy))
        return await self._conclude(second, await self._attempt(second, can, watched))

    def _leave(self, store: Store, plan: Plan, end: AttemptEnd) -> None:
        self._leases.fence(store)
        self._closing.leave(store, plan, end)

    async def _attempt(self, plan: Plan, can: Abilities, watched: Watched) -> AttemptEnd:
        decision = plan.decision
        omitted = decision.omitted if isinstance(decision, Fresh) else 0
        await self._note(AttemptStarted(plan.attempt.number, plan.attempt.resumed, decision.reason, omitted))
        process = await AgentProcess.spawn(
            self._adapter.command(self._binary, can, plan.launch),
            cwd=plan.request.work_dir,
            environ=self._adapter.environment(self._around.environ),
            mark=plan.attempt.id,
        )
        passed("spawned")
        try:
            await self._database.call(
                lambda store: store.update_attempt(plan.attempt.id, pid=process.pid, pid_started=process.started)
            )
            live = LiveAttempt(self._adapter, self._settings, watched, process)
            line = self._adapter.prompt_line(decision.prompt, plan.attempt.user_uuid)
        except BaseException:
            await process.end(grace_s=0)
            raise
        return await live.carry_out(line, resumed=plan.attempt.resumed)

    async def _conclude(self, plan: Plan, end: AttemptEnd) -> Finished:
        passed("outcome_known")
        await self._journal.flush()
        finished, last_words = await self._database.atomically(lambda store: self._write_end(store, plan, end))
        passed("outcome_stored")
        for noted in last_words:
            await self._journal.tell(noted)
        return finished

    def _write_end(self, store: Store, plan: Plan, end: AttemptEnd) -> tuple[Finished, list[Noted]]:
        """The last events are part of the transaction: a run that has ended says so, whatever dies next."""
        self._leases.fence(store)
        finished, warning = self._closing.conclude(store, plan, end)
        run = finished.run
        message = finished.error.message if finished.error else ""
        last_words = [RunEnded(run.status, end.outcome, run.usage, run.cost_usd, message)]
        noted = [self._journal.number(event) for event in ([warning] if warning else []) + last_words]
        store.append_events(run.id, [(each.seq, each.at, each.event) for each in noted])
        return finished, noted

    def _watched(self) -> Watched:
        timeout_s = self._settings.timeout_s if self.ask.timeout_s is None else self.ask.timeout_s
        return Watched(
            note=self._note,
            is_cancelled=self._is_cancelled,
            set_waiting=self._set_waiting,
            hurry=self._hurry,
            lost=self._leases.lost,
            budget=Budget(timeout_s),
            permissions=self.ask.thread.permissions,
            person=self.ask.person,
        )

    async def _note(self, event: Event) -> None:
        self._answer.feed(event)
        if isinstance(event, SessionStarted):
            self._closing.session_id = event.session_id
            if self._closing.model is None and event.model:
                self._closing.model = event.model
        await self._journal.note(event)

    async def _is_cancelled(self) -> bool:
        return self._asked_to_stop or await self._database.call(lambda store: store.cancel_requested(self.run.id))

    async def _set_waiting(self, waiting: bool) -> None:
        status = RunStatus.WAITING if waiting else RunStatus.RUNNING
        await self._database.call(lambda store: store.update_run(self.run.id, status=status))

    def _policy(self) -> Policy:
        policy = replace(self._settings.policy, visibility=self.ask.thread.visibility)
        if self.ask.enable_resume is not None:
            policy = replace(policy, enable_resume=self.ask.enable_resume)
        return policy

    def _runtime(self, can: Abilities) -> Runtime:
        return Runtime(
            agent=self._adapter.name,
            binary=self._binary.path,
            product=can.product,
            can_resume=can.resume,
            config_dir=self._adapter.config_dir(self._around.environ),
        )

    async def _ended(self, status: RunStatus, outcome: Outcome, error: ClewError) -> Finished:
        """An end that no agent had a part in; the run must not stay open."""
        try:
            run = await self._database.call(
                lambda store: store.update_run(
                    self.run.id, status=status, outcome=outcome, error=error.message, ended_at=self._around.clock()
                )
            )
            await self._journal.note(RunEnded(status, outcome, message=error.message))
        except (ClewError, IllegalStatus):
            run = replace(self.run, status=status, error=error.message)  # the store failed, or the run is not ours
        return Finished(run, self._answer.text, error)
