"""From a request to a stored decision: reads history, pins and the session's file, calls `decide`, stores the result.

It runs in the store's thread. The run holds the thread's lease by then, so no other process moves the thread's pins.
The transaction at the end stores prompt turn, decision, attempt and provisional pin together, before the agent's
process exists (law 4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clew.agents.adapter import Adapter, Binary, LaunchProfile
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.decision import (
    REWINDABLE,
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
    decide_after,
    fresh,
    may_use_another,
    objection,
    resumes,
    rewind_of,
    with_shorter_transcript,
)
from clew.core.history import Absorbed, History, LongHistory, Role, Turn, ids_of
from clew.core.ids import AttemptId, PinId, SessionId
from clew.core.pins import (
    NOTHING_OBSERVED,
    Observed,
    Pending,
    Pin,
    PinState,
    Runtime,
    is_unconfirmed_copy,
    reconcile,
    standing_count,
)
from clew.core.record import Record, replace
from clew.core.runs.events import Warned
from clew.core.runs.run import Attempt, Run, RunStatus
from clew.engine.planning import notices
from clew.engine.request import TurnRequest
from clew.engine.rules.shown import NOT_SHOWN, ShownRules, note_source
from clew.engine.sessions.observation import ends_of, observe, used
from clew.engine.sessions.outside import (
    AdapterOf,
    Arrival,
    arrival,
    followed,
    new_turns,
    store_arrival,
    with_outside,
)
from clew.engine.settings import RuntimeContext
from clew.errors import NotFound, UsageError
from clew.store.store import Store

RUNS_LOOKED_AT = 50  # to find the last run that ended: more than a thread ever has queued
FAILURES = frozenset({RunStatus.FAILED, RunStatus.TIMED_OUT})
USABLE = frozenset({PinState.GOOD, PinState.PROVISIONAL})


class AttemptPlan(Record):
    """An attempt that is about to start."""

    request: DecisionRequest
    history: Sequence[Turn]
    decision: Decision
    pin: Pin
    attempt: Attempt
    launch: LaunchProfile
    abilities: Abilities
    rules: ShownRules
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
    adapter_of: AdapterOf  # of the thread's other agents, whose sessions may have been continued outside
    fence: Callable[[Store], None]  # called inside a transaction; raises if another process took the thread over
    drafted: Callable[[AttemptPlan], object] = lambda plan: None  # called with every plan before its commit
    rules: ShownRules = NOT_SHOWN
    change: Callable[[History], History] | None = None  # for a preview: what is to be changed in the history before

    def first(self, store: Store) -> AttemptPlan | None:
        """Plans the run's first attempt. From here on the run has started, and its prompt cannot be changed. None: the
        run was cancelled before."""
        while True:
            run = store.runs.require(self.run.id)
            if run.cancel_requested:
                return None
            plan = self._first(store, run)
            if plan is not None:
                return plan

    def _first(self, store: Store, run: Run) -> AttemptPlan | None:
        """The plan for the run as it is stored now. None: somebody changed or cancelled the run meanwhile."""
        thread = self.turn.thread
        case, decision, arrived = self.planned(store, run)
        unloaded = notices.unloaded_rules(self.adapter, thread, self.runtime.config_dir, self.rules)
        before = self._used_before(decision)
        with store.transaction():
            self.fence(store)
            if store.runs.require(run.id) != run:
                return None
            store.questions.withdraw_earlier(thread.id, run.id, self.context.clock())
            store_arrival(store, thread, arrived)
            if not isinstance(arrived.history, LongHistory):
                store.turns.complete_outline(thread.id)
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
            is_retry = self.turn.retry_of is not None
            note_source(store, thread.id, self.rules.source)
            warnings = notices.warnings(store, thread, unloaded, decision, arrived, is_retry=is_retry)
            return self._commit(store, case.request, case.history, decision, 1, before, warnings)

    def session(self, store: Store, run: Run) -> SessionId | None:
        """The session that would be resumed now, or of which a copy would be; None: a fresh one."""
        with store.reading():
            case, reason, _ = self._case(store, run)
            return resumes(case, reason)

    def planned(self, store: Store, run: Run) -> tuple[DecisionCase, Decision, Arrival]:
        """The decision that would be made now, and what would come in before. Stores nothing.

        Everything is read in one state of the store: the turns of a long history are read when they are needed.
        """
        with store.reading():
            case, reason, arrived = self._case(store, run)
            decision = decide_after(case, reason)
        if self.turn.fresh_because is not None and isinstance(decision, Fresh) and self.turn.options.fresh_session:
            decision = replace(decision, reason=self.turn.fresh_because)
        return case, decision, arrived

    def _case(self, store: Store, run: Run) -> tuple[DecisionCase, Reason | None, Arrival]:
        """Everything that the decision depends on, the objection to the session as it is, and the turns that come in
        from outside before the decision is made."""
        thread = self.turn.thread
        stored = store.turns.long_history(thread.id)
        pins = store.pins.of_thread(thread.id, standing=stored.outline if isinstance(stored, LongHistory) else ())
        arrived = Arrival(stored)
        if self.policy.follow_moves:
            arrived = arrival(store, thread, pins, self._readable, self.context, stored)
        pins, observed, arrived = self._settled(store, pins, arrived)
        changed = self.change(tuple(arrived.history)) if self.change is not None else arrived.history
        history, prompt = self._history(changed, run)
        request = DecisionRequest(
            agent=self.run.agent,
            model=self.run.model or "",
            work_dir=thread.cwd,
            runtime=self.runtime,
            prompt=prompt,
            standing=self.rules.standing(self.turn.standing),
            full_prompt=self.turn.full,
            full_prompt_of=self.turn.full_of,
            work_done=self.turn.done,
            force_fresh=self.turn.options.fresh_session or self._retries_failure(store, run),
        )
        case = DecisionCase(request, history, pins, self.abilities, observed, self.policy, self.context.clock())
        reason = objection(case)
        return self._with_rewind(store, case, reason, arrived), reason, arrived

    def _readable(self, agent: str) -> Adapter | None:
        """The adapter of an agent whose sessions' files can be read. Of the others, no pin has a mark."""
        return self.adapter if agent == self.adapter.name else self.adapter_of(agent)

    def _retries_failure(self, store: Store, run: Run) -> bool:
        """Whether a person asks a prompt again after a failure: the session that failed is not used again for that.
        Without rewinds, a prompt is always asked again in a fresh session. A job decides about that by itself: it asks
        again what its agent never got."""
        if self.turn.retry_of is None or self.turn.job_id is not None:
            return False
        newest = store.runs.newest(thread_id=self.turn.thread.id, limit=RUNS_LOOKED_AT)
        ended = next((each for each in newest if each.id != run.id and each.ended_at is not None), None)
        return not self.policy.rewind or (ended is not None and ended.status in FAILURES)

    def _settled(
        self, store: Store, pins: tuple[Pin, ...], arrived: Arrival
    ) -> tuple[tuple[Pin, ...], Observed, Arrival]:
        """Settles the pin that this turn would resume from its session's file, if its last attempt had no success.
        Returns the pins as they are then, and what the file shows.

        A copy of a session that was interrupted while it was made is skipped: it can be made again.
        """
        moved = {pin.id: pin for pin in arrived.pins}
        pins = tuple(moved.get(pin.id, pin) for pin in pins)
        pin = candidate(pins, self.run.agent, self.run.model or "")
        if pin is None:
            return pins, NOTHING_OBSERVED, arrived
        observed = arrived.observed.get(pin.id)
        if observed is not None and pin.mark is not None:
            return pins, observed, arrived
        observed = observe(self.adapter, pin) if self.abilities.session_files else NOTHING_OBSERVED
        settled = reconcile(pin, observed, arrived.history)
        if is_unconfirmed_copy(settled):
            others = tuple(known for known in pins if known.id != pin.id)
            lender = candidate(others, self.run.agent, self.run.model or "")
            if lender is not None and lender.borrowed_at is not None:
                return self._settled(store, others, arrived)
        if self.policy.follow_moves:
            arrived = with_outside(store, arrived, settled, observed, self.context)
            settled = next((each for each in arrived.pins if each.id == pin.id), settled)
            observed = followed(observed)
        return tuple(settled if known.id == pin.id else known for known in pins), observed, arrived

    def _with_rewind(self, store: Store, case: DecisionCase, reason: Reason | None, arrived: Arrival) -> DecisionCase:
        """The case with what a rewind needs to know, if the session cannot be resumed as it is: where its file says
        that a copy can end, what the dropped turns did, or another session of which a copy could be used."""
        if reason is None or not self.abilities.session_files:
            return case
        case = self._with_ends(store, case, reason, arrived)
        if rewind_of(case, reason) is not None or not may_use_another(case, reason):
            return case
        for pin in reversed(case.pins):
            is_other = pin.id != (case.candidate.id if case.candidate is not None else None)
            of_model = pin.model == case.request.model if reason is not Reason.NO_PIN else True
            if is_other and of_model and pin.agent == case.request.agent and pin.state in USABLE:
                observed = observe(self.adapter, pin)
                settled = reconcile(pin, observed, case.history)
                if settled.pending is not None and not new_turns(store, arrived, settled, observed):
                    observed = followed(observed)  # what was said outside came in, although the pin is not settled
                other = replace(case, lender=settled, observed=observed)
                objects = objection(other)
                other = self._with_ends(store, other, objects, arrived)
                if objects is None:
                    other = self._with_effects(store, other, settled, arrived)
                if objects is None or rewind_of(other, objects) is not None:
                    return replace(case, others=((settled, other.observed),), effects=other.effects)
        return case

    def _with_ends(self, store: Store, case: DecisionCase, reason: Reason | None, arrived: Arrival) -> DecisionCase:
        if reason not in REWINDABLE or not (self.policy.rewind and self.abilities.rewind):
            return case
        if not standing_count(case.pin, case.seen):  # no need to read the file
            return case
        case = replace(case, observed=replace(case.observed, ends=ends_of(self.adapter, case.pin)))
        rewound = rewind_of(case, reason)
        return self._with_effects(store, case, rewound[1], arrived) if rewound is not None else case

    def _with_effects(self, store: Store, case: DecisionCase, kept: Pin, arrived: Arrival) -> DecisionCase:
        """The case with what turns did that a copy lacks. `kept` is the pin as it will be for the copy."""
        from clew.engine.planning.effects import effects_after  # here, because few turns need it

        known = {each.turn_id for pin in (*case.pins, case.pin) if self._is_own(pin) for each in _held(pin)}
        dropped = known - {each.turn_id for each in kept.absorbed}
        standing = {*ids_of(case.history)} - dropped
        last = kept.absorbed[-1].turn_id
        effects = effects_after(store, self._readable, self.turn.thread.id, last, standing, arrived.rounds)
        return replace(case, effects=effects)

    def _is_own(self, pin: Pin) -> bool:
        return (pin.agent, pin.model) == (self.run.agent, self.run.model or "")

    def can_shorten(self, plan: AttemptPlan) -> bool:
        """Whether a shorter transcript would differ from the prompt of this attempt."""
        cut = fresh(plan.request, plan.history, with_shorter_transcript(self.policy), Reason.OVERFLOW)
        return cut.prompt != plan.decision.prompt

    def fallback(self, store: Store, before: AttemptPlan, reason: Reason, policy: Policy) -> AttemptPlan:
        """Plans the run's last attempt: a fresh session with the transcript, as `policy` limits it."""
        decision = fresh(before.request, before.history, policy, reason)
        spent = self._used_before(decision)
        with store.transaction():
            self.fence(store)
            number = before.attempt.number + 1
            return self._commit(store, before.request, before.history, decision, number, spent, is_fallback=True)

    def again(self, store: Store, before: AttemptPlan) -> AttemptPlan:
        """Plans the same turn once more, after the agent that was kept for it was lost. The session's file says whether
        it had taken the prompt: if not, the session is resumed as it was to be before."""
        pins = store.pins.of_thread(self.turn.thread.id)
        asked = next(pin for pin in pins if pin.id == before.pin.id)
        observed = observe(self.adapter, asked) if self.abilities.session_files else NOTHING_OBSERVED
        settled = replace(reconcile(asked, observed, before.history), resume_count=before.pin.resume_count - 1)
        pins = tuple(settled if pin.id == settled.id else pin for pin in pins)
        now = self.context.clock()
        case = DecisionCase(before.request, before.history, pins, self.abilities, observed, self.policy, now)
        decision = decide(case)
        spent = self._used_before(decision)
        with store.transaction():
            self.fence(store)
            number = before.attempt.number + 1
            return self._commit(store, before.request, before.history, decision, number, spent)

    def _history(self, history: Sequence[Turn], run: Run) -> tuple[Sequence[Turn], Turn]:
        """The turns before the prompt, and the prompt."""
        if self.turn.retry_of is None:
            return history, prompt_turn(run, self.context.clock())
        for place, turn_id in enumerate(ids_of(history)):
            if turn_id == self.turn.retry_of:
                turn = history[place]
                if turn.role is not Role.USER:
                    raise UsageError(f"{turn.id} is an agent's turn; only a user's can be asked again.")
                return history[:place], turn
        raise NotFound(f"No turn {self.turn.retry_of} in {self.turn.thread.name}.", hint="See clew threads show.")

    def _commit(
        self,
        store: Store,
        request: DecisionRequest,
        history: Sequence[Turn],
        decision: Decision,
        number: int,
        used_before: Usage,
        warnings: tuple[Warned, ...] = (),
        *,
        is_fallback: bool = False,
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
        rewind = decision.rewind if isinstance(decision, Resume) else None
        begins = {"started_at": now} if number == 1 else {}
        store.pins.save(pin)
        store.runs.create_attempt(attempt, self.turn.thread.id)
        store.runs.update(
            self.run.id,
            status=RunStatus.RUNNING,
            session_id=pin.session_id,
            session_resumed=attempt.resumed,
            reason=decision.reason,
            rewound_to=rewind.number if rewind is not None else None,
            rewound_to_turn_id=rewind.turn_id if rewind is not None else None,
            fallback=is_fallback,
            prompt_chars=len(decision.prompt),
            transcript_chars=decision.transcript_chars,
            **begins,
        )
        launch = LaunchProfile(
            session_id=pin.session_id,
            resume=attempt.resumed,
            model=self.run.model,
            permissions=self.turn.thread.permissions,
            trust=self.turn.thread.trust,
            work_dir=request.work_dir,
            rules_dir=self.rules.folder,
            fork_of=copied.session_id if copied is not None else None,
            rewind_to=self._copy_end(decision) if copied is not None else None,
        )
        plan = AttemptPlan(
            request, history, decision, pin, attempt, launch, self.abilities, self.rules, used_before, warnings
        )
        self.drafted(plan)
        return plan

    def _used_before(self, decision: Decision) -> Usage:
        """The running total of the session that is resumed, or copied (reads its file)."""
        if not isinstance(decision, Resume) or not self.abilities.session_files:
            return NO_USAGE
        return used(self.adapter, decision.pin) or NO_USAGE

    def _copy_end(self, decision: Decision) -> str | None:
        """The message with which the copy of a session ends; None: it is a copy of the whole session."""
        if isinstance(decision, Resume) and decision.rewind is not None:
            return decision.rewind.end_id
        is_borrowed = isinstance(decision, Resume) and decision.pin.borrowed_at is not None and self.abilities.rewind
        return decision.pin.borrowed_at if isinstance(decision, Resume) and is_borrowed else None

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
        if not decision.copies and not (self.turn.fork and self.abilities.fork):
            return pin
        # The copy's running cost starts at the owner's: the owner may have used the session since it was borrowed.
        owner = store.pins.of_session(pin.session_id, retired=True) if borrowed else None
        return replace(
            pin,
            id=PinId(self.context.new_id()),
            model=request.model,
            session_id=SessionId(self.context.new_uuid()),
            state=PinState.PROVISIONAL,
            mark=None,
            borrowed_at=None,
            cost_total_usd=owner.cost_total_usd if owner is not None else pin.cost_total_usd,
            created_at=now,
        )


def _held(pin: Pin) -> tuple[Absorbed, ...]:
    """The turns that the session was shown, or may have been."""
    return pin.absorbed + (pin.pending.shown if pin.pending is not None else ())


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
        images=run.images,
        typed=run.typed,
    )
