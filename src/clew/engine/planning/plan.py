"""From a request to a decision on disk: history, pins, the file's word, `decide`, and all of it stored at once.

Runs in the store's thread. The thread's lease is held by then, so nobody else moves its pins; the transaction at the
end makes prompt turn, decision, attempt and provisional pin durable together, before any process exists.
"""

from __future__ import annotations

from collections.abc import Callable

from clew.agents.adapter import Adapter, Binary, Launch
from clew.core.decision import (
    Abilities,
    Decision,
    Fresh,
    Policy,
    Reason,
    Request,
    Resume,
    candidate,
    decide,
    fresh,
    objection,
    shorter,
)
from clew.core.events import Warned
from clew.core.history import History, Role, Turn
from clew.core.ids import AttemptId, PinId, RunId, SessionId, TurnId
from clew.core.pins import NOTHING_OBSERVED, Observed, Pending, Pin, PinState, Runtime, is_unproven, settle
from clew.core.record import Record, replace
from clew.core.run import Asked, Attempt, Run, RunStatus
from clew.core.thread import Thread
from clew.core.usage import NO_USAGE, Usage
from clew.engine import notices
from clew.engine.sessions import observe, used
from clew.engine.settings import Ask, EngineSettings, Surroundings
from clew.errors import NotFound, UsageError
from clew.store.store import Store


class Plan(Record):
    """An attempt about to be made."""

    request: Request
    history: History
    decision: Decision
    pin: Pin
    attempt: Attempt
    launch: Launch
    abilities: Abilities
    used_before: Usage = NO_USAGE  # the session's running total, for an agent that tells no other
    warnings: tuple[Warned, ...] = ()  # what the user should know before the agent starts


class Planner(Record):
    adapter: Adapter
    abilities: Abilities
    runtime: Runtime
    policy: Policy
    around: Surroundings
    ask: Ask
    run: Run
    fence: Callable[[Store], None]  # raises, inside a transaction, when the thread is somebody else's by now
    drafted: Callable[[Plan], object] = lambda plan: None  # told of a plan before it is committed

    def first(self, store: Store) -> Plan:
        """The run's first attempt. From here on the run has started, and its prompt stands as it is."""
        thread = self.ask.thread
        with store.transaction():
            self.fence(store)
            run = store.update_run(self.run.id, status=RunStatus.RUNNING, started_at=self.around.clock())
            store.withdraw_questions(thread.id, run.id, self.around.clock())
        request, history, decision = self.outlook(store, run)
        rules = notices.rules_left_out(self.adapter, thread, self.runtime.config_dir)
        with store.transaction():
            self.fence(store)
            if self.ask.retry_of is not None:
                store.archive_turns(
                    thread.id, self.ask.retry_of, inclusive=False, at=self.around.clock(), why=f"retry {self.run.id}"
                )
            else:
                store.add_turn(thread.id, request.prompt)
            warnings = notices.warnings(store, thread, rules, decision)
            return self._commit(store, request, history, decision, number=1, warnings=warnings)

    def outlook(self, store: Store, run: Run) -> tuple[Request, History, Decision]:
        """What would be sent now. Reads, and changes nothing."""
        request, history, pins, observed = self._looked(store, run)
        decision = decide(request, history, pins, self.abilities, observed, self.policy, self.around.clock())
        if self.ask.fresh_because is not None and isinstance(decision, Fresh) and self.ask.force_fresh:
            decision = replace(decision, reason=self.ask.fresh_because)
        return request, history, decision

    def session(self, store: Store, run: Run) -> SessionId | None:
        """The session that would be resumed now; None: it would be a fresh one."""
        request, history, pins, observed = self._looked(store, run)
        now = self.around.clock()
        if objection(request, history, pins, self.abilities, observed, self.policy, now) is not None:
            return None
        pin = candidate(pins, request.agent, request.model)
        return pin.session_id if pin is not None else None

    def _looked(self, store: Store, run: Run) -> tuple[Request, History, tuple[Pin, ...], Observed]:
        """All that the decision is made of."""
        thread = self.ask.thread
        history, prompt = self._history(store, run)
        request = Request(
            agent=self.run.agent,
            model=self.run.model or "",
            work_dir=thread.cwd,
            runtime=self.runtime,
            prompt=prompt,
            standing=self.ask.standing,
            full=self.ask.full,
            full_of=self.ask.full_of,
            done=self.ask.done,
            force_fresh=self.ask.force_fresh,
        )
        pins, observed = self._settled(store.pins(thread.id), request, history)
        return request, history, pins, observed

    def _settled(self, pins: tuple[Pin, ...], request: Request, history: History) -> tuple[tuple[Pin, ...], Observed]:
        """The pins as their files bear them out, and what is seen of the one that this turn would resume.

        A copy that was cut off while it was made is passed over, where it can be made once more.
        """
        pin = candidate(pins, request.agent, request.model)
        if pin is None:
            return pins, NOTHING_OBSERVED
        observed = observe(self.adapter, pin) if self.abilities.session_files else NOTHING_OBSERVED
        settled = settle(pin, observed, history)
        if is_unproven(settled):
            others = tuple(known for known in pins if known.id != pin.id)
            lender = candidate(others, request.agent, request.model)
            if lender is not None and lender.borrowed_at is not None:
                return self._settled(others, request, history)
        return tuple(settled if known.id == pin.id else known for known in pins), observed

    def can_shorten(self, plan: Plan) -> bool:
        """A transcript that is cut to fit would be another one than the attempt's own."""
        cut = fresh(plan.request, plan.history, shorter(self.policy), Reason.OVERFLOW)
        return cut.prompt != plan.decision.prompt

    def fallback(self, store: Store, before: Plan, reason: Reason, policy: Policy) -> Plan:
        """The run's second and last attempt: fresh, with the whole transcript."""
        decision = fresh(before.request, before.history, policy, reason)
        with store.transaction():
            self.fence(store)
            return self._commit(store, before.request, before.history, decision, number=2)

    def _history(self, store: Store, run: Run) -> tuple[History, Turn]:
        """What stands before the prompt, and the prompt."""
        history = store.history(self.ask.thread.id)
        if self.ask.retry_of is None:
            return history, prompt_turn(run, self.around.clock())
        for place, turn in enumerate(history):
            if turn.id == self.ask.retry_of:
                if turn.role is not Role.USER:
                    raise UsageError(f"{turn.id} is an agent's turn; only a user's can be asked again.")
                return history[:place], turn
        raise NotFound(f"No turn {self.ask.retry_of} in {self.ask.thread.name}.", hint="See clew threads show.")

    def _commit(
        self,
        store: Store,
        request: Request,
        history: History,
        decision: Decision,
        number: int,
        warnings: tuple[Warned, ...] = (),
    ) -> Plan:
        now = self.around.clock()
        user_uuid = self.around.new_uuid()
        pending = Pending(self.adapter.prompt_id(decision.prompt, user_uuid), decision.shown, decision.standing)
        pin = self._pin(store, request, decision, pending, now)
        copied = decision.pin if isinstance(decision, Resume) and pin.id != decision.pin.id else None
        attempt = Attempt(
            id=AttemptId(self.around.new_id()),
            run_id=self.run.id,
            number=number,
            session_id=pin.session_id,
            user_uuid=user_uuid,
            resumed=isinstance(decision, Resume),
            started_at=now,
        )
        store.save_pin(pin)
        store.create_attempt(attempt, self.ask.thread.id)
        store.update_run(
            self.run.id,
            status=RunStatus.RUNNING,
            session_id=pin.session_id,
            session_resumed=attempt.resumed,
            reason=decision.reason,
            fallback=number > 1,
            prompt_chars=len(decision.prompt),
            transcript_chars=decision.transcript_chars,
        )
        launch = Launch(
            session_id=pin.session_id,
            resume=attempt.resumed,
            model=self.run.model,
            permissions=self.ask.thread.permissions,
            trust=self.ask.thread.trust,
            work_dir=request.work_dir,
            fork_of=copied.session_id if copied is not None else None,
            rewind_to=copied.borrowed_at if copied is not None and self.abilities.rewind else None,
        )
        readable = attempt.resumed and self.abilities.session_files
        goes_on_from = decision.pin if isinstance(decision, Resume) else pin  # a copy has no file yet
        before = (used(self.adapter, goes_on_from) if readable else None) or NO_USAGE
        plan = Plan(request, history, decision, pin, attempt, launch, self.abilities, before, warnings)
        self.drafted(plan)
        return plan

    def _pin(self, store: Store, request: Request, decision: Decision, pending: Pending, now: float) -> Pin:
        if isinstance(decision, Fresh):
            return Pin(
                id=PinId(self.around.new_id()),
                thread_id=self.ask.thread.id,
                agent=request.agent,
                model=request.model,
                session_id=SessionId(self.around.new_uuid()),
                state=PinState.PROVISIONAL,
                work_dir=request.work_dir,
                runtime=request.runtime,
                pending=pending,
                created_at=now,
                used_at=now,
            )
        pin = replace(decision.pin, pending=pending, resume_count=decision.pin.resume_count + 1, used_at=now)
        borrowed = pin.borrowed_at is not None
        if not borrowed and not (self.ask.fork and self.abilities.fork):
            return pin
        # It may have gone on, and a copy counts on.
        owner = store.pin_by_session(pin.session_id, retired=True) if borrowed else None
        return replace(
            pin,
            id=PinId(self.around.new_id()),
            session_id=SessionId(self.around.new_uuid()),
            state=PinState.PROVISIONAL,
            mark=None,
            borrowed_at=None,
            cost_total_usd=owner.cost_total_usd if owner is not None else pin.cost_total_usd,
            created_at=now,
        )


def policy_of(ask: Ask, settings: EngineSettings) -> Policy:
    policy = replace(settings.policy, visibility=ask.thread.visibility)
    if policy.max_age_s is None or ask.any_age or ask.not_before is not None:
        policy = replace(policy, max_age_s=ask.max_age_s)
    return policy if ask.enable_resume is None else replace(policy, enable_resume=ask.enable_resume)


def runtime_of(adapter: Adapter, binary: Binary, can: Abilities, around: Surroundings) -> Runtime:
    return Runtime(
        agent=adapter.name,
        binary=binary.path,
        product=can.product,
        can_resume=can.resume,
        config_dir=adapter.config_dir(around.environ),
    )


def prompt_turn(run: Run, at: float) -> Turn:
    """The user turn that a run is about, made when it joins the history."""
    return Turn(
        id=run.prompt_turn_id,
        role=Role.USER,
        text=run.prompt,
        agent=run.agent,
        model=run.model,
        run_id=run.id,
        created_at=at,
    )


def new_run(ask: Ask, model: str | None, around: Surroundings) -> Run:
    return Run(
        id=ask.run_id or RunId(around.new_id()),
        thread_id=ask.thread.id,
        prompt_turn_id=ask.retry_of or TurnId(around.new_id()),
        prompt=ask.text,
        agent=ask.agent,
        model=model,
        status=RunStatus.QUEUED,
        owner=around.owner,
        asked=Asked(
            force_fresh=ask.force_fresh,
            retry_of=ask.retry_of,
            enable_resume=ask.enable_resume,
            timeout_s=ask.timeout_s,
            lasting=ask.lasting,
            not_before=ask.not_before,
            continues=ask.continues,
            answers=ask.answers is not None,
        ),
        created_at=around.clock(),
    )


def default_model_fact(agent: str) -> str:
    return f"default_model/{agent}"


def named_model(ask: Ask, thread: Thread, configured: str | None) -> str | None:
    """Flag, thread or settings."""
    return ask.model or (thread.model if thread.agent == ask.agent else None) or configured


def model_for(ask: Ask, thread: Thread, configured: str | None, store: Store) -> str | None:
    """Flag, thread, settings, the agent's own default as its first run named it, or the model of its newest session.

    None: not known yet. A thread that came from elsewhere has sessions of agents whose default is not known here.
    """
    known = named_model(ask, thread, configured) or store.fact(default_model_fact(ask.agent))
    return known or next(
        (
            pin.model
            for pin in reversed(store.pins(thread.id, retired=False))
            if pin.agent == ask.agent and pin.state is PinState.GOOD and pin.model
        ),
        None,
    )
