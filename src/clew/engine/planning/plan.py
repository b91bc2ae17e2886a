"""From a request to a stored decision: reads history, pins and the session's file, calls `decide`, stores the result.

It runs in the store's thread. The run holds the thread's lease by then, so no other process moves the thread's pins.
The transaction at the end stores prompt turn, decision, attempt and provisional pin together, before the agent's
process exists (law 4).
"""

from __future__ import annotations

from collections.abc import Callable

from clew.agents.adapter import Adapter, Binary, LaunchProfile
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.decision import (
    Abilities,
    Decision,
    DecisionCase,
    DecisionRequest,
    Fresh,
    Policy,
    Reason,
    Resume,
    candidate,
    decide,
    fresh,
    objection,
    with_shorter_transcript,
)
from clew.core.history import History, Role, Turn
from clew.core.ids import AttemptId, PinId, SessionId
from clew.core.pins import NOTHING_OBSERVED, Observed, Pending, Pin, PinState, Runtime, is_unconfirmed_copy, reconcile
from clew.core.record import Record, replace
from clew.core.runs.events import Warned
from clew.core.runs.run import Attempt, Run, RunStatus
from clew.engine.planning import notices
from clew.engine.request import TurnRequest
from clew.engine.sessions.observation import observe, used
from clew.engine.settings import RuntimeContext
from clew.errors import NotFound, UsageError
from clew.store.store import Store


class AttemptPlan(Record):
    """An attempt that is about to start."""

    request: DecisionRequest
    history: History
    decision: Decision
    pin: Pin
    attempt: Attempt
    launch: LaunchProfile
    abilities: Abilities
    used_before: Usage = NO_USAGE  # the session's running total, for an agent that reports only that
    warnings: tuple[Warned, ...] = ()  # what the user should know before the agent starts


class Planner(Record):
    adapter: Adapter
    abilities: Abilities
    runtime: Runtime
    policy: Policy
    context: RuntimeContext
    turn: TurnRequest
    run: Run
    fence: Callable[[Store], None]  # called inside a transaction; raises if another process took the thread over
    drafted: Callable[[AttemptPlan], object] = lambda plan: None  # called with every plan before its commit

    def first(self, store: Store) -> AttemptPlan:
        """Plans the run's first attempt. From here on the run has started, and its prompt cannot be changed."""
        thread = self.turn.thread
        with store.transaction():
            self.fence(store)
            run = store.runs.update(self.run.id, status=RunStatus.RUNNING, started_at=self.context.clock())
            store.questions.withdraw_earlier(thread.id, run.id, self.context.clock())
        case, decision = self.preview(store, run)
        rules = notices.unloaded_rules(self.adapter, thread, self.runtime.config_dir)
        with store.transaction():
            self.fence(store)
            if self.turn.retry_of is not None:
                store.turns.archive(
                    thread.id,
                    self.turn.retry_of,
                    inclusive=False,
                    at=self.context.clock(),
                    why=f"retry {self.run.id}",
                )
            else:
                store.turns.add(thread.id, case.request.prompt)
            warnings = notices.warnings(store, thread, rules, decision)
            return self._commit(store, case.request, case.history, decision, number=1, warnings=warnings)

    def preview(self, store: Store, run: Run) -> tuple[DecisionCase, Decision]:
        """The decision that would be made now. Stores nothing."""
        case = self._case(store, run)
        decision = decide(case)
        if self.turn.fresh_because is not None and isinstance(decision, Fresh) and self.turn.options.fresh_session:
            decision = replace(decision, reason=self.turn.fresh_because)
        return case, decision

    def session(self, store: Store, run: Run) -> SessionId | None:
        """The session that would be resumed now; None: a fresh one."""
        case = self._case(store, run)
        return case.pin.session_id if objection(case) is None else None

    def _case(self, store: Store, run: Run) -> DecisionCase:
        thread = self.turn.thread
        history, prompt = self._history(store, run)
        request = DecisionRequest(
            agent=self.run.agent,
            model=self.run.model or "",
            work_dir=thread.cwd,
            runtime=self.runtime,
            prompt=prompt,
            standing=self.turn.standing,
            full_prompt=self.turn.full,
            full_prompt_of=self.turn.full_of,
            work_done=self.turn.done,
            force_fresh=self.turn.options.fresh_session,
        )
        pins, observed = self._settled(store.pins.of_thread(thread.id), request, history)
        return DecisionCase(request, history, pins, self.abilities, observed, self.policy, self.context.clock())

    def _settled(
        self, pins: tuple[Pin, ...], request: DecisionRequest, history: History
    ) -> tuple[tuple[Pin, ...], Observed]:
        """Reads the session's file of the pin that this turn would resume. Returns the pins, with that pin settled from
        the file, and what the file shows.

        A copy of a borrowed session that was interrupted while it was made is skipped: it can be made again.
        """
        pin = candidate(pins, request.agent, request.model)
        if pin is None:
            return pins, NOTHING_OBSERVED
        observed = observe(self.adapter, pin) if self.abilities.session_files else NOTHING_OBSERVED
        settled = reconcile(pin, observed, history)
        if is_unconfirmed_copy(settled):
            others = tuple(known for known in pins if known.id != pin.id)
            lender = candidate(others, request.agent, request.model)
            if lender is not None and lender.borrowed_at is not None:
                return self._settled(others, request, history)
        return tuple(settled if known.id == pin.id else known for known in pins), observed

    def can_shorten(self, plan: AttemptPlan) -> bool:
        """Whether a shorter transcript would differ from the prompt of this attempt."""
        cut = fresh(plan.request, plan.history, with_shorter_transcript(self.policy), Reason.OVERFLOW)
        return cut.prompt != plan.decision.prompt

    def fallback(self, store: Store, before: AttemptPlan, reason: Reason, policy: Policy) -> AttemptPlan:
        """Plans the run's second and last attempt: a fresh session with the transcript, as `policy` limits it."""
        decision = fresh(before.request, before.history, policy, reason)
        with store.transaction():
            self.fence(store)
            return self._commit(store, before.request, before.history, decision, number=2)

    def _history(self, store: Store, run: Run) -> tuple[History, Turn]:
        """The turns before the prompt, and the prompt."""
        history = store.turns.history(self.turn.thread.id)
        if self.turn.retry_of is None:
            return history, prompt_turn(run, self.context.clock())
        for place, turn in enumerate(history):
            if turn.id == self.turn.retry_of:
                if turn.role is not Role.USER:
                    raise UsageError(f"{turn.id} is an agent's turn; only a user's can be asked again.")
                return history[:place], turn
        raise NotFound(f"No turn {self.turn.retry_of} in {self.turn.thread.name}.", hint="See clew threads show.")

    def _commit(
        self,
        store: Store,
        request: DecisionRequest,
        history: History,
        decision: Decision,
        number: int,
        warnings: tuple[Warned, ...] = (),
    ) -> AttemptPlan:
        now = self.context.clock()
        user_uuid = self.context.new_uuid()
        pending = Pending(self.adapter.prompt_id(decision.prompt, user_uuid), decision.shown, decision.standing)
        pin = self._pin(store, request, decision, pending, now)
        copied = decision.pin if isinstance(decision, Resume) and pin.id != decision.pin.id else None
        attempt = Attempt(
            id=AttemptId(self.context.new_id()),
            run_id=self.run.id,
            number=number,
            session_id=pin.session_id,
            user_uuid=user_uuid,
            resumed=isinstance(decision, Resume),
            started_at=now,
        )
        store.pins.save(pin)
        store.runs.create_attempt(attempt, self.turn.thread.id)
        store.runs.update(
            self.run.id,
            status=RunStatus.RUNNING,
            session_id=pin.session_id,
            session_resumed=attempt.resumed,
            reason=decision.reason,
            fallback=number > 1,
            prompt_chars=len(decision.prompt),
            transcript_chars=decision.transcript_chars,
        )
        launch = LaunchProfile(
            session_id=pin.session_id,
            resume=attempt.resumed,
            model=self.run.model,
            permissions=self.turn.thread.permissions,
            trust=self.turn.thread.trust,
            work_dir=request.work_dir,
            fork_of=copied.session_id if copied is not None else None,
            rewind_to=copied.borrowed_at if copied is not None and self.abilities.rewind else None,
        )
        readable = attempt.resumed and self.abilities.session_files
        source = decision.pin if isinstance(decision, Resume) else pin  # a copy has no file yet
        before = (used(self.adapter, source) if readable else None) or NO_USAGE
        plan = AttemptPlan(request, history, decision, pin, attempt, launch, self.abilities, before, warnings)
        self.drafted(plan)
        return plan

    def _pin(self, store: Store, request: DecisionRequest, decision: Decision, pending: Pending, now: float) -> Pin:
        if isinstance(decision, Fresh):
            return Pin(
                id=PinId(self.context.new_id()),
                thread_id=self.turn.thread.id,
                agent=request.agent,
                model=request.model,
                session_id=SessionId(self.context.new_uuid()),
                state=PinState.PROVISIONAL,
                work_dir=request.work_dir,
                runtime=request.runtime,
                pending=pending,
                created_at=now,
                used_at=now,
            )
        pin = replace(decision.pin, pending=pending, resume_count=decision.pin.resume_count + 1, used_at=now)
        borrowed = pin.borrowed_at is not None
        if not borrowed and not (self.turn.fork and self.abilities.fork):
            return pin
        # The copy's running cost starts at the owner's: the owner may have used the session since it was borrowed.
        owner = store.pins.of_session(pin.session_id, retired=True) if borrowed else None
        return replace(
            pin,
            id=PinId(self.context.new_id()),
            session_id=SessionId(self.context.new_uuid()),
            state=PinState.PROVISIONAL,
            mark=None,
            borrowed_at=None,
            cost_total_usd=owner.cost_total_usd if owner is not None else pin.cost_total_usd,
            created_at=now,
        )


def runtime_of(adapter: Adapter, binary: Binary, can: Abilities, context: RuntimeContext) -> Runtime:
    return Runtime(
        agent=adapter.name,
        binary=binary.path,
        product=can.product,
        can_resume=can.resume,
        config_dir=adapter.config_dir(context.environ),
    )


def prompt_turn(run: Run, at: float) -> Turn:
    """The user turn of a run. It is made when the run starts."""
    return Turn(
        id=run.prompt_turn_id,
        role=Role.USER,
        text=run.prompt,
        agent=run.agent,
        model=run.model,
        run_id=run.id,
        created_at=at,
    )
