"""Information for a page: agents, figures, settings, directories; and the OpenAPI document."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from typing import Any

import pytest

import forkserver
from clew import __version__
from clew.cli.ui.formatting import dollars
from clew.core.costs.savings import total_savings
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.runs.run import Owner, Run, RunStatus
from clew.server import reference
from clew.testing.stage import MODEL, Stage
from clew.testing.store_contract.samples import a_run
from server.daemons import LocalDaemon


async def test_agents_report_their_health(daemon: LocalDaemon, scripted: Stage) -> None:
    await daemon.thread("t")
    await daemon.ask("t", "hello")
    agents = {agent["name"]: agent for agent in (await daemon.get("/api/agents"))["items"]}
    claude = agents["claude"]
    assert (claude["path"], claude["problem"], claude["hint"]) == (str(scripted.binary), None, None)
    assert (claude["resumes"], claude["asks"]) == (True, True)
    assert claude["version"]
    assert MODEL in claude["models"]


DAY_S = 86_400.0
USED = Usage(10, 20, 3_000, 400)


def mixed(thread: str, owner: Owner) -> list[Run]:
    """Runs of every kind, over three days: what each cost, and would have cost with transcripts or a plain resume."""

    def run(n: int, day: int, cost: float, other: float | None, plain: float | None, **more: Any) -> Run:
        figures: dict[str, Any] = {"cost_usd": cost, "estimate_usd": other, "plain_resume_usd": plain, "usage": USED}
        times = {"created_at": day * DAY_S + n, "started_at": day * DAY_S + n, "ended_at": day * DAY_S + n + 5}
        return a_run(f"run-{n}", thread, **{"status": RunStatus.ANSWERED, **times, **figures, **more})

    resumed: dict[str, Any] = {"session_resumed": True, "outcome": "success"}
    return [
        run(1, 20_000, 0.5, 0.5, 0.5, reason="first_turn", outcome="success"),
        run(2, 20_000, 0.125, 0.75, 0.125, **resumed),
        run(3, 20_000, 0.125, None, None, **resumed),  # stored by an older version: it has no estimate
        # a plain resume would have cost less
        run(4, 20_001, 0.375, 0.375, 0.0625, reason="worn_out", outcome="success"),
        run(5, 20_001, 0.25, 0.25, 0.25, reason="rejected", fallback=True, outcome="success"),
        run(6, 20_001, 0.0625, 0.5, 0.125, session_resumed=True, outcome="failed"),
        run(7, 20_002, 0.03125, 0.25, 0.0625, session_resumed=True, outcome="cancelled"),
        # cancelled while it was queued
        run(8, 20_002, 0.0, None, None, usage=NO_USAGE, outcome="cancelled", started_at=None),
        run(9, 20_002, 0.0, 0.0, None, agent="codex", **resumed),  # codex reports no price
        run(10, 20_002, 0.0, None, None, usage=NO_USAGE, status=RunStatus.RUNNING, owner=owner, ended_at=None),
    ]


async def test_every_surface_shows_the_same_figures(daemon: LocalDaemon) -> None:
    thread = await daemon.thread()
    client = daemon.shared.client  # type: ignore[union-attr]
    runs = mixed(thread["id"], client.engine.context.owner)
    await client.engine.store.call(lambda store: [store.runs.create(run) for run in runs])
    paid = sum(run.cost_usd for run in runs)
    transcripts = sum(run.cost_usd if run.estimate_usd is None else run.estimate_usd for run in runs)
    plain = sum(run.cost_usd if run.plain_resume_usd is None else run.plain_resume_usd for run in runs)
    assert (paid, transcripts, plain) == (1.46875, 2.75, 1.25)

    sums = total_savings(await client.stats())
    days = await client.views.daily()
    told = await daemon.get("/api/stats")
    of_thread = await daemon.get(f"/api/stats?thread={thread['id']}")
    printed = json.loads(await clew(daemon, "stats", "--json"))
    for found in (
        (sums.cost_usd, sums.transcript_usd, sums.plain_resume_usd),
        *(tuple(each[name] for name in FIGURES) for each in (told, of_thread)),
        tuple(sum(getattr(day, name) for day in days) for name in FIGURES),
        *(tuple(sum(day[name] for day in each["by_day"]) for name in FIGURES) for each in (told, of_thread)),
        (printed["cost_usd"], *(printed["estimate"][f"{way}_cost_usd"] for way in ("transcript", "plain_resume"))),
    ):
        assert found == pytest.approx((paid, transcripts, plain))
    for runs_of in (sums.runs, told["runs"], sum(day["runs"] for day in told["by_day"]), printed["runs"]):
        assert runs_of == len(runs)
    assert [day["day"] for day in told["by_day"]] == ["2024-10-04", "2024-10-05", "2024-10-06"]
    assert (told["estimated_runs"], told["plain_resume_runs"]) == (7, 6)
    assert told["saved_usd"] == printed["estimate"]["saved_usd"] == pytest.approx(transcripts - paid)
    text = await clew(daemon, "stats")
    for amount, words in (
        (paid, "as the agents report it"),
        (transcripts, "with the whole transcript each time (estimate of 7 of 10 runs, the rest as paid)"),
        (plain, "with a plain --resume every turn (estimate of 6 of 10 runs, the rest as paid)"),
    ):
        assert f"{dollars(amount)}  {words}" in text


async def test_stats_are_grouped_and_the_groups_add_up(daemon: LocalDaemon) -> None:
    thread = await daemon.thread("t")
    client = daemon.shared.client  # type: ignore[union-attr]
    runs = mixed(thread["id"], client.engine.context.owner)
    await client.engine.store.call(lambda store: [store.runs.create(run) for run in runs])

    plain = await daemon.get("/api/stats")
    assert (plain["by"], plain["groups"]) == (None, None)
    for by, names in {
        "kind": ["chat"],
        "project": [thread["cwd"]],
        "agent": ["claude", "codex"],
        "day": ["2024-10-04", "2024-10-05", "2024-10-06"],
    }.items():
        told = await daemon.get("/api/stats", params={"by": by, "thread": "t"})
        assert (told["by"], [group["name"] for group in told["groups"]]) == (by, names)
        for figure in ("runs", "resumed", "cost_usd", "transcript_usd", "saved_usd", "unpriced_runs"):
            assert sum(group[figure] for group in told["groups"]) == pytest.approx(told[figure]), (by, figure)
    assert (await daemon.get("/api/stats", params={"by": "kind", "days": "1"}))["groups"] == [], "they are older"
    refused = await daemon.http.get("/api/stats", params={"by": "colour"})
    assert (refused.status_code, refused.json()["errors"][0]["where"]) == (422, "by")


FIGURES = ("cost_usd", "transcript_usd", "plain_resume_usd")


async def clew(daemon: LocalDaemon, *words: str) -> str:
    """What the command line prints about the same store."""
    process = await forkserver.start_in_loop(words, env=daemon.stage.environ, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_stats_sum_up_what_resuming_saved(daemon: LocalDaemon) -> None:
    empty = await daemon.get("/api/stats")
    assert (empty["runs"], empty["resume_rate"], empty["by_day"], empty["by_turn"]) == (0, None, [], [])
    await daemon.thread("t")
    await daemon.thread("u")
    first = await daemon.ask("t", "first question")
    second = await daemon.ask("t", "second question")
    await daemon.ask("u", "another thread")
    stats = await daemon.get("/api/stats", params={"thread": "t"})
    assert (stats["runs"], stats["resumed"], stats["resume_rate"]) == (2, 1, 0.5)
    assert stats["fresh"] == {"first_turn": 1}
    assert stats["outcomes"] == {"success": 2}
    assert stats["cost_usd"] == pytest.approx(first["cost_usd"] + second["cost_usd"], abs=2e-6)
    assert stats["saved_usd"] == pytest.approx(stats["transcript_usd"] - stats["cost_usd"], abs=2e-6)
    assert [point["run_id"] for point in stats["by_turn"]] == [first["id"], second["id"]], "oldest first"
    assert [point["session_resumed"] for point in stats["by_turn"]] == [False, True]
    [day] = stats["by_day"]
    assert day["day"] == datetime.now(UTC).date().isoformat()
    assert (day["runs"], day["resumed"]) == (2, 1)
    assert (await daemon.get("/api/stats"))["runs"] == 3
    assert (await daemon.get("/api/stats", params={"days": 1}))["runs"] == 3
    for query, status in (
        ({"thread": "none"}, 404),
        ({"days": 0}, 422),
        ({"days": "nan"}, 422),
        ({"days": "inf"}, 422),
    ):
        assert (await daemon.http.get("/api/stats", params=query)).status_code == status


async def test_settings_and_directories_for_the_form_of_a_new_thread(daemon: LocalDaemon, scripted: Stage) -> None:
    settings = await daemon.get("/api/settings")
    assert (settings["agent"], settings["model"], settings["roots"]) == ("claude", MODEL, [])
    assert settings["version"] == __version__
    (scripted.work / "inner").mkdir()
    listed = await daemon.get("/api/dirs", params={"path": str(scripted.work)})
    assert listed["items"] == ["inner"]
    assert listed["parent"] == str(scripted.work.resolve().parent)
    assert (await daemon.get("/api/dirs"))["path"] == settings["home"]
    for path, status in ((str(scripted.work / "none"), 404), ("relative", 422), ("/a\0b", 422)):
        assert (await daemon.http.get("/api/dirs", params={"path": path})).status_code == status


@pytest.mark.rest
async def test_the_document_describes_every_response(daemon: LocalDaemon) -> None:
    document = await daemon.get("/api/openapi.json")
    assert document["openapi"].startswith("3.1")
    calls = [(path, method, call) for path, each in document["paths"].items() for method, call in each.items()]
    assert len(calls) >= 61  # a document that lacks a router would be noticed
    assert document == reference.document(), "the page's types are made of this one"
    for path, method, call in calls:
        assert call["summary"], (path, method)
        assert {"400", "401", "421", "422"} <= call["responses"].keys()
        for status, response in call["responses"].items():
            kinds = set(response.get("content", {}))
            assert (
                kinds == {"application/problem+json"} if int(status) >= 400 else "application/problem+json" not in kinds
            )
        assert call["security"] == ([] if path in ("/healthz", "/hooks/{forge}") else [{"token": []}])
        if "requestBody" in call:
            assert {"413", "415"} <= call["responses"].keys()
    assert "HTTPValidationError" not in document["components"]["schemas"]
