"""`clew stats`, and the totals behind it."""

from __future__ import annotations

from typing import Any

import pytest

from clew.api.stats import Dimension, grouped
from clew.cli.stats import DIMENSIONS, estimate
from clew.core.costs.savings import daily_savings, total_savings
from clew.core.costs.usage import StatRow, Usage


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
        "plain_resume_runs": 1,
        "plain_resume_cost_usd": 1.0,
        "plain_resume_usd": 1.5,
    }
    return StatRow(**{**plain, **changes})


def test_the_rate_counts_only_runs_that_came_to_a_decision() -> None:
    sums = total_savings(
        [
            row(runs=4),
            row(reason="history_changed", runs=2, rewound=1),
            row(session_resumed=False, reason="first_turn", runs=2),
            row(session_resumed=False, reason=None, outcome="cancelled", runs=5),
        ]
    )

    assert (sums.runs, sums.decided, sums.resumed, sums.rewound) == (13, 8, 6, 1)
    assert sums.resume_rate == 0.75
    assert sums.fresh == {"first_turn": 2}
    assert sums.outcomes == {"success": 8, "cancelled": 5}


def test_a_run_without_an_estimate_counts_with_what_it_cost_in_the_total_and_by_day() -> None:
    without = dict.fromkeys(("estimated_runs", "estimated_cost_usd", "estimate_usd"), 0)
    without |= dict.fromkeys(("plain_resume_runs", "plain_resume_cost_usd", "plain_resume_usd"), 0)
    rows = [row(day=3), row(day=4, cost_usd=9.0, **without)]
    sums = total_savings(rows)

    assert sums.cost_usd == 10.0
    assert (sums.transcript_usd, sums.plain_resume_usd, sums.saved_usd) == (13.0, 10.5, 3.0)
    assert (sums.estimated_runs, sums.plain_resume_runs) == (1, 1)
    assert sums.saved_share == 3 / 13
    assert [(day.day, day.cost_usd, day.transcript_usd, day.plain_resume_usd) for day in daily_savings(rows)] == [
        (3, 1.0, 4.0, 1.5),
        (4, 9.0, 9.0, 9.0),
    ]


def test_no_runs_have_a_total_of_zero() -> None:
    sums = total_savings([])

    assert (sums.runs, sums.resume_rate, sums.saved_share) == (0, None, None)


def test_the_estimates_are_at_most_three_lines() -> None:
    [_, (saved, words), plain] = estimate(total_savings([row()]))
    assert (saved, words) == (3.0, "saved by resuming, 75% (estimate)")
    assert plain == (1.5, "with a plain --resume every turn (estimate)")

    dear = row(cost_usd=4.5, estimated_cost_usd=4.5, plain_resume_cost_usd=4.5)
    [_, (lost, words), plain] = estimate(total_savings([dear]))
    assert (lost, words) == (0.5, "more than the transcript would have cost (estimate)")
    assert plain[0] == 1.5, "cheaper than Clew, and shown as such"

    same = row(estimate_usd=1.0, plain_resume_usd=1.0)
    assert estimate(total_savings([same])) == []

    some = row(cost_usd=2.0, plain_resume_runs=0, plain_resume_cost_usd=0.0, plain_resume_usd=0.0)
    assert estimate(total_savings([row(), some]))[2] == (
        3.5,
        "with a plain --resume every turn (estimate of 1 of 2 runs, the rest as paid)",
    )


def test_the_option_by_takes_every_dimension() -> None:
    assert [each.value for each in Dimension] == list(DIMENSIONS)


def test_groups_are_sorted_by_cost_and_days_in_order_and_add_up_to_the_total() -> None:
    rows = [
        row(kind="chat", model="a", day=20_001, cost_usd=1.0, directory="/shop/src"),
        row(kind="job", model=None, day=20_000, cost_usd=3.0, runs=2, directory="/trees/issue-7"),
        row(kind="job", model="b", day=20_000, cost_usd=2.0, directory="/elsewhere"),
    ]
    projects = {"/shop/src": "/shop", "/trees/issue-7": "/shop", "/elsewhere": "/elsewhere"}
    expected = {
        Dimension.KIND: [("job", 3, 5.0), ("chat", 1, 1.0)],
        Dimension.PROJECT: [("/shop", 3, 4.0), ("/elsewhere", 1, 2.0)],
        Dimension.AGENT: [("claude", 4, 6.0)],
        Dimension.MODEL: [(None, 2, 3.0), ("b", 1, 2.0), ("a", 1, 1.0)],
        Dimension.DAY: [("2024-10-04", 3, 5.0), ("2024-10-05", 1, 1.0)],
    }
    for by, groups in expected.items():
        found = grouped(rows, by, projects)
        assert [(each.name, each.savings.runs, each.savings.cost_usd) for each in found.groups] == groups
        assert (found.total.runs, found.total.cost_usd) == (4, 6.0)


def test_stats_by_kind_say_what_jobs_and_chats_cost_and_each_run_says_what_it_belongs_to(cli: Any) -> None:
    assert cli.run("stats", "--by", "kind").err.startswith("No runs yet.")
    assert cli.run("stats", "--by", "kind", "--json").json["groups"] == []
    cli.run("ask", "-t", "t", "one")
    cli.run("ask", "-t", "t", "two")
    job = cli.run("jobs", "submit", "--wait", "--json", "!say done").json

    stats = cli.run("stats", "--by", "kind", "--json").json
    assert {group["name"]: (group["runs"], group["resumed"]) for group in stats["groups"]} == {
        "chat": (2, 1),
        "job": (1, 0),
    }
    of_job = next(group for group in stats["groups"] if group["name"] == "job")
    assert of_job["cost_usd"] == pytest.approx(job["cost_usd"], abs=2e-6) and job["cost_usd"] > 0
    total = sum(group["cost_usd"] for group in stats["groups"])  # of amounts that are rounded
    assert (stats["by"], stats["total"]["runs"], stats["total"]["cost_usd"]) == (
        "kind",
        3,
        pytest.approx(total, abs=2e-6),
    )
    lines = [line.split() for line in cli.run("stats", "--by", "kind").out.splitlines()]
    assert lines[0] == ["KIND", "RUNS", "RESUMED", "RATE", "READ", "WRITTEN", "COST", "SAVED"]
    assert {line[0]: line[1:4] for line in lines[1:]} == {
        "chat": ["2", "1", "50%"],
        "job": ["1", "0", "0%"],
        "total": ["3", "1", "33%"],
    }
    [project] = cli.run("stats", "--by", "project", "--thread", "t", "--json").json["groups"]
    assert (project["name"], project["runs"]) == (str(cli.stage.work), 2)
    bad = cli.run("stats", "--by", "colour")
    assert (bad.code, bad.out) == (2, "")
    assert cli.run("stats", "--by", "kind", "reviews").code == 2

    newest, *_, oldest = cli.run("runs", "list", "--json").json
    assert (newest["kind"], newest["belongs_to"]) == ("job", {"kind": "job", "id": job["id"], "name": None})
    assert (oldest["kind"], oldest["belongs_to"]) == ("chat", None)
    assert f"job {job['id']}" in cli.run("runs", "show", newest["id"]).out
    assert cli.run("runs", "show", newest["id"], "--json").json["belongs_to"]["id"] == job["id"]


@pytest.mark.rest
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
    assert text.count("(estimate)") == 3
    assert "fresh: first turn of the thread (first_turn)" in text
