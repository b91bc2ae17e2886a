"""/metrics, read by the parser of prometheus-client."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from clew.core.costs.usage import Usage
from clew.core.reviews.review import ReviewMeasures
from clew.server.models.metrics import CONTENT_TYPE, of_jobs, of_reviews, of_runs, written
from clew.store.records import RunTotals
from clew.testing.model.scripts import Hang, Reply, Request
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import Reviewer, answer, finding, repository
from server.daemons import BASE, LocalDaemon, log_in
from server.routes.test_reviews import over, started

COUNTERS = {
    "clew_runs",
    "clew_runs_resumed",
    "clew_runs_rewound",
    "clew_runs_fresh",
    "clew_fallbacks",
    "clew_tokens",
    "clew_cost_usd",
    "clew_reviews",
    "clew_review_rounds",
    "clew_review_rounds_failed",
    "clew_review_follow_ups",
    "clew_review_misses",
    "clew_review_fallbacks",
    "clew_hook_events",
}
GAUGES = {"clew_runs_live", "clew_jobs", "clew_workers", "clew_hook_sessions", "clew_hook_events"}
SUMMARIES = {
    "clew_review_session_age_at_expiry_seconds",
    "clew_review_tokens_per_round",
    "clew_review_units_per_round",
    "clew_review_seconds_per_round",
    "clew_review_cost_usd_per_round",
}
HISTOGRAMS = {"clew_review_rounds_per_review"}


def parsed(text: str) -> dict[str, Metric]:
    families = list(text_string_to_metric_families(text))
    found = {family.name: family for family in families}
    assert len(found) == len(families), "no family comes twice"
    return found


def value(found: dict[str, Metric], sample: str, **labels: str) -> float | None:
    """None: there is no such sample."""
    values = [
        each.value
        for family in found.values()
        for each in family.samples
        if (each.name, each.labels) == (sample, labels)
    ]
    assert len(values) <= 1, "no set of labels comes twice"
    return values[0] if values else None


async def scraped(daemon: LocalDaemon) -> dict[str, Metric]:
    response = await daemon.http.get("/metrics")
    assert (response.status_code, response.headers["content-type"]) == (200, CONTENT_TYPE)
    return parsed(response.text)


async def test_an_empty_store_has_every_metric_with_its_type(daemon: LocalDaemon) -> None:
    found = await scraped(daemon)
    types = {name: family.type for name, family in found.items()}
    assert types == (
        dict.fromkeys(COUNTERS, "counter")
        | dict.fromkeys(GAUGES, "gauge")
        | dict.fromkeys(SUMMARIES, "summary")
        | dict.fromkeys(HISTOGRAMS, "histogram")
    )
    assert all(family.documentation for family in found.values())
    assert value(found, "clew_runs_live") == value(found, "clew_workers") == value(found, "clew_fallbacks_total") == 0
    assert value(found, "clew_jobs", status="queued") == value(found, "clew_reviews_total") == 0


@pytest.mark.rest
async def test_runs_are_counted_by_the_host_that_asked(daemon: LocalDaemon) -> None:
    repo = repository(daemon.stage.work / "repo")
    (repo / "a.py").write_text("a = 3\n")
    await daemon.thread("t")
    asked = [await daemon.ask("t", "one"), await daemon.ask("t", "two")]
    failed = await daemon.ask("t", "!fail 401 authentication_error invalid x-api-key")
    await daemon.post("/api/jobs", {"prompt": "x", "cwd": str(repo)}, 201)
    daemon.stage.api.reply = Reviewer(answer([finding()]))
    first = await over(daemon, await started(daemon, repo))
    await over(daemon, await daemon.post(f"/api/reviews/{first['id']}/rounds", {"message": "Sure?"}))

    found = await scraped(daemon)
    chat = {"kind": "chat", "agent": "claude"}
    review = {"kind": "review", "agent": "claude"}
    assert value(found, "clew_runs_total", **chat, outcome="success") == 2
    assert value(found, "clew_runs_total", **chat, outcome=failed["outcome"]) == 1
    assert value(found, "clew_runs_total", **review, outcome="success") == 2
    assert value(found, "clew_runs_resumed_total", **chat) == 2, "the one that failed had resumed, too"
    assert value(found, "clew_runs_resumed_total", **review) == 1
    assert value(found, "clew_runs_fresh_total", **chat, reason="first_turn") == 1
    for kind, field in {
        "input": "input_tokens",
        "output": "output_tokens",
        "cache_read": "cache_read_input_tokens",
        "cache_creation": "cache_creation_input_tokens",
    }.items():
        total = sum(run["usage"][field] for run in [*asked, failed])
        assert value(found, "clew_tokens_total", **chat, type=kind) == total
    assert value(found, "clew_cost_usd_total", **chat) > 0  # type: ignore[operator]
    assert value(found, "clew_jobs", status="queued") == 1
    assert value(found, "clew_jobs", status="failed") == 0
    assert value(found, "clew_reviews_total") == 1
    assert value(found, "clew_review_rounds_total", resumed="true") == 1
    assert value(found, "clew_review_rounds_total", resumed="false") == 1
    assert value(found, "clew_review_follow_ups_total", model=MODEL, resumed="true") == 1
    assert value(found, "clew_review_rounds_per_review_sum") == 2
    assert value(found, "clew_review_tokens_per_round_count", resumed="true") == 1
    assert value(found, "clew_review_tokens_per_round_sum", resumed="true") > 0  # type: ignore[operator]

    stats = (await daemon.get("/api/stats"))["reviews"]
    assert (stats["rounds"], stats["resumed"], stats["resume_rate"], stats["misses"]) == (2, 1, 1.0, {})
    assert (await daemon.get("/api/stats?thread=t"))["reviews"]["rounds"] == 0
    assert (await daemon.get(f"/api/stats?thread=review-{first['id']}"))["reviews"]["rounds"] == 2


@pytest.mark.rest
async def test_why_a_follow_up_was_fresh(daemon: LocalDaemon) -> None:
    repo = repository(daemon.stage.work / "repo")
    (repo / "a.py").write_text("a = 3\n")
    daemon.stage.api.reply = Reviewer()
    first = await over(daemon, await started(daemon, repo))
    for body in ({"resume": False}, {"model": "another-model"}, {"model": MODEL}):
        await over(daemon, await daemon.post(f"/api/reviews/{first['id']}/rounds", {"message": "Sure?", **body}))

    found = await scraped(daemon)
    assert value(found, "clew_review_misses_total", reason="disabled") == 1
    assert value(found, "clew_review_misses_total", reason="no_pin") == 1
    assert value(found, "clew_review_rounds_total", resumed="true") == 1
    assert value(found, "clew_review_follow_ups_total", model="another-model", resumed="false") == 1
    assert value(found, "clew_review_rounds_per_review_bucket", le="3") == 0
    assert value(found, "clew_review_rounds_per_review_bucket", le="5") == 1
    assert value(found, "clew_review_rounds_per_review_bucket", le="+Inf") == 1
    assert value(found, "clew_review_seconds_per_round_count", resumed="false") == 2


async def test_a_running_round_is_live_and_not_counted_yet(daemon: LocalDaemon) -> None:
    repo = repository(daemon.stage.work / "repo")
    (repo / "a.py").write_text("a = 3\n")
    daemon.stage.api.reply = Reviewer()
    first = await over(daemon, await started(daemon, repo))

    def hang(request: Request) -> Reply | None:
        return Hang("text", "so far") if request.is_main else None

    daemon.stage.api.reply = hang
    begun = await daemon.post(f"/api/reviews/{first['id']}/rounds", {"message": "Sure?"})
    await asyncio.to_thread(daemon.stage.api.wait_for_hanging, 1)
    found = await scraped(daemon)
    assert value(found, "clew_runs_live") == 1
    assert value(found, "clew_review_rounds_total", resumed="false") == 1
    assert found["clew_review_misses"].samples == [], "whether it resumes is not known before it is over"
    await daemon.post(f"/api/runs/{begun['run_id']}/cancel")
    await over(daemon, begun)
    assert value(await scraped(daemon), "clew_runs_live") == 0


async def test_metrics_need_the_token_or_the_cookie_with_the_key(daemon: LocalDaemon, scripted: Stage) -> None:
    transport: Any = daemon.http._transport
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as browser:
        assert (await browser.get("/metrics")).status_code == 401
        token = daemon.http.headers["authorization"].removeprefix("Bearer ")
        await log_in(browser, f"/?token={token}")
        assert (await browser.get("/metrics")).status_code == 200
        del browser.headers["X-Clew-Key"]
        assert browser.cookies
        assert (await browser.get("/metrics")).status_code == 401
    assert (await daemon.http.post("/metrics")).status_code == 405


def test_labels_cannot_break_out_of_their_quotes() -> None:
    odd = 'a"} 1\nevil_total{x="\\'
    tally = RunTotals(odd, odd, False, odd, odd, 3, 1, Usage(1, 2, 3, 4), 0.125)
    found = parsed(
        written([*of_runs([tally], 0), *of_reviews(ReviewMeasures(misses={odd: 2}, by_model={odd: (2, 1)}))]).decode()
    )
    assert value(found, "clew_runs_total", kind=odd, agent=odd, outcome=odd) == 3
    assert value(found, "clew_cost_usd_total", kind=odd, agent=odd) == 0.125
    assert value(found, "clew_review_misses_total", reason=odd) == 2
    assert value(found, "clew_review_follow_ups_total", model=odd, resumed="false") == 1
    assert "evil" not in found
    half = RunTotals("chat", "\udcff", True, None, None, 1, 0, Usage(), 0.0)
    assert (
        value(
            parsed(written(of_runs([half], 0)).decode()), "clew_runs_total", kind="chat", agent="?", outcome="unknown"
        )
        == 1
    )


def test_rows_of_the_same_labels_are_one_sample() -> None:
    rows = [
        RunTotals(
            "chat", "claude", resumed, None if resumed else "first_turn", "success", 2, 1, Usage(10**9 + 1), 1e-7, 1
        )
        for resumed in (True, False)
    ]
    found = parsed(written([*of_runs(rows, 1), *of_jobs({"queued": 2, "of-a-later-version": 1}, 3)]).decode())
    assert value(found, "clew_runs_total", kind="chat", agent="claude", outcome="success") == 4
    assert value(found, "clew_runs_resumed_total", kind="chat", agent="claude") == 2
    assert value(found, "clew_runs_rewound_total", kind="chat", agent="claude") == 1
    assert value(found, "clew_fallbacks_total") == 2
    assert value(found, "clew_tokens_total", kind="chat", agent="claude", type="input") == 2 * 10**9 + 2
    assert value(found, "clew_cost_usd_total", kind="chat", agent="claude") == 2e-7
    assert (value(found, "clew_jobs", status="queued"), value(found, "clew_workers")) == (2, 3)


def test_ages_at_expiry_are_a_sum_and_a_count() -> None:
    found = parsed(
        written(
            of_reviews(ReviewMeasures(expiry_ages_s=(90_000.5, 100_000.0), rounds_per_review={1: 3, 40: 1}))
        ).decode()
    )
    assert value(found, "clew_review_session_age_at_expiry_seconds_sum") == 190_000.5
    assert value(found, "clew_review_session_age_at_expiry_seconds_count") == 2
    assert value(found, "clew_review_rounds_per_review_bucket", le="21") == 3
    assert value(found, "clew_review_rounds_per_review_bucket", le="+Inf") == 4
    assert value(found, "clew_review_rounds_per_review_count") == 4
    assert value(found, "clew_review_rounds_per_review_sum") == 43
