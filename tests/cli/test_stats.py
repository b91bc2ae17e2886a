"""`clew stats`, and the sums behind it."""

from __future__ import annotations

from typing import Any

from clew.cli.stats import estimate
from clew.core.savings import summed
from clew.core.usage import Usage
from clew.store.records import StatRow


def row(**changes: Any) -> StatRow:
    plain: dict[str, Any] = {
        "agent": "claude",
        "model": "m",
        "session_resumed": True,
        "reason": None,
        "outcome": "success",
        "runs": 1,
        "fallbacks": 0,
        "usage": Usage(1, 2, 3, 4),
        "cost_usd": 1.0,
        "prompt_chars": 10,
        "transcript_chars": 100,
        "estimated_runs": 1,
        "estimated_cost_usd": 1.0,
        "estimate_usd": 4.0,
    }
    return StatRow(**{**plain, **changes})


def test_the_rate_counts_only_runs_that_came_to_a_decision() -> None:
    sums = summed(
        [
            row(runs=6),
            row(session_resumed=False, reason="first_turn", runs=2),
            row(session_resumed=False, reason=None, outcome="cancelled", runs=5),
        ]
    )

    assert (sums.runs, sums.decided, sums.resumed) == (13, 8, 6)
    assert sums.resume_rate == 0.75
    assert sums.fresh == {"first_turn": 2}
    assert sums.outcomes == {"success": 8, "cancelled": 5}


def test_the_estimate_compares_only_runs_that_have_one() -> None:
    sums = summed([row(), row(estimated_runs=0, estimated_cost_usd=0.0, estimate_usd=0.0, cost_usd=9.0)])

    assert sums.cost_usd == 10.0
    assert (sums.transcript_usd, sums.estimated_cost_usd, sums.saved_usd) == (4.0, 1.0, 3.0)
    assert sums.saved_share == 0.75


def test_nothing_sums_to_nothing() -> None:
    sums = summed([])

    assert (sums.runs, sums.resume_rate, sums.saved_share) == (0, None, None)


def test_what_resuming_saved_or_lost_is_said_in_two_lines_at_most() -> None:
    [_, (saved, words)] = estimate(summed([row()]))
    assert (saved, words) == (3.0, "saved by resuming, 75% (estimate)")

    [_, (lost, words)] = estimate(summed([row(estimated_cost_usd=4.5)]))
    assert (lost, words) == (0.5, "more than the transcript would have cost (estimate)")

    assert estimate(summed([row(estimated_cost_usd=4.0)])) == []


def test_stats_name_reasons_costs_and_an_estimate(cli: Any) -> None:
    assert cli.run("stats").err.startswith("No runs yet.")
    cli.run("ask", "-t", "t", "one")
    cli.run("ask", "-t", "t", "two")
    cli.run("ask", "-t", "other", "three")

    stats = cli.run("stats", "--json").json
    assert (stats["runs"], stats["resumed"], stats["fresh"]) == (3, 1, {"first_turn": 2})
    assert stats["estimate"]["runs"] == 3
    assert stats["cost_usd"] > 0
    assert cli.run("stats", "--thread", "t", "--json").json["resume_rate"] == 0.5
    assert cli.run("stats", "--since", "1h", "--json").json["runs"] == 3
    text = cli.run("stats").out
    assert "3 runs (33% resumed)" in text
    assert text.count("(estimate)") == 2
    assert "fresh: first turn of the thread (first_turn)" in text
