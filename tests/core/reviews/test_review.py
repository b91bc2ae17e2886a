"""Findings follow from the answers in order; measures follow from the rounds."""

from __future__ import annotations

from typing import Any

import pytest

from clew.core.costs.usage import Usage
from clew.core.record import replace
from clew.core.reviews.review import (
    Finding,
    FindingState,
    FindingVerdict,
    ReviewAnswer,
    ReviewRound,
    RoundStatus,
    Severity,
    findings_of,
    measure,
    numbered,
)
from clew.core.runs.run import Owner


def a_round(number: int, review_id: str = "2026-01-02-001", **changes: Any) -> ReviewRound:
    made = ReviewRound(review_id, number, RoundStatus.DONE, "claude", "opus", Owner("host", 1, 1.0), runs=1)
    return replace(made, **changes)


def found(title: str, id: str = "") -> Finding:
    return Finding(id, Severity.LOW, "a.py", 1, title, "detail")


def test_findings_are_numbered_through_the_review() -> None:
    first = numbered([found("one"), found("two")], 0, 1)
    second = numbered([found("three")], len(first), 2)
    assert [(each.id, each.round, each.state_round) for each in (*first, *second)] == [
        ("F1", 1, 1),
        ("F2", 1, 1),
        ("F3", 2, 2),
    ]


def test_the_last_word_on_a_finding_holds() -> None:
    rounds = [
        a_round(1, answer=ReviewAnswer("", numbered([found("one"), found("two")], 0, 1))),
        a_round(
            2,
            answer=ReviewAnswer(
                "", (), (FindingVerdict("F1", FindingState.FIXED, "Good."), FindingVerdict("F9", FindingState.FIXED))
            ),
        ),
        a_round(3, status=RoundStatus.FAILED, answer=None),
        a_round(
            4,
            answer=ReviewAnswer(
                "", numbered([found("three")], 2, 4), (FindingVerdict("F1", FindingState.OPEN, "It is back."),)
            ),
        ),
    ]
    states = {each.id: (each.state, each.state_round, each.note) for each in findings_of(rounds)}
    assert states == {
        "F1": (FindingState.OPEN, 4, "It is back."),
        "F2": (FindingState.OPEN, 1, ""),
        "F3": (FindingState.OPEN, 4, ""),
    }
    assert findings_of(rounds[:2])[0].state is FindingState.FIXED
    assert findings_of([]) == ()


def test_a_verdict_cannot_be_on_a_finding_of_the_same_round() -> None:
    """`F1` is not known when the first round speaks of it."""
    round_ = a_round(
        1, answer=ReviewAnswer("", numbered([found("one")], 0, 1), (FindingVerdict("F1", FindingState.WITHDRAWN),))
    )
    assert findings_of([round_])[0].state is FindingState.OPEN


def test_measures_count_follow_ups_by_how_they_began() -> None:
    usage = Usage(100, 10, 1000, 50)
    took: dict[str, Any] = {"usage": usage, "cost_usd": 0.5, "started_at": 10.0, "ended_at": 14.0}
    rounds = [
        a_round(1, reason="first_turn", **took),
        a_round(2, session_resumed=True, **took),
        a_round(3, session_resumed=True, status=RoundStatus.FAILED, **took),
        a_round(4, reason="expired", session_age_s=90_000.0, **took),
        a_round(5, reason="rejected", fallback=True, **took),
        a_round(6, model="sonnet", reason="no_pin", **took),
        a_round(7, runs=0, status=RoundStatus.FAILED),
        a_round(1, "2026-01-02-002", reason="first_turn", **took),
    ]
    came_to = measure(rounds)
    assert (came_to.reviews, came_to.rounds, came_to.follow_ups, came_to.resumed) == (2, 7, 5, 2)
    assert (came_to.failed, came_to.fallbacks) == (1, 1), "a round that no agent saw does not count"
    assert came_to.misses == {"expired": 1, "rejected": 1, "no_pin": 1}
    assert came_to.expiry_ages_s == (90_000.0,)
    assert came_to.rounds_per_review == {6: 1, 1: 1}
    assert came_to.by_model == {"opus": (4, 2), "sonnet": (1, 0)}
    assert came_to.resume_rate == pytest.approx(0.4) and came_to.fallback_share == pytest.approx(0.2)
    assert (came_to.with_resume.rounds, came_to.without_resume.rounds) == (2, 3)
    assert came_to.with_resume.usage == usage + usage
    assert came_to.with_resume.usage.units == pytest.approx(2 * usage.units)
    assert (came_to.without_resume.cost_usd, came_to.without_resume.seconds) == (1.5, 12.0)


def test_imported_rounds_are_rounds_of_their_review_and_nothing_else() -> None:
    rounds = [
        a_round(1, runs=0, reason="imported"),
        a_round(2, runs=0, reason="imported"),
        a_round(3, session_resumed=True),
        a_round(1, "2026-01-02-002", runs=0, reason="imported"),
    ]
    came_to = measure(rounds)
    assert (came_to.reviews, came_to.rounds, came_to.imported) == (2, 1, 3)
    assert came_to.rounds_per_review == {3: 1, 1: 1}
    assert (came_to.follow_ups, came_to.resumed, dict(came_to.misses)) == (1, 1, {})


def test_nothing_measured_has_no_rate() -> None:
    came_to = measure([])
    assert (came_to.resume_rate, came_to.fallback_share, came_to.rounds) == (None, None, 0)
    assert measure([a_round(1, model=None)]).resume_rate is None


def test_a_round_that_runs_takes_no_negative_time() -> None:
    assert measure([a_round(2, started_at=100.0, ended_at=None)]).without_resume.seconds == 0.0
