"""Stores the result of an attempt: the answer as a turn, the pin by the outcome table, the run's usage and cost.

All of it runs in the store's thread inside one transaction: either everything is stored or nothing. The session's file
is read before that, so that no other process waits for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.agents.adapter import Adapter
from clew.core.costs.plain_resume import plain_resume
from clew.core.costs.usage import NO_USAGE, Usage, cost_of_run, estimate_transcript_usage, price_like, usage_of_run
from clew.core.decision import Resume
from clew.core.history import Role, Turn
from clew.core.ids import SessionId, TurnId
from clew.core.outcome import Outcome, pin_after
from clew.core.pins import NOTHING_OBSERVED, Observed, Pin, PinState, absorb, ends_with, move
from clew.core.record import Record, replace
from clew.core.runs.answer import AnswerBuilder
from clew.core.runs.events import SessionStarted, Warned
from clew.core.runs.run import Run, RunStatus
from clew.core.session import SessionState
from clew.engine.attempt import AttemptEnd
from clew.engine.finish.prices import keep_price, price
from clew.engine.planning import notices
from clew.engine.planning.plan import AttemptPlan
from clew.engine.request import default_model_key
from clew.engine.sessions.observation import file_of, is_full, observe_turn, tool_called, used
from clew.engine.sessions.outside import Arrival, store_arrival, with_beside, with_outside
from clew.engine.settings import RuntimeContext
from clew.errors import AgentError, ClewError, UsageLimit
from clew.store.store import Store

FOUND_IN_MID_TURN = frozenset({Outcome.POISONED, Outcome.OVERFLOW})  # a tool may have run before the failure


class FinishedRun(Record):
    """A run that has ended, with what the agent said. `error` is None if the agent answered."""

    run: Run
    text: str
    error: ClewError | None


class SessionFile(Record):
    """What the session's file shows after an attempt."""

    observed: Observed | None = None  # None: the agent has no such file, or the attempt was no success
    used: Usage | None = None  # the session's running total, if the agent reports only that


class RunResults:
    """The results of one run, over all its attempts."""

    def __init__(self, run: Run, adapter: Adapter, context: RuntimeContext, answer: AnswerBuilder) -> None:
        self.run = run
        self.adapter = adapter
        self.context = context
        self.answer = answer
        self.plan: AttemptPlan  # the plan of the current attempt
        self.pin: Pin  # as it was stored after the last attempt
        self.model = run.model  # None until the agent reports it
        self.session_id: str | None = None  # the current attempt's, if the agent chooses the ids of its sessions
        self.observed = NOTHING_OBSERVED  # the session's file after the last attempt, if that was a success
        self._spent: dict[str, tuple[Usage, float]] = {}  # by attempt id, because a transaction may be repeated

    def attempt_began(self, plan: AttemptPlan) -> None:
        self.plan = plan
        self.session_id = None

    def session_started(self, event: SessionStarted) -> bool:
        """True: the agent chose the session's id itself, and the caller must call `store_session`."""
        self.model = self.model or event.model or None
        in_place = self.plan.attempt.resumed and self.plan.launch.fork_of is None
        if self.plan.abilities.choose_id or in_place:
            return False
        self.session_id = event.session_id
        return True

    def store_session(self, store: Store) -> None:
        """Stores the id that the agent chose, so that the session's file can be found after a crash."""
        pin = self._pin(self.plan)
        store.pins.save(pin)
        store.runs.update_attempt(self.plan.attempt.id, session_id=pin.session_id)
        store.runs.update(self.run.id, session_id=pin.session_id)

    def _pin(self, plan: AttemptPlan) -> Pin:
        return replace(plan.pin, session_id=SessionId(self.session_id)) if self.session_id else plan.pin

    def tool_called(self, end: AttemptEnd) -> bool:
        """Whether the session's file shows a tool call: the stream may leave out a tool that was interrupted."""
        if end.outcome not in FOUND_IN_MID_TURN or not self.plan.abilities.session_files:
            return False
        return tool_called(self.adapter, self._pin(self.plan))

    def read_session(self, plan: AttemptPlan, end: AttemptEnd) -> SessionFile:
        """Reads the session's file for `store_run` or `store_attempt`."""
        if not plan.abilities.session_files:
            return SessionFile()
        pin = self._pin(plan)
        observed = observe_turn(self.adapter, pin, warm=end.warm) if end.outcome is Outcome.SUCCESS else None
        return SessionFile(observed, used(self.adapter, pin) if not end.result.usage_total else None)

    def store_run(
        self, store: Store, plan: AttemptPlan, end: AttemptEnd, file: SessionFile, status: RunStatus
    ) -> tuple[FinishedRun, Warned | None]:
        """Stores the end of the last attempt and of the run."""
        now = self.context.clock()
        answer = self._answer_turn(end, now)
        pin, warning = self.store_attempt(store, plan, end, file, answer)
        if answer is not None:  # the session's file may be the first to name the model, and names the turn's last line
            end_id = self.observed.end_id if end.outcome is Outcome.SUCCESS else None
            answer = replace(answer, model=self.model, message_id=end_id or answer.message_id)
            store.turns.add(self.run.thread_id, answer)
        came_in = self._bring_in(store, pin)
        error = None if status is RunStatus.ANSWERED else self._error(end, status)
        spent = {
            "session_id": pin.session_id,
            "model": self.model,
            "usage": self.usage,
            "cost_usd": self.cost_usd,
        }
        run = store.runs.update(
            self.run.id,
            status=status,
            outcome=end.outcome,
            error=error.message if error else None,
            answer_turn_id=answer.id if answer else None,
            resets_at=error.resets_at if isinstance(error, UsageLimit) else None,
            ended_at=now,
            **spent,
            **self._estimate(plan, end),
            **self._plain_resume(store, spent, end),
        )
        if end.outcome is not Outcome.WRONG_MODEL:
            self._keep_model(store, now)
        return FinishedRun(run, answer.text if answer else "", error), warning or came_in

    def _bring_in(self, store: Store, pin: Pin) -> Warned | None:
        """Somebody used the session in its plain CLI during the run: these turns come in too."""
        observed = self.observed
        if pin.pending is not None or not (observed.before or observed.outside or observed.beside):
            return None
        thread = store.threads.require_by_id(self.run.thread_id)
        found = with_outside(store, Arrival(store.turns.history(thread.id)), pin, observed, self.context)
        found = with_beside(store, found, pin, observed, self.context)
        store_arrival(store, thread, found)
        said = notices.brought_in(len(found.turns), are_archived=False)
        return Warned("outside_turns", said) if found.rounds else None

    def store_attempt(
        self, store: Store, plan: AttemptPlan, end: AttemptEnd, file: SessionFile, answer: Turn | None = None
    ) -> tuple[Pin, Warned | None]:
        """Stores the end of an attempt, and moves the pin by the outcome table."""
        now = self.context.clock()
        self._count(store, plan, end, file)
        store.runs.update_attempt(
            plan.attempt.id,
            outcome=end.outcome,
            exit_status=end.exit_status,
            stderr_tail=end.stderr_tail,
            ended_at=now,
        )
        total = end.result.cost_total_usd
        pin = replace(
            self._pin(plan),
            used_at=now,
            model=self.model or plan.pin.model,
            cost_total_usd=plan.pin.cost_total_usd if total is None else total,
        )
        warning = None
        if end.outcome is Outcome.SUCCESS:
            pin, warning = self._confirmed(file, pin, answer)
        else:
            pin = pin_after(pin, end.outcome)
        if end.outcome is Outcome.USAGE_LIMIT:
            pin = self._limited(plan, pin, end, now)
        store.pins.save(pin)
        self.pin = pin
        return pin, warning

    def _limited(self, plan: AttemptPlan, pin: Pin, end: AttemptEnd, now: float) -> Pin:
        """A usage limit is not the session's fault: the run does not count as a resume, and the session does not age
        until the limit resets."""
        from clew.core.runs.limits import reset_time

        resets_at = reset_time(end.result.diagnosis.resets_at, now)
        count = plan.decision.pin.resume_count if isinstance(plan.decision, Resume) else pin.resume_count
        return replace(pin, resume_count=count, used_at=max(now, resets_at or now))

    def _confirmed(self, file: SessionFile, pin: Pin, answer: Turn | None) -> tuple[Pin, Warned | None]:
        """A success counts for the pin only if the session's file holds both prompt and answer (law 4).

        An answer that is not in the file is not absorbed: the next turn sends it as catch-up, or is fresh.
        """
        said = answer.text if answer is not None else ""
        self.observed = observed = file.observed or Observed(SessionState.SAME, holds_pending=True, answer_text=said)
        if observed.is_damaged:
            return pin, self._altered(pin)
        if observed.is_displaced:
            return pin, self._displaced()
        if not observed.exists or not observed.holds_pending or pin.pending is None:
            return pin, self._not_saved(pin, "this turn")
        self.model = self.model or observed.model or None
        settled = replace(absorb(pin, observed, answer), model=self.model or pin.model)
        if observed.compacted and settled.pending is None:
            settled = replace(settled, summarised=len(pin.absorbed))
        if answer is not None and not ends_with(settled, answer):
            return settled, self._not_saved(pin, "its answer")
        return replace(move(settled, PinState.GOOD), failures=0), None

    def _not_saved(self, pin: Pin, what: str) -> Warned:
        path = file_of(self.adapter, pin)
        place = f" ({path})" if path else ""
        why = " The disk is full: make room on it." if is_full(path or Path(pin.runtime.config_dir)) else ""
        return Warned(
            "session_not_saved",
            f"{self.adapter.name} did not save {what} in its session file{place}.{why} "
            "Nothing is lost: the next turn brings it along.",
        )

    def _displaced(self) -> Warned:
        return Warned(
            "session_diverged",
            f"Somebody used this session outside Clew during the run, and {self.adapter.name} continues it there. "
            "Nothing is lost: the next turn brings this one along.",
        )

    def _altered(self, pin: Pin) -> Warned:
        return Warned(
            "session_damaged",
            f"Something altered {self.adapter.name}'s session file ({file_of(self.adapter, pin)}) during the run. "
            "Nothing is lost: the next turn starts a fresh session with the whole conversation.",
        )

    def _answer_turn(self, end: AttemptEnd, now: float) -> Turn | None:
        text = self.answer.text
        if not text and end.outcome is not Outcome.SUCCESS:
            return None
        return Turn(
            id=TurnId(self.context.new_id()),
            role=Role.ASSISTANT,
            text=text,
            agent=self.run.agent,
            model=self.model,
            partial=end.outcome is not Outcome.SUCCESS,
            message_id=self.answer.message_id,
            run_id=self.run.id,
            created_at=now,
        )

    def _count(self, store: Store, plan: AttemptPlan, end: AttemptEnd, file: SessionFile) -> None:
        pin = self._pin(plan)
        total = end.result.usage_total or file.used
        own = usage_of_run(total, plan.used_before) if total else NO_USAGE
        cost_usd = end.result.cost_usd
        if cost_usd is None and end.result.cost_total_usd is not None:
            cost_usd = cost_of_run(end.result.cost_total_usd, pin.cost_total_usd)
        uncounted = end.result.uncounted
        if cost_usd and uncounted == NO_USAGE and end.outcome is Outcome.SUCCESS:
            keep_price(store, self.run.agent, self.model, end.result.usage, cost_usd)
        cost_usd = (cost_usd or 0.0) + price(store, self.run.agent, self.model, uncounted)
        self._spent[plan.attempt.id] = end.result.usage + own, cost_usd

    @property
    def usage(self) -> Usage:
        return sum((usage for usage, _ in self._spent.values()), NO_USAGE)

    @property
    def cost_usd(self) -> float:
        return sum(cost for _, cost in self._spent.values())

    def _error(self, end: AttemptEnd, status: RunStatus) -> AgentError | None:
        from clew.engine.finish import failures

        return failures.interrupted() if status is RunStatus.INTERRUPTED else failures.error_of(end, self.adapter.name)

    def _estimate(self, plan: AttemptPlan, end: AttemptEnd) -> dict[str, float | int]:
        """Estimates the cost of a fresh session with the transcript. For a fresh turn it is the turn's own cost."""
        other = self.usage
        if plan.attempt.resumed:
            requests = end.result.requests
            first = requests.first if requests is not None else other
            other = estimate_transcript_usage(
                other, first, plan.decision.transcript_chars, self.adapter.uncached_start_tokens
            )
        cost_usd = price_like(other, self.usage, self.cost_usd)
        return {"estimate_usd": cost_usd, "estimate_new_tokens": other.new_tokens}

    def _plain_resume(self, store: Store, spent: dict[str, Any], end: AttemptEnd) -> dict[str, float | int]:
        """An estimate of the cost with a plain `--resume` on every turn, if the agent reports enough for it."""
        requests = end.result.requests
        if requests is None:
            return {}
        run = replace(store.runs.require(self.run.id), **spent)
        other = plain_resume(run, requests, store.runs.last_measured(run.thread_id, run.agent))
        return {
            "plain_resume_usd": price_like(other.usage, run.usage, run.cost_usd),
            "context_tokens": requests.context_tokens,
            "plain_context_tokens": other.context_tokens,
        }

    def _keep_model(self, store: Store, now: float) -> None:
        """Stores the first run's model as the thread's, and the agent's default model once it is known."""
        if self.model is None:
            return
        thread = store.threads.require_by_id(self.run.thread_id)
        changes = {"model": self.model} if thread.model is None and thread.agent == self.run.agent else {}
        store.threads.update(thread.id, at=now, **changes)
        if self.run.model is None:
            store.key_values.set(default_model_key(self.run.agent), self.model)
