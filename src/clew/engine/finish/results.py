"""The end of an attempt, written down: the answer as a turn, the pin by the outcome table, the run's figures.

Runs in the store's thread, inside one transaction: either all of it is true afterwards or none of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.agents.adapter import Adapter
from clew.core.answer import GrowingAnswer
from clew.core.decision import Resume
from clew.core.events import SessionStarted, Warned
from clew.core.history import Role, Turn
from clew.core.ids import SessionId, TurnId
from clew.core.outcome import Outcome, after
from clew.core.pins import Observed, Pin, PinState, absorb, holds, move
from clew.core.plain_resume import plain_resume
from clew.core.record import Record, replace
from clew.core.run import Run, RunStatus
from clew.core.usage import NO_USAGE, Usage, cost_of_run, estimate_transcript_usage, price_like, usage_of_run
from clew.engine.attempt import AttemptEnd
from clew.engine.failures import error_of
from clew.engine.plan import Plan, default_model_fact
from clew.engine.prices import keep_price, price
from clew.engine.sessions import file_of, is_full, took, tool_called, used
from clew.engine.settings import Surroundings
from clew.errors import AgentFailed, ClewError, UsageLimit
from clew.store.store import Store

CLEW_ENDED = "Clew was ended while the run was going on."
FOUND_IN_MID_TURN = frozenset({Outcome.POISONED, Outcome.OVERFLOW})  # a tool may have run before


class Finished(Record):
    """A run that has ended, with what it said and, when it did not answer, why."""

    run: Run
    text: str
    error: ClewError | None


class Closing:
    """One run's book-keeping over its attempts."""

    def __init__(self, run: Run, adapter: Adapter, around: Surroundings, answer: GrowingAnswer) -> None:
        self.run = run
        self.adapter = adapter
        self.around = around
        self.answer = answer
        self.plan: Plan  # of the attempt under way
        self.model = run.model  # and as the agent says, when nothing else did
        self.session_id: str | None = None  # of the attempt under way, where the agent names its sessions itself
        self._spent: dict[str, tuple[Usage, float]] = {}  # by attempt: a transaction may be tried again

    def begin(self, plan: Plan) -> None:
        """Before each attempt."""
        self.plan = plan
        self.session_id = None

    def hear(self, event: SessionStarted) -> bool:
        """The agent has said what it runs. True: it named the session itself, and that is to be kept (`adopt`)."""
        self.model = self.model or event.model or None
        in_place = self.plan.attempt.resumed and self.plan.launch.fork_of is None
        if self.plan.abilities.choose_id or in_place:
            return False
        self.session_id = event.session_id
        return True

    def adopt(self, store: Store) -> None:
        """From now on the session's file can be found, whatever dies next."""
        pin = self._pin(self.plan)
        store.save_pin(pin)
        store.update_attempt(self.plan.attempt.id, session_id=pin.session_id)
        store.update_run(self.run.id, session_id=pin.session_id)

    def _pin(self, plan: Plan) -> Pin:
        return replace(plan.pin, session_id=SessionId(self.session_id)) if self.session_id else plan.pin

    def tool_called(self, end: AttemptEnd) -> bool:
        """By the word of the session's file: a stream may leave out a tool that was stopped half-way."""
        if end.outcome not in FOUND_IN_MID_TURN or not self.plan.abilities.session_files:
            return False
        return tool_called(self.adapter, self._pin(self.plan))

    def conclude(self, store: Store, plan: Plan, end: AttemptEnd, status: RunStatus) -> tuple[Finished, Warned | None]:
        """After the last attempt."""
        now = self.around.clock()
        answer = self._answer_turn(end, now)
        pin, warning = self.leave(store, plan, end, answer)
        if answer is not None:  # the session's file may be the first to name the model
            answer = replace(answer, model=self.model)
            store.add_turn(self.run.thread_id, answer)
        error = error_of(end, self.adapter.name)
        if status is RunStatus.INTERRUPTED:
            error = AgentFailed(CLEW_ENDED, hint="What was said so far is kept; ask to go on.")
        spent = {
            "session_id": pin.session_id,
            "model": self.model,
            "usage": self.usage,
            "cost_usd": self.cost_usd,
        }
        run = store.update_run(
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
        return Finished(run, answer.text if answer else "", error), warning

    def leave(self, store: Store, plan: Plan, end: AttemptEnd, answer: Turn | None = None) -> tuple[Pin, Warned | None]:
        """After any attempt: moves the pin by the outcome table and closes the attempt."""
        now = self.around.clock()
        self._count(store, plan, end)
        store.update_attempt(
            plan.attempt.id,
            outcome=end.outcome,
            exit_status=end.exit_status,
            stderr_tail=end.stderr_tail,
            ended_at=now,
        )
        total = end.ending.cost_total_usd
        pin = replace(
            self._pin(plan),
            used_at=now,
            model=self.model or plan.pin.model,
            cost_total_usd=plan.pin.cost_total_usd if total is None else total,
        )
        warning = None
        if end.outcome is Outcome.SUCCESS:
            pin, warning = self._confirmed(plan, pin, answer)
        else:
            pin = after(pin, end.outcome)
        if end.outcome is Outcome.USAGE_LIMIT:
            pin = self._waiting(plan, pin, end, now)
        store.save_pin(pin)
        return pin, warning

    def _waiting(self, plan: Plan, pin: Pin, end: AttemptEnd, now: float) -> Pin:
        """A limit is the account's: the run is no use of the session, and the time until it resets does not age it."""
        from clew.core.limits import reset_time

        resets_at = reset_time(end.ending.diagnosis.resets_at, now)
        count = plan.decision.pin.resume_count if isinstance(plan.decision, Resume) else pin.resume_count
        return replace(pin, resume_count=count, used_at=max(now, resets_at or now))

    def _confirmed(self, plan: Plan, pin: Pin, answer: Turn | None) -> tuple[Pin, Warned | None]:
        """A success counts for the pin only when the session's file bears it out: prompt and answer are in it.

        An answer that the file lacks is not absorbed, so the next turn brings it along, or is fresh.
        """
        if not plan.abilities.session_files:
            observed = Observed(exists=True, holds_pending=True, said=answer.text if answer is not None else "")
        else:
            observed = took(self.adapter, pin)
        if observed.damaged:
            return pin, self._altered(pin)
        if not observed.exists or not observed.holds_pending or pin.pending is None:
            return pin, self._not_saved(pin, "this turn")
        self.model = self.model or observed.model or None
        settled = replace(absorb(pin, observed, answer), model=self.model or pin.model)
        if answer is not None and not holds(settled, answer):
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
            id=TurnId(self.around.new_id()),
            role=Role.ASSISTANT,
            text=text,
            agent=self.run.agent,
            model=self.model,
            partial=end.outcome is not Outcome.SUCCESS,
            message_id=self.answer.message_id,
            run_id=self.run.id,
            created_at=now,
        )

    def _count(self, store: Store, plan: Plan, end: AttemptEnd) -> None:
        pin = self._pin(plan)
        total = end.ending.usage_total or (used(self.adapter, pin) if plan.abilities.session_files else None)
        own = usage_of_run(total, plan.used_before) if total else NO_USAGE
        cost_usd = end.ending.cost_usd
        if cost_usd is None and end.ending.cost_total_usd is not None:
            cost_usd = cost_of_run(end.ending.cost_total_usd, pin.cost_total_usd)
        uncounted = end.ending.uncounted
        if cost_usd and uncounted == NO_USAGE and end.outcome is Outcome.SUCCESS:
            keep_price(store, self.run.agent, self.model, end.ending.usage, cost_usd)
        cost_usd = (cost_usd or 0.0) + price(store, self.run.agent, self.model, uncounted)
        self._spent[plan.attempt.id] = end.ending.usage + own, cost_usd

    @property
    def usage(self) -> Usage:
        return sum((usage for usage, _ in self._spent.values()), NO_USAGE)

    @property
    def cost_usd(self) -> float:
        return sum(cost for _, cost in self._spent.values())

    def _estimate(self, plan: Plan, end: AttemptEnd) -> dict[str, float | int]:
        """What the transcript would have cost. A fresh turn sent it, so there it is the cost itself."""
        other = self.usage
        if plan.attempt.resumed:
            requests = end.ending.requests
            first = requests.first if requests is not None else other
            other = estimate_transcript_usage(other, first, plan.decision.transcript_chars, self.adapter.anew_tokens)
        cost_usd = price_like(other, self.usage, self.cost_usd)
        return {"estimate_usd": cost_usd, "estimate_new_tokens": other.new_tokens}

    def _plain_resume(self, store: Store, spent: dict[str, Any], end: AttemptEnd) -> dict[str, float | int]:
        """What a plain `--resume` every turn would have cost, where the agent says enough to tell."""
        requests = end.ending.requests
        if requests is None:
            return {}
        run = replace(store.require_run(self.run.id), **spent)
        other = plain_resume(run, requests, store.last_measured_run(run.thread_id, run.agent))
        return {
            "plain_resume_usd": price_like(other.usage, run.usage, run.cost_usd),
            "context_tokens": requests.context_tokens,
            "plain_context_tokens": other.context_tokens,
        }

    def _keep_model(self, store: Store, now: float) -> None:
        """The first run's model is the thread's from then on; an agent's default is kept once it is known."""
        if self.model is None:
            return
        thread = store.require_thread_by_id(self.run.thread_id)
        changes = {"model": self.model} if thread.model is None and thread.agent == self.run.agent else {}
        store.update_thread(thread.id, at=now, **changes)
        if self.run.model is None:
            store.save_fact(default_model_fact(self.run.agent), self.model)
