"""Runs over HTTP: asked, queued, changed while they wait, stopped; and what a run tells of itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from clew.core.limits import JITTER_S
from clew.server.json_body import stamp
from clew.testing.stage import MODEL, Stage
from server.house import House, Served, house_of

HANG = "!hang text so far"


async def started(house: House, thread: str, prompt: str = HANG) -> str:
    """A run that has begun to speak, and will not end by itself."""
    run = await house.post(f"/api/threads/{thread}/runs", {"prompt": prompt})
    await house.until(run["id"], "text_streamed")
    return str(run["id"])


async def test_a_run_is_taken_and_answered(house: House) -> None:
    thread = await house.thread("t")
    taken = await house.post("/api/threads/t/runs", {"prompt": "hello"})
    assert taken["thread_id"] == thread["id"]
    assert taken["status"] in ("queued", "running")
    assert taken["prompt"] == "hello"
    run = await house.ended(taken["id"])
    assert (run["status"], run["outcome"], run["error"]) == ("answered", "success", None)
    assert (run["session_resumed"], run["reason"], run["fallback"]) == (False, "first_turn", False)
    assert run["session_id"]
    assert run["usage"]["output_tokens"] > 0
    assert run["cost_usd"] > 0
    assert (run["agent"], run["model"]) == ("claude", MODEL)
    assert run["stderr_tail"] == ""
    assert run["prompt_chars"] == len("hello")
    second = await house.ask("t", "again")
    assert second["session_resumed"]
    assert second["estimate_usd"] > 0, "what the transcript would have cost"
    assert second["transcript_chars"] > second["prompt_chars"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": ""},
        {"prompt": " \n"},
        {"prompt": 7},
        {"prompt": "x", "force_fresh_session": "yes"},
        {"prompt": "x", "timeout_s": 0},
        {"prompt": "x", "timeout_s": -1},
        {"prompt": "x", "agent": "nobody"},
        {"prompt": "x", "agnet": "claude"},
    ],
)
async def test_what_cannot_be_asked_is_refused_and_leaves_no_run(house: House, body: object) -> None:
    await house.thread("t")
    answer = await house.http.post("/api/threads/t/runs", json=body)
    assert answer.status_code == 422
    assert (await house.get("/api/runs"))["items"] == []


async def test_an_infinite_time_is_no_json(house: House) -> None:
    await house.thread("t")
    headers = {"Content-Type": "application/json"}
    for value in ("NaN", "Infinity", "1e999"):
        body = f'{{"prompt": "x", "timeout_s": {value}}}'
        answer = await house.http.post("/api/threads/t/runs", content=body, headers=headers)
        assert answer.status_code in (400, 422)


async def test_unknown_things_are_not_found(house: House) -> None:
    assert (await house.http.post("/api/threads/none/runs", json={"prompt": "x"})).status_code == 404
    for method, path in (
        ("GET", "/api/runs/none"),
        ("GET", "/api/runs/none/events"),
        ("GET", "/api/runs/none/steps"),
        ("DELETE", "/api/runs/none"),
        ("POST", "/api/runs/none/cancel"),
        ("POST", "/api/runs/none/send"),
        ("GET", "/api/runs?thread=none"),
    ):
        answer = await house.http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
    assert (await house.http.patch("/api/runs/none", json={"prompt": "x"})).status_code == 404


async def test_one_runs_at_a_time_and_later_prompts_wait_to_be_changed_or_taken_back(
    scripted: Stage, serve: Callable[..., Served]
) -> None:
    house = serve(scripted)
    await house.thread("t")
    going = await started(house, "t")
    second = await house.post("/api/threads/t/runs", {"prompt": "second"})
    third = await house.post("/api/threads/t/runs", {"prompt": "third"})
    assert (second["status"], third["status"]) == ("queued", "queued")
    view = await house.get("/api/threads/t/view")
    assert [run["id"] for run in view["runs"]] == [going, second["id"], third["id"]]
    assert view["thread"]["live"] == {"run_id": going, "status": "running"}
    changed = await house.patch(f"/api/runs/{second['id']}", {"prompt": "second, put better"})
    assert changed["prompt"] == "second, put better"
    assert (await house.http.delete(f"/api/runs/{third['id']}")).status_code == 204
    for answer in (
        await house.http.patch(f"/api/runs/{going}", json={"prompt": "x"}),
        await house.http.delete(f"/api/runs/{going}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    stopped = await house.post(f"/api/runs/{going}/cancel")
    assert stopped["cancel_requested"] or stopped["status"] == "cancelled"
    assert (await house.ended(going))["status"] == "cancelled"
    view = await house.get("/api/threads/t/view")
    assert [(run["id"], run["status"], run["held"]) for run in view["runs"]] == [(second["id"], "queued", True)]
    assert view["thread"]["live"] is None, "nothing starts unasked"
    sent = await house.post(f"/api/runs/{second['id']}/send")
    assert (sent["id"], sent["held"]) == (second["id"], False)
    assert (await house.ended(second["id"]))["status"] == "answered"
    again = await house.http.post(f"/api/runs/{second['id']}/send")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    turns = await house.turns("t")
    assert [turn["text"] for turn in turns] == [HANG, "so far", "second, put better", "ack: second, put better"]
    assert turns[1]["partial"], "what was said before the stop is kept"


async def test_while_a_run_goes_on_the_thread_keeps_its_shape(scripted: Stage, serve: Callable[..., Served]) -> None:
    house = serve(scripted)
    await house.thread("t")
    await house.ask("t", "first")
    [first, _] = await house.turns("t")
    going = await started(house, "t")
    for answer in (
        await house.http.patch("/api/threads/t", json={"cwd": str(scripted.folder)}),
        await house.http.patch("/api/threads/t", json={"permissions": "all"}),
        await house.http.delete("/api/threads/t"),
        await house.http.post("/api/threads/t/truncate", json={"turn": first["id"]}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "busy")
        assert answer.json()["run_id"] == going
    assert (await house.patch("/api/threads/t", {"name": "renamed"}))["name"] == "renamed"
    await house.post(f"/api/runs/{going}/cancel")
    await house.ended(going)
    over = await house.http.post(f"/api/runs/{going}/cancel")
    assert (over.status_code, over.json()["code"]) == (409, "conflict")


async def test_retry_asks_again_in_a_fresh_session(house: House, scripted: Stage) -> None:
    await house.thread("t")
    await house.ask("t", "first question")
    await house.ask("t", "second question")
    first, answer, *_ = await house.turns("t")
    run = await house.post("/api/threads/t/retry", {"turn": first["id"]})
    ended = await house.ended(run["id"])
    assert (ended["status"], ended["reason"]) == ("answered", "forced_fresh")
    assert [turn["text"] for turn in await house.turns("t")] == ["first question", "ack: first question"]
    wrong = await house.http.post("/api/threads/t/retry", json={"turn": answer["id"]})
    assert wrong.status_code in (404, 422)


async def test_a_failed_run_tells_why_with_the_agents_last_words(house: House, scripted: Stage) -> None:
    await house.thread("t")
    scripted.fault({"do": "crash_after_init", "rc": 3, "stderr": "something broke\n"})
    run = await house.ask("t", "hello")
    assert run["status"] == "failed"
    assert run["error"]["message"]
    assert run["error"]["code"] == "failed"
    assert "something broke" in run["stderr_tail"]
    view = await house.get("/api/threads/t/view")
    assert [shown["id"] for shown in view["runs"]] == [run["id"]], "a run without an answer is shown"


async def test_an_auth_failure_has_its_own_code(house: House) -> None:
    await house.thread("t")
    run = await house.ask("t", "!fail 401 authentication_error invalid x-api-key")
    assert (run["status"], run["error"]["code"]) == ("failed", "auth")


async def test_a_missing_agent_is_said_before_anything_is_stored(scripted: Stage) -> None:
    async with house_of(scripted, flags={"agents.claude.path": str(scripted.folder / "missing")}) as house:
        await house.thread("t")
        answer = await house.http.post("/api/threads/t/runs", json={"prompt": "hello"})
        assert (answer.status_code, answer.json()["code"]) == (503, "agent_missing")
        assert (await house.get("/api/runs"))["items"] == []
        [agent] = [each for each in (await house.get("/api/agents"))["items"] if each["name"] == "claude"]
        assert agent["problem"]
        assert agent["hint"]


async def test_runs_are_listed_by_thread_and_state(house: House) -> None:
    await house.thread("t")
    await house.thread("u")
    first = await house.ask("t", "one")
    second = await house.ask("u", "two")
    third = await house.ask("t", "!fail 400 invalid_request_error no")

    async def ids(**query: object) -> list[str]:
        return [run["id"] for run in (await house.get("/api/runs", params=query))["items"]]

    assert await ids() == [third["id"], second["id"], first["id"]]
    assert await ids(thread="t") == [third["id"], first["id"]]
    assert await ids(status="answered") == [second["id"], first["id"]]
    assert await ids(thread="t", status="failed") == [third["id"]]
    assert await ids(limit=1) == [third["id"]]
    assert (await house.http.get("/api/runs", params={"status": "nonsense"})).status_code == 422


async def test_steps_are_the_events_without_the_pieces_of_text(house: House) -> None:
    await house.thread("t", permissions="all")
    run = await house.ask("t", '!tool Bash {"command": "echo hi"}')
    steps = (await house.get(f"/api/runs/{run['id']}/steps"))["items"]
    kinds = [step["kind"] for step in steps]
    assert "text_streamed" not in kinds
    assert {"tool_started", "tool_finished", "message_said", "run_ended"} <= set(kinds)
    [tool] = [step["body"] for step in steps if step["kind"] == "tool_started"]
    assert tool["input"] == {"command": "echo hi"}
    assert [turn["steps"] for turn in await house.turns("t")] == [0, 1]


async def test_half_a_character_is_escaped_and_not_refused(house: House, scripted: Stage) -> None:
    """Agents cut characters in two; the store keeps it, and JSON can say it."""
    await house.thread("t", permissions="all")
    run = await house.ask("t", r"""!tool Bash {"command": "echo \ud83d"}""")
    steps = (await house.get(f"/api/runs/{run['id']}/steps"))["items"]
    assert [step for step in steps if step["kind"] == "tool_started"]


async def test_many_threads_at_once_are_all_answered(house: House) -> None:
    names = [f"t{number}" for number in range(8)]
    for name in names:
        await house.thread(name)
    runs = await asyncio.gather(*(house.ask(name, f"question of {name}") for name in names))
    assert [run["status"] for run in runs] == ["answered"] * 8
    for name in names:
        assert (await house.turns(name))[1]["text"] == f"ack: question of {name}"


async def test_a_run_that_met_a_limit_is_continued_once_and_can_be_taken_back(house: House) -> None:
    await house.thread("t")
    resets_at = int(time.time()) + 3600
    limited = await house.ask("t", f"!fail 429 rate_limit_error Claude AI usage limit reached|{resets_at}")
    assert (limited["outcome"], limited["error"]["code"]) == ("usage_limit", "usage_limit")
    assert limited["resets_at"] == stamp(resets_at)
    waiting = await house.post(f"/api/runs/{limited['id']}/continue")
    assert (waiting["status"], waiting["held"]) == ("queued", False)
    assert limited["resets_at"] <= waiting["not_before"] <= stamp(resets_at + JITTER_S)
    refused = await house.http.post(f"/api/runs/{limited['id']}/continue")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert (await house.http.delete(f"/api/runs/{waiting['id']}")).status_code == 204
    answered = await house.ask("t", "hello")
    assert (answered["status"], answered["session_resumed"]) == ("answered", True), "the session was kept"
    assert (await house.http.post(f"/api/runs/{answered['id']}/continue")).status_code == 409
