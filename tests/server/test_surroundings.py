"""What a page asks besides: agents, figures, settings, directories, and the document for machines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clew import __version__
from clew.testing.stage import MODEL, Stage
from server.house import House


async def test_agents_tell_how_they_are(house: House, scripted: Stage) -> None:
    await house.thread("t")
    await house.ask("t", "hello")
    agents = {agent["name"]: agent for agent in (await house.get("/api/agents"))["items"]}
    claude = agents["claude"]
    assert (claude["path"], claude["problem"], claude["hint"]) == (str(scripted.binary), None, None)
    assert (claude["resumes"], claude["asks"]) == (True, True)
    assert claude["version"]
    assert MODEL in claude["models"]


async def test_stats_sum_up_what_resuming_came_to(house: House) -> None:
    empty = await house.get("/api/stats")
    assert (empty["runs"], empty["resume_rate"], empty["by_day"], empty["by_turn"]) == (0, None, [], [])
    await house.thread("t")
    await house.thread("u")
    first = await house.ask("t", "first question")
    second = await house.ask("t", "second question")
    await house.ask("u", "another thread")
    stats = await house.get("/api/stats", params={"thread": "t"})
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
    assert (await house.get("/api/stats"))["runs"] == 3
    assert (await house.get("/api/stats", params={"days": 1}))["runs"] == 3
    for query, status in (
        ({"thread": "none"}, 404),
        ({"days": 0}, 422),
        ({"days": "nan"}, 422),
        ({"days": "inf"}, 422),
    ):
        assert (await house.http.get("/api/stats", params=query)).status_code == status


async def test_settings_and_directories_for_the_form_of_a_new_thread(house: House, scripted: Stage) -> None:
    settings = await house.get("/api/settings")
    assert (settings["agent"], settings["model"], settings["roots"]) == ("claude", MODEL, [])
    assert settings["version"] == __version__
    (scripted.work / "inner").mkdir()
    listed = await house.get("/api/dirs", params={"path": str(scripted.work)})
    assert listed["items"] == ["inner"]
    assert listed["parent"] == str(scripted.work.resolve().parent)
    assert (await house.get("/api/dirs"))["path"] == settings["home"]
    for path, status in ((str(scripted.work / "none"), 404), ("relative", 422), ("/a\0b", 422)):
        assert (await house.http.get("/api/dirs", params={"path": path})).status_code == status


async def test_the_document_tells_everything_that_a_call_can_answer(house: House) -> None:
    document = await house.get("/api/openapi.json")
    assert document["openapi"].startswith("3.1")
    calls = [(path, method, call) for path, each in document["paths"].items() for method, call in each.items()]
    assert len(calls) == 45
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
