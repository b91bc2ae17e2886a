"""Explains a turn before it is asked: the decision, the exact prompt, the queue and the expected price. Stores nothing.

The decision and its prompt come from the planner that a run uses. The figures for the price are read from earlier runs:
what the session held when its last run ended, when the agent's model was last used, and what it charged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.agents.adapter import Adapter
from clew.core.costs.forecast import (
    Pricing,
    SessionSize,
    StartSize,
    fresh_usage,
    resumed_usage,
    transcript_usage,
)
from clew.core.costs.plain_resume import CACHE_LIFE_S
from clew.core.costs.usage import CHARS_PER_TOKEN
from clew.core.decision import Decision, DecisionCase, Resume
from clew.core.explanation import Explanation, decision_words, standing_note, turns_of
from clew.core.history import Role
from clew.core.record import Record, replace
from clew.core.runs.run import Run
from clew.engine import recovery
from clew.engine.finish.prices import unit_price
from clew.engine.planning.preview import planning
from clew.engine.request import TurnRequest, check_argument
from clew.engine.rules.shown import ShownRules, shown_rules
from clew.store.store import Store

if TYPE_CHECKING:
    from clew.engine.engine import Engine

RECENT_RUNS = 10  # among the newest runs, one that used the same model tells whether its cache is still alive


async def explain(engine: Engine, request: TurnRequest) -> Explanation:
    """Raises AgentMissing, and UsageError for a model that cannot be one."""
    can = await engine.abilities(request.agent, engine.find(request.agent))
    rules = await shown_rules(
        engine.adapter(request.agent), can, request, engine.store, engine.settings, engine.context
    )
    plan = await planning(engine, request.agent, rules)
    adapter, context = engine.adapter(request.agent), engine.context

    def look(store: Store) -> Explanation:
        planner, run = plan(store, request)
        check_argument("model", run.model)
        case, decision, arrived = planner.planned(store, run)
        waits_for, unfinished = recovery.live_run_ahead(store, run, context)
        figures = _Figures.read(store, adapter, run, case, decision, rules)
        told = _explanation(adapter, request, run, decision, figures, waits_for, unfinished)
        return replace(told, outside_turns=len(arrived.turns), rules=rules.names)

    return await engine.store.read_large(look)


def _explanation(
    adapter: Adapter,
    request: TurnRequest,
    run: Run,
    decision: Decision,
    figures: _Figures,
    waits_for: str | None,
    unfinished: str | None,
) -> Explanation:
    prompt = adapter.sent_text(decision.prompt)
    pricing, start, session = figures.pricing, figures.start, figures.session
    if session is None:
        usage, transcript = fresh_usage(start, len(prompt), pricing), None
    else:
        usage = resumed_usage(session, start, len(prompt), pricing)
        transcript = pricing.forecast(transcript_usage(usage, start, decision.transcript_chars))
    sent, left_out = turns_of(decision)
    return Explanation(
        thread=request.thread.name,
        new_thread=False,
        agent=run.agent,
        model=run.model,
        resumes=isinstance(decision, Resume),
        reason=decision.reason,
        words=decision_words(decision),
        session_id=decision.session_id if isinstance(decision, Resume) else None,
        copies=isinstance(decision, Resume) and decision.copies,
        rewound_to=decision.rewind.number if isinstance(decision, Resume) and decision.rewind is not None else None,
        prompt=prompt,
        prompt_chars=len(prompt),
        turns_sent=sent,
        turns_left_out=left_out,
        standing=standing_note(decision),
        transcript_chars=decision.transcript_chars,
        held_tokens=session.tokens if session is not None else None,
        held_is_measured=session is not None and session.is_measured,
        is_cached=session is not None and session.is_cached,
        expected=pricing.forecast(usage),
        with_transcript=transcript,
        waits_for=waits_for,
        unfinished=unfinished,
        images=run.images,
    )


class _Figures(Record):
    """What the price of a turn depends on."""

    start: StartSize
    session: SessionSize | None  # None: a fresh one
    pricing: Pricing

    @classmethod
    def read(
        cls, store: Store, adapter: Adapter, run: Run, case: DecisionCase, decision: Decision, rules: ShownRules
    ) -> _Figures:
        recent = [
            each
            for each in store.runs.newest(limit=RECENT_RUNS)
            if (each.agent, each.model) == (run.agent, run.model) and each.started_at is not None
        ]
        used_at = max((case.now if each.ended_at is None else each.ended_at for each in recent), default=None)
        more = rules.rules.chars // CHARS_PER_TOKEN if rules.folder else 0  # in a prompt they are counted with it
        start = StartSize(
            adapter.start_tokens + more,
            adapter.uncached_start_tokens + more,
            is_cached=used_at is not None and case.now - used_at <= CACHE_LIFE_S,
        )
        is_written = next((each.usage.is_written for each in recent if each.usage.new_tokens), True)
        pricing = Pricing(unit_price(store, run.agent, run.model), is_written)
        session = _session_size(store, adapter, case, decision) if isinstance(decision, Resume) else None
        return cls(start, session, pricing)


def _session_size(store: Store, adapter: Adapter, case: DecisionCase, decision: Resume) -> SessionSize:
    pin = decision.pin
    held = case.seen[: len(pin.absorbed)]
    last = measured = store.runs.last_measured_in(pin.thread_id, pin.session_id)
    if decision.rewind is not None:  # the copy is as large as the session was after that turn
        turn = store.turns.find(decision.rewind.turn_id)
        measured = store.runs.find(turn.run_id) if turn is not None and turn.run_id is not None else None
    used_at = pin.used_at if last is None or last.ended_at is None else last.ended_at
    tokens = adapter.start_tokens + sum(len(turn.text) for turn in held) // CHARS_PER_TOKEN
    if measured is not None and measured.context_tokens is not None:
        tokens = measured.context_tokens
    answer = held[-1].text if held and held[-1].role is Role.ASSISTANT else ""
    return SessionSize(
        tokens,
        is_measured=measured is not None and measured.context_tokens is not None,
        is_cached=case.now - used_at <= CACHE_LIFE_S,
        last_answer_tokens=len(answer) // CHARS_PER_TOKEN,
    )
