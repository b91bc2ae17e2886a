"""One turn end to end. `LiveTurn._steps` is its table of contents.

The order of the steps is what keeps laws 4 to 7: the prompt is stored; the thread is leased; the decision is stored
with its provisional pin; the process is spawned; events are stored as they stream; the outcome is classified; the pin
is moved and the answer stored in one transaction. A crash between any two steps leaves a state that recovery and the
next decision can read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

from clew.agents.adapter import Adapter, Binary, CopyDialog, ImageFile, LaunchProfile, PathProtection
from clew.core.costs.usage import NO_USAGE
from clew.core.decision import Fresh, Reason, Resume, with_shorter_transcript
from clew.core.ids import SessionId
from clew.core.outcome import Outcome, falls_back
from clew.core.record import replace
from clew.core.runs.answer import AnswerBuilder
from clew.core.runs.events import (
    AttemptStarted,
    Event,
    FellBack,
    QuestionWithdrawn,
    SessionStarted,
    Warned,
)
from clew.core.runs.permissions import cannot_ask_message
from clew.core.runs.run import Run, RunStatus, status_after
from clew.core.runs.tool_rules import ToolRule
from clew.core.thread import Permissions, Trust
from clew.engine import queue
from clew.engine.attempt import AttemptEnd, AttemptObserver, LiveAttempt, not_resumed, stopped_before_prompt
from clew.engine.faults import passed
from clew.engine.finish.ending import EndOfRun
from clew.engine.finish.results import FinishedRun, RunResults
from clew.engine.journal import Journal, JournalEntry
from clew.engine.leases import HeldLeases
from clew.engine.planning.plan import AttemptPlan, Planner, runtime_of
from clew.engine.process.agent import AgentProcess, check_work_dir
from clew.engine.process.probe import abilities
from clew.engine.questions import AgentQuestions
from clew.engine.recovery import AdapterOf
from clew.engine.request import TurnRequest, check_images, policy_of
from clew.engine.rules.shown import shown_rules, write_copies
from clew.engine.sessions.observation import used
from clew.engine.settings import EngineSettings, RuntimeContext
from clew.engine.stopping import StopConditions
from clew.engine.storage.async_store import IDEMPOTENT, AsyncStore
from clew.engine.storage.store_retry import RetryingStore
from clew.engine.waiting import StartWait
from clew.engine.warm.pool import WarmAgents
from clew.engine.warm.supply import AgentSupply
from clew.errors import AgentFailed, Cancelled, ClewError, StoreError
from clew.store.store import Store


class LiveTurn(AttemptObserver):
    """A run of this process. `events()` may have many listeners; `finish()` waits for the end."""

    def __init__(
        self,
        request: TurnRequest,
        run: Run,
        adapter: Adapter,
        binary: Binary,
        async_store: AsyncStore,
        settings: EngineSettings,
        context: RuntimeContext,
        adapter_of: AdapterOf,
        warm: WarmAgents,
        earlier: Sequence[JournalEntry] = (),
    ) -> None:
        self.request = request
        self.run = run
        self._adapter = adapter
        self._binary = binary
        self._store = RetryingStore(async_store, settings.store_retry_s)
        self._settings = settings
        self._context = context
        self._adapter_of = adapter_of
        self._journal = Journal(self._store, run.id, context.clock, earlier, settings.batch_s)
        self._leases = HeldLeases(self._store, settings, context, _thread_taken_over, run.id)
        timeout_s = settings.timeout_s if request.options.timeout_s is None else request.options.timeout_s
        self._stop = StopConditions(run.id, self._store, context.clock, timeout_s, self._leases)
        self._wait = StartWait(
            request, run, self._store, self._journal, self._leases, self._stop, settings, context, adapter_of
        )
        self._questions = AgentQuestions(request, run.id, adapter, self._store, settings.poll_s)
        self._answer = AnswerBuilder()
        self._results = RunResults(run, adapter, context, self._answer)
        self._end = EndOfRun(run, self._store, self._journal, self._leases, self._results)
        self._agents = AgentSupply(adapter, binary, warm, settings, context)
        self._early: asyncio.Task[Mapping[str, str]] | None = None  # reads the environment of the first attempt
        self._drafts: list[AttemptPlan] = []  # plans whose commit may or may not have succeeded
        self._task: asyncio.Task[FinishedRun] | None = None

    # For callers

    def start(self, token: str, opened: queue.Opened, on_end: Callable[[LiveTurn], None]) -> None:
        """`token` belongs to the thread's lease if the run already has it, else to its waiting lease."""
        self._task = asyncio.create_task(self._carry_out(token, opened))
        self._task.add_done_callback(lambda _: on_end(self))

    def events(self, *, after: int = 0, stored: bool = False) -> AsyncIterator[JournalEntry]:
        return self._journal.listen(after=after, stored=stored)

    async def finish(self) -> FinishedRun:
        """Waits for the end. Cancelling the wait does not cancel the run."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    def cancel(self) -> None:
        """Cancels the run from this process. Other processes do it through the store."""
        self._stop.cancel()

    def kill(self) -> None:
        """Cancels the run without giving the agent time to stop by itself."""
        self._stop.kill()

    async def abandon(self) -> None:
        """Stops the run and waits for its end. A lasting run that has not started stays queued for the next daemon."""
        self._stop.abandon()
        if self._task is not None:
            await asyncio.wait({self._task})

    def poll_now(self) -> None:
        """A run that waits checks now whether it may start."""
        self._wait.poll_now()

    @property
    def is_left_to_recovery(self) -> bool:
        """Whether the run is over, but its end could not be stored."""
        return self._end.is_left_to_recovery

    @property
    def has_ended(self) -> bool:
        """Whether the run's last event has been noted."""
        return self._journal.has_ended

    # From the prompt to the end

    async def _carry_out(self, token: str, opened: queue.Opened) -> FinishedRun:
        try:
            async with self._leases.kept():
                return await self._steps_or_failure(token, opened)
        finally:
            if self._early is not None:
                self._early.cancel()
                await asyncio.gather(self._early, return_exceptions=True)
            await self._agents.end()
            await self._journal.close()

    async def _steps_or_failure(self, token: str, opened: queue.Opened) -> FinishedRun:
        """Stores a failure too, while the run still holds the thread's lease."""
        try:
            return await self._steps(token, opened)
        except StoreError as error:
            return self._end.leave_to_recovery(error)
        except ClewError as error:
            return await self._end.fail(RunStatus.FAILED, Outcome.FAILED, error)
        except Exception as error:
            fault = AgentFailed(f"A fault in Clew itself: {error!r}")
            await self._end.fail(RunStatus.FAILED, Outcome.FAILED, fault)
            raise

    async def _steps(self, token: str, opened: queue.Opened) -> FinishedRun:
        passed("prompt_stored")
        await self._wait.for_thread(token, opened)
        passed("lease_taken")
        await self._wait.for_limit()
        await self._wait.for_slots()
        unstarted = await self._end_unstarted()
        if unstarted is not None:
            return unstarted
        self._early = asyncio.create_task(self._read_environment())  # git starts while the turn is planned
        planner = await self._planner()
        first = await self._store.commit_surely(planner.first, partial(self._stored_plan, 1))
        if first is None:
            return await self._cancelled_unstarted()
        passed("decided")
        plan, end = await self._first_attempt(first)
        if end.lost is not None:
            plan = await self._plan_again(planner, plan, end, end.lost)
            end = await self._attempt(plan)
        reason = await self._fallback_reason(planner, plan, end)
        if reason is not None:
            plan = await self._fall_back(planner, plan, end, reason)
            end = await self._attempt(plan)
        await self._hold_queued_prompts()
        finished = await self._end.conclude(plan, end, self._status(end), self._agents.store_kept)
        await self._agents.hand_back()
        return finished

    async def _end_unstarted(self) -> FinishedRun | None:
        """Ends the run if it must not start any more. None: it may start."""
        if self._is_left_to_next_daemon and not await self._stop.is_cancelled_in_store():
            return await self._leave_queued()
        if self._stop.is_cancelled_here or (self._wait.has_waited and await self._stop.is_cancelled_in_store()):
            return await self._cancelled_unstarted()
        if self.run.asked.continues is not None and not await self._store.call(
            lambda store: queue.still_continues(store, self.run)
        ):
            return await self._cancelled(
                "What this run was to continue after the usage limit is no longer the last thing asked in the thread.",
                hint="Nothing was sent to the agent. Ask again.",
            )
        return None

    async def _cancelled_unstarted(self) -> FinishedRun:
        from clew.engine.finish.failures import hint_of_unstarted

        await self._hold_queued_prompts()
        return await self._cancelled(queue.CANCELLED_WAITING, hint=hint_of_unstarted(self.run))

    async def _leave_queued(self) -> FinishedRun:
        run = await self._store.atomically(lambda store: store.runs.update(self.run.id, owner=None), IDEMPOTENT)
        return FinishedRun(run, "", Cancelled("The run is still queued.", hint="The next daemon starts it."))

    async def _cancelled(self, message: str, hint: str) -> FinishedRun:
        return await self._end.fail(RunStatus.CANCELLED, Outcome.CANCELLED, Cancelled(message, hint=hint))

    async def _planner(self) -> Planner:
        check_work_dir(self.request.thread.cwd)
        can = await abilities(self._adapter, self._binary, self._store, self._context.environ, self._context.clock())
        if self.request.images:
            check_images(self.request.agent, can)
        rules = await shown_rules(self._adapter, can, self.request, self._store, self._settings, self._context)
        return Planner(
            self._adapter,
            can,
            runtime_of(self._adapter, self._binary, can, self._context),
            policy_of(self.request, self._settings),
            self._context,
            self.request,
            self.run,
            self._adapter_of,
            self._leases.fence,
            self._drafts.append,
            rules,
        )

    def _stored_plan(self, number: int, store: Store) -> tuple[AttemptPlan] | None:
        """The plan of this attempt, if its commit succeeded."""
        known = {attempt.id for attempt in store.runs.attempts(self.run.id)}
        found = [plan for plan in self._drafts if plan.attempt.number == number and plan.attempt.id in known]
        return (found[0],) if found else None

    async def _fallback_reason(self, planner: Planner, plan: AttemptPlan, end: AttemptEnd) -> Reason | None:
        """Why this run tries a fresh session (law 6); None: it does not."""
        if falls_back(end.outcome, resumed=plan.attempt.resumed, tool_ran=end.tool_ran, can_shorten=True) is None:
            return None
        tool_ran = end.tool_ran or await self._store.call(lambda _: self._results.tool_called(end))
        is_too_long = end.outcome is Outcome.OVERFLOW
        can_shorten = is_too_long and await self._store.call(lambda _: planner.can_shorten(plan))
        reason = falls_back(end.outcome, resumed=plan.attempt.resumed, tool_ran=tool_ran, can_shorten=can_shorten)
        return None if self._leases.is_lost else reason

    async def _fall_back(self, planner: Planner, plan: AttemptPlan, end: AttemptEnd, reason: Reason) -> AttemptPlan:
        await self._journal.note(FellBack(reason))
        await self._end.store_attempt(plan, end)
        policy = with_shorter_transcript(planner.policy) if end.outcome is Outcome.OVERFLOW else planner.policy
        return await self._store.commit_surely(
            lambda store: planner.fallback(store, plan, reason, policy),
            partial(self._stored_plan, plan.attempt.number + 1),
        )

    async def _plan_again(self, planner: Planner, plan: AttemptPlan, end: AttemptEnd, why: str) -> AttemptPlan:
        """An agent that was kept gave no answer. Only its process is lost, so this is no fallback: the turn is planned
        once more, for an agent that is started anew."""
        said = f"The {self._adapter.name} process of the last turn was to answer, but {why}: another one is started."
        await self._journal.note(Warned("agent_restarted", said))
        await self._end.store_attempt(plan, end)
        return await self._store.commit_surely(
            partial(planner.again, before=plan), partial(self._stored_plan, plan.attempt.number + 1)
        )

    def _status(self, end: AttemptEnd) -> RunStatus:
        if self._is_left_to_next_daemon and end.outcome is Outcome.CANCELLED:
            return RunStatus.INTERRUPTED  # so that its open questions stay open for the next daemon
        return status_after(end.outcome)

    @property
    def _is_left_to_next_daemon(self) -> bool:
        """Whether this process gave the run up, and the run is to outlive the process."""
        return self._stop.is_abandoned and self.request.options.lasting

    async def _hold_queued_prompts(self) -> None:
        """Holds the prompts behind this run if this process stopped it. A stop through the store has held them."""
        at = self._stop.cancelled_at
        if at is None or not self._wait.has_thread or self._stop.is_abandoned:
            return

        def hold(store: Store) -> None:
            if not store.runs.cancel_requested(self.run.id):
                queue.hold(store, self.run, at)

        await self._store.atomically(hold, IDEMPOTENT)

    # One attempt

    async def _first_attempt(self, plan: AttemptPlan) -> tuple[AttemptPlan, AttemptEnd]:
        """An attempt, and the plan that it followed. If the agent copies a session by a dialog, that comes first.

        Without a copy nothing was asked, so it counts as a session that the agent refused.
        """
        launch = replace(plan.launch, config_dir=plan.request.runtime.config_dir)
        dialog = self._adapter.copy_dialog(self._binary, plan.abilities, launch)
        if dialog is None:
            return plan, await self._attempt(plan)
        self._results.attempt_began(plan)
        try:
            copy = await self._copy(dialog, plan, await self._environment())
        except AgentFailed as error:
            await self._note(_started(plan))
            return plan, not_resumed(error)
        if copy is None:
            await self._note(_started(plan))
            return plan, stopped_before_prompt()
        if self._results.session_started(SessionStarted(copy, "")):
            await self._store.atomically(self._store_session, IDEMPOTENT)
        plan = await self._store.call(lambda _: _with_copy(self._adapter, plan, copy))
        return plan, await self._attempt(plan)

    async def _copy(self, dialog: CopyDialog, plan: AttemptPlan, environ: Mapping[str, str]) -> str | None:
        """The id of the copy; None: the run must stop. Raises AgentFailed."""
        from clew.engine.process.copying import make_copy, unless_stopped

        async def must_stop() -> bool:
            return self._stop.is_lost or await self._stop.is_cancelled_so_far()

        copying = make_copy(dialog, cwd=plan.request.work_dir, environ=environ, mark=plan.attempt.id)
        return await unless_stopped(copying, must_stop, self._settings.poll_s)

    async def _attempt(self, plan: AttemptPlan) -> AttemptEnd:
        decision, can = plan.decision, plan.abilities
        problem = await write_copies(self._adapter, plan.rules)
        launch = await self._hiding(plan)
        rules_dir = launch.rules_dir if problem is None else ""
        images = await self._images(plan)
        home = self._context.environ.get("HOME", "")
        launch = replace(launch, home=home, rules_dir=rules_dir, images=images, prompt=decision.prompt)
        argv = await asyncio.to_thread(self._adapter.command, self._binary, can, launch)  # it reads the disk
        environ = await self._environment()
        self._results.attempt_began(plan)
        started = _started(plan)
        try:
            process = await self._agents.get(plan, launch, argv, environ)
        except ClewError:
            await self._note(started)
            raise
        passed("spawned")
        try:
            # The process is stored before anything is sent to it, so that recovery can end it.
            started = replace(started, warm=self._agents.was_kept)
            await self._note(started, also=partial(self._store_process, plan, process))
            for warning in plan.warnings:
                await self._note(warning)
            if problem is not None:
                await self._note(Warned("rules_left_out", problem))
            if not can.asks and not plan.launch.resume and plan.launch.permissions is Permissions.ASK:
                await self._note(Warned("cannot_ask", cannot_ask_message(self._adapter.name)))
            live = LiveAttempt(
                self._adapter,
                can,
                plan.launch,
                self._settings,
                process,
                self,
                self._questions,
                self._stop,
                plan.attempt.user_uuid,
                warm=self._agents.was_kept,
                may_stay=self._agents.may_stay,
            )
            line = await self._prompt_line(decision.prompt, plan.attempt.user_uuid, images)
        except BaseException:
            await process.end(grace_s=0)
            raise
        end = await live.carry_out(line, resumed=plan.attempt.resumed)
        if end.stays:
            self._agents.stays(process)
        return end

    def _store_process(self, plan: AttemptPlan, process: AgentProcess, store: Store) -> None:
        known = {"pid": process.pid, "pid_started": process.started}
        mark = process.mark if process.mark != plan.attempt.id else None
        store.runs.update_attempt(plan.attempt.id, mark=mark, **known)
        self._agents.store_taken(store, process)

    async def _images(self, plan: AttemptPlan) -> tuple[ImageFile, ...]:
        """The images of the prompt. Raises Conflict if the file of one is gone."""
        if not plan.request.prompt.images:
            return ()
        from clew.engine.storage.images import ImageFolder

        return await asyncio.to_thread(ImageFolder(self._settings.images).files, plan.request.prompt.images)

    async def _prompt_line(self, prompt: str, uuid: str, images: Sequence[ImageFile]) -> bytes:
        if not images:
            return self._adapter.prompt_line(prompt, uuid)
        # Images are read and encoded, which takes too long for the event loop.
        return await asyncio.to_thread(self._adapter.prompt_line, prompt, uuid, images)

    async def _hiding(self, plan: AttemptPlan) -> LaunchProfile:
        """The launch profile with the paths that the agent's tools must not read.

        Some agents hide these paths by means of a sandbox. On a machine where no sandbox can be made, such an agent
        gets no paths: without a sandbox it runs no commands.
        """
        launch = replace(plan.launch, config_dir=plan.request.runtime.config_dir, hidden_paths=self._settings.hidden)
        protection = self._adapter.path_protection(plan.abilities, launch.permissions)
        if not launch.hidden_paths or protection is not PathProtection.SANDBOX:
            return launch
        from clew.engine.process import namespaces

        return launch if await namespaces.available() else replace(launch, hidden_paths=())

    async def _environment(self) -> Mapping[str, str]:
        """The agent's environment. It is read anew for each attempt: an agent may have changed git's settings."""
        early, self._early = self._early, None
        return await (early if early is not None else self._read_environment())

    async def _read_environment(self) -> Mapping[str, str]:
        """Commands that the repository's git settings name run only with trust (law 8)."""
        environ, thread = self._adapter.environment(self._context.environ), self.request.thread
        return environ if thread.trust is Trust.PROJECT else await self._context.guard(environ, thread.cwd)

    async def event_occurred(
        self, event: Event, *, waits_for_person: bool = False, rule: ToolRule | None = None
    ) -> None:
        def store_with_it(store: Store) -> None:
            if waits_for_person:
                self._set_waiting(store)
            if rule is not None:
                self._leases.fence(store)
                store.threads.allow(self.run.thread_id, rule)

        await self._note(event, also=store_with_it if waits_for_person or rule is not None else None)

    async def questions_settled(self) -> None:
        def set_running(store: Store) -> None:
            self._leases.fence(store)
            store.runs.update(self.run.id, status=RunStatus.RUNNING)

        await self._store.atomically(set_running, IDEMPOTENT)

    def _set_waiting(self, store: Store) -> None:
        self._leases.fence(store)
        store.runs.update(self.run.id, status=RunStatus.WAITING)

    async def _note(self, event: Event, *, also: Callable[[Store], object] | None = None) -> None:
        if isinstance(event, QuestionWithdrawn) and self._is_left_to_next_daemon:
            return  # the agent withdraws the question because we stop the agent; for the person it is still open
        self._answer.feed(event)
        if isinstance(event, SessionStarted) and self._results.session_started(event):
            await self._store.atomically(self._store_session, IDEMPOTENT)
        await self._journal.note(event, also)

    def _store_session(self, store: Store) -> None:
        self._leases.fence(store)
        self._results.store_session(store)


def _started(plan: AttemptPlan) -> AttemptStarted:
    decision = plan.decision
    rewind = decision.rewind if isinstance(decision, Resume) else None
    return AttemptStarted(
        plan.attempt.number,
        plan.attempt.resumed,
        decision.reason,
        decision.omitted if isinstance(decision, Fresh) else 0,
        rewound_to=rewind.number if rewind is not None else None,
    )


def _with_copy(adapter: Adapter, plan: AttemptPlan, session_id: str) -> AttemptPlan:
    """The plan that resumes a copy which is already there (reads the copy's file)."""
    pin = replace(plan.pin, session_id=SessionId(session_id))
    return replace(
        plan,
        pin=pin,
        attempt=replace(plan.attempt, session_id=pin.session_id),
        launch=replace(plan.launch, session_id=session_id, fork_of=None, rewind_to=None),
        used_before=used(adapter, pin) or NO_USAGE,
    )


def _thread_taken_over() -> AgentFailed:
    return AgentFailed("Another process took this thread over while the run was silent.", hint="Ask again.")
