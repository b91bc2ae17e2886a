"""Turns records into the JSON objects of docs/http.md, as plain dicts; schemas.py describes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from clew.api.views import RunView, StoredEvent, ThreadSummary, ThreadView, TurnView
from clew.api.wire.shape import stamp
from clew.core.costs.forecast import Forecast
from clew.core.costs.savings import DailySavings, Savings, transcript_new_tokens, transcript_tokens
from clew.core.explanation import Explanation
from clew.core.runs.question import Question, QuestionState
from clew.core.runs.run import LIVE, Run
from clew.core.thread import Origin
from clew.server.models.json_body import money
from clew.server.models.run_errors import error_of

Body = dict[str, Any]


def thread(summary: ThreadSummary) -> Body:
    record = summary.thread
    live = summary.live
    return {
        "id": record.id,
        "name": record.name,
        "cwd": record.cwd,
        "agent": record.agent,
        "model": record.model,
        "permissions": record.permissions.value,
        "trust": record.trust.value,
        "visibility": record.visibility.value,
        "instructions": record.standing,
        "kind": record.kind,
        "origin": None if record.origin is None else origin(record.origin),
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
        "version": summary.version,
        "turns": summary.turns,
        "cost_usd": money(summary.cost_usd),
        "live": None if live is None else {"run_id": live.id, "status": live.status.value},
        "questions": summary.questions,
        "last_text": summary.last_text,
    }


def explanation(told: Explanation) -> Body:
    other = told.with_transcript
    return {
        **told.as_dict(),
        "expected": forecast(told.expected),
        "with_transcript": None if other is None else forecast(other),
    }


def forecast(found: Forecast) -> Body:
    return {**found.as_dict(), "cost_usd": money(found.cost_usd)}


def origin(found: Origin) -> Body:
    return {"how": found.how.value, "of": [source.as_dict() for source in found.of], "round": found.round}


def turn(view: TurnView) -> Body:
    record = view.turn
    return {
        "id": record.id,
        "position": view.position,
        "role": record.role.value,
        "text": record.text,
        "agent": record.agent,
        "model": record.model,
        "partial": record.partial,
        "revision": record.revision,
        "created_at": stamp(record.created_at),
        "run_id": record.run_id,
        "run": None if view.run is None else run_summary(view.run, view.stderr_tail),
        "steps": view.steps,
    }


def run_summary(record: Run, stderr_tail: str) -> Body:
    return {
        "id": record.id,
        "status": record.status.value,
        "session_resumed": record.session_resumed,
        "reason": record.reason,
        "fallback": record.fallback,
        "error": error_of(record),
        "resets_at": stamp(record.resets_at),
        "stderr_tail": stderr_tail,
        "usage": record.usage.as_dict(),
        "cost_usd": money(record.cost_usd),
        "estimate_usd": money(record.estimate_usd),
        "prompt_chars": record.prompt_chars,
        "transcript_chars": record.transcript_chars,
        "started_at": stamp(record.started_at),
        "ended_at": stamp(record.ended_at),
    }


def run(view: RunView) -> Body:
    record = view.run
    asked = view.question
    return {
        **run_summary(record, view.stderr_tail),
        "thread_id": record.thread_id,
        **view.belonging.to_json(),
        "agent": record.agent,
        "model": record.model,
        "prompt": record.prompt,
        "prompt_turn_id": record.prompt_turn_id,
        "answer_turn_id": record.answer_turn_id,
        "session_id": record.session_id,
        "outcome": record.outcome,
        "question": None if asked is None else question(asked, live=record.status in LIVE),
        "held": record.asked.held,
        "cancel_requested": record.cancel_requested,
        "not_before": stamp(record.asked.not_before),
        "last_seq": view.last_seq,
        "created_at": stamp(record.created_at),
    }


def question(record: Question, *, live: bool) -> Body:
    """A question with a reply counts as answered, also before its agent got the reply."""
    reply = None if record.state is not QuestionState.OPEN else record.reply
    return {
        "id": record.id,
        "run_id": record.run_id,
        "thread_id": record.thread_id,
        "tool": record.tool,
        "input": dict(record.input),
        "is_form": record.is_form,
        "state": record.state.value if reply is None else QuestionState.ANSWERED.value,
        "asked_at": stamp(record.asked_at),
        "answered_at": stamp(record.answered_at),
        "allowed": record.allowed if reply is None else reply.allow,
        "live": live,
    }


def thread_view(found: ThreadView) -> Body:
    live = {each.run.id for each in found.runs if each.run.status in LIVE}
    return {
        "thread": thread(found.summary),
        "turns": [turn(each) for each in found.turns],
        "more": found.more,
        "runs": [run(each) for each in found.runs],
        "questions": [question(asked, live=asked.run_id in live) for asked in found.questions],
        "version": found.version,
    }


def event(stored: StoredEvent) -> Body:
    return {"seq": stored.seq, "at": stamp(stored.at), "kind": stored.kind, "body": dict(stored.body)}


def savings(found: Savings) -> Body:
    return {
        "runs": found.runs,
        "resumed": found.resumed,
        "resume_rate": found.resume_rate,
        "fresh": dict(found.fresh),
        "outcomes": dict(found.outcomes),
        "fallbacks": found.fallbacks,
        "usage": found.usage.as_dict(),
        "cost_usd": money(found.cost_usd),
        "unpriced_runs": found.unpriced_runs,
        "transcript_usd": money(found.transcript_usd),
        "saved_usd": money(found.saved_usd),
        "saved_share": found.saved_share,
        "estimated_runs": found.estimated_runs,
        "plain_resume_usd": money(found.plain_resume_usd),
        "plain_resume_runs": found.plain_resume_runs,
    }


def run_figures(record: Run) -> Body:
    """A run as a point of a chart."""
    return {
        "run_id": record.id,
        "at": stamp(record.ended_at or record.created_at),
        "agent": record.agent,
        "model": record.model,
        "session_resumed": record.session_resumed,
        "reason": record.reason,
        "shown_tokens": record.usage.shown_tokens,
        "cache_read_tokens": record.usage.cache_read_input_tokens,
        "new_tokens": record.usage.new_tokens,
        "transcript_tokens": transcript_tokens(record),
        "transcript_new_tokens": transcript_new_tokens(record),
        "cost_usd": money(record.cost_usd),
        "estimate_usd": money(record.estimate_usd),
        "plain_resume_usd": money(record.plain_resume_usd),
    }


def day(found: DailySavings) -> Body:
    return {
        "day": datetime.fromtimestamp(found.day * 86_400, UTC).date().isoformat(),
        "runs": found.runs,
        "resumed": found.resumed,
        "cost_usd": money(found.cost_usd),
        "transcript_usd": money(found.transcript_usd),
        "plain_resume_usd": money(found.plain_resume_usd),
        "shown_tokens": found.usage.shown_tokens,
        "output_tokens": found.usage.output_tokens,
    }
