"""Runs over HTTP: asked, queued, edited while queued, stopped; and the fields of a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from clew.core.runs.limits import JITTER_S
from clew.system.timestamps import stamp
from clew.testing.stage import MODEL, Stage
from server.daemons import LocalDaemon, ServeProcess, local_daemon

HANG = "!hang text so far"


async def started(daemon: LocalDaemon, thread: str, prompt: str = HANG) -> str:
    """A run that has streamed some text and does not end by itself."""
    run = await daemon.post(f"/api/threads/{thread}/runs", {"prompt": prompt})
    await daemon.until(run["id"], "text_streamed")
    return str(run["id"])


async def test_a_run_is_accepted_and_answered(daemon: LocalDaemon) -> None:
    thread = await daemon.thread("t")
    taken = await daemon.post("/api/threads/t/runs", {"prompt": "hello"})
    assert taken["thread_id"] == thread["id"]
    assert taken["status"] in ("queued", "running")
    assert taken["prompt"] == "hello"
    run = await daemon.ended(taken["id"])
    assert (run["status"], run["outcome"], run["error"]) == ("answered", "success", None)
    assert (run["session_resumed"], run["reason"], run["fallback"]) == (False, "first_turn", False)
    assert run["session_id"]
    assert run["usage"]["output_tokens"] > 0
    assert run["cost_usd"] > 0
    assert (run["agent"], run["model"]) == ("claude", MODEL)
    assert run["stderr_tail"] == ""
    assert run["prompt_chars"] == len("hello")
    second = await daemon.ask("t", "again")
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
async def test_an_invalid_prompt_is_refused_and_leaves_no_run(daemon: LocalDaemon, body: object) -> None:
    await daemon.thread("t")
    answer = await daemon.http.post("/api/threads/t/runs", json=body)
    assert answer.status_code == 422
    assert (await daemon.get("/api/runs"))["items"] == []


async def test_an_infinite_timeout_is_not_json(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    headers = {"Content-Type": "application/json"}
    for value in ("NaN", "Infinity", "1e999"):
        body = f'{{"prompt": "x", "timeout_s": {value}}}'
        answer = await daemon.http.post("/api/threads/t/runs", content=body, headers=headers)
        assert answer.status_code in (400, 422)


async def test_unknown_ids_are_not_found(daemon: LocalDaemon) -> None:
    assert (await daemon.http.post("/api/threads/none/runs", json={"prompt": "x"})).status_code == 404
    for method, path in (
        ("GET", "/api/runs/none"),
        ("GET", "/api/runs/none/events"),
        ("GET", "/api/runs/none/steps"),
        ("DELETE", "/api/runs/none"),
        ("POST", "/api/runs/none/cancel"),
        ("POST", "/api/runs/none/send"),
        ("GET", "/api/runs?thread=none"),
    ):
        answer = await daemon.http.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), path
    assert (await daemon.http.patch("/api/runs/none", json={"prompt": "x"})).status_code == 404


async def test_one_run_at_a_time_and_queued_prompts_can_be_edited_or_removed(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    running = await started(daemon, "t")
    second = await daemon.post("/api/threads/t/runs", {"prompt": "second"})
    third = await daemon.post("/api/threads/t/runs", {"prompt": "third"})
    assert (second["status"], third["status"]) == ("queued", "queued")
    view = await daemon.get("/api/threads/t/view")
    assert [run["id"] for run in view["runs"]] == [running, second["id"], third["id"]]
    assert view["thread"]["live"] == {"run_id": running, "status": "running"}
    changed = await daemon.patch(f"/api/runs/{second['id']}", {"prompt": "second, put better"})
    assert changed["prompt"] == "second, put better"
    assert (await daemon.http.delete(f"/api/runs/{third['id']}")).status_code == 204
    for answer in (
        await daemon.http.patch(f"/api/runs/{running}", json={"prompt": "x"}),
        await daemon.http.delete(f"/api/runs/{running}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    stopped = await daemon.post(f"/api/runs/{running}/cancel")
    assert stopped["cancel_requested"] or stopped["status"] == "cancelled"
    assert (await daemon.ended(running))["status"] == "cancelled"
    view = await daemon.get("/api/threads/t/view")
    assert [(run["id"], run["status"], run["held"]) for run in view["runs"]] == [(second["id"], "queued", True)]
    assert view["thread"]["live"] is None, "a held prompt does not start by itself"
    sent = await daemon.post(f"/api/runs/{second['id']}/send")
    assert (sent["id"], sent["held"]) == (second["id"], False)
    assert (await daemon.ended(second["id"]))["status"] == "answered"
    again = await daemon.http.post(f"/api/runs/{second['id']}/send")
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    turns = await daemon.turns("t")
    assert [turn["text"] for turn in turns] == [HANG, "so far", "second, put better", "ack: second, put better"]
    assert turns[1]["partial"], "what was said before the stop is kept"


async def test_a_thread_cannot_be_changed_while_a_run_is_live(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    await daemon.ask("t", "first")
    [first, _] = await daemon.turns("t")
    running = await started(daemon, "t")
    for answer in (
        await daemon.http.patch("/api/threads/t", json={"cwd": str(scripted.folder)}),
        await daemon.http.patch("/api/threads/t", json={"permissions": "all"}),
        await daemon.http.delete("/api/threads/t"),
        await daemon.http.post("/api/threads/t/truncate", json={"turn": first["id"]}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "busy")
        assert answer.json()["run_id"] == running
    assert (await daemon.patch("/api/threads/t", {"name": "renamed"}))["name"] == "renamed"
    await daemon.post(f"/api/runs/{running}/cancel")
    await daemon.ended(running)
    over = await daemon.http.post(f"/api/runs/{running}/cancel")
    assert (over.status_code, over.json()["code"]) == (409, "conflict")


async def test_retry_rewinds_the_session_or_asks_in_a_fresh_one_if_that_is_wanted(
    daemon: LocalDaemon, scripted: Stage
) -> None:
    await daemon.thread("t")
    await daemon.ask("t", "first question")
    await daemon.ask("t", "second question")
    _, answer, second, _ = await daemon.turns("t")
    run = await daemon.post("/api/threads/t/retry", {"turn": second["id"]})
    ended = await daemon.ended(run["id"])
    assert (ended["status"], ended["session_resumed"], ended["reason"]) == ("answered", True, "history_changed")
    assert (ended["rewound_to"], ended["rewound_to_turn_id"], ended["outside"]) == (2, answer["id"], False)
    assert any(flag.startswith("--resume-session-at=") for flag in scripted.launches[-1].argv), (
        "in a copy of the session"
    )
    started = await daemon.until(run["id"], "attempt_started")
    assert (started["body"]["resumed"], started["body"]["rewound_to"]) == (True, 2)
    shown = (await daemon.turns("t"))[-1]["run"]
    assert (shown["rewound_to"], shown["rewound_to_turn_id"]) == (2, answer["id"])
    run = await daemon.post("/api/threads/t/retry", {"turn": second["id"], "force_fresh_session": True})
    ended = await daemon.ended(run["id"])
    assert (ended["session_resumed"], ended["reason"], ended["rewound_to"]) == (False, "forced_fresh", None)
    said = ["first question", "ack: first question", "second question", "ack: second question"]
    assert [turn["text"] for turn in await daemon.turns("t")] == said
    wrong = await daemon.http.post("/api/threads/t/retry", json={"turn": answer["id"]})
    assert wrong.status_code in (404, 422)


async def test_a_failed_run_has_the_end_of_the_agents_stderr(daemon: LocalDaemon, scripted: Stage) -> None:
    await daemon.thread("t")
    scripted.fault({"do": "crash_after_init", "rc": 3, "stderr": "something broke\n"})
    run = await daemon.ask("t", "hello")
    assert run["status"] == "failed"
    assert run["error"]["message"]
    assert run["error"]["code"] == "failed"
    assert "something broke" in run["stderr_tail"]
    view = await daemon.get("/api/threads/t/view")
    assert [shown["id"] for shown in view["runs"]] == [run["id"]], "a run without an answer is shown"


async def test_an_auth_failure_has_its_own_code(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    run = await daemon.ask("t", "!fail 401 authentication_error invalid x-api-key")
    assert (run["status"], run["error"]["code"]) == ("failed", "auth")


async def test_a_missing_agent_is_reported_before_anything_is_stored(scripted: Stage) -> None:
    async with local_daemon(scripted, flags={"agents.claude.path": str(scripted.folder / "missing")}) as daemon:
        await daemon.thread("t")
        answer = await daemon.http.post("/api/threads/t/runs", json={"prompt": "hello"})
        assert (answer.status_code, answer.json()["code"]) == (503, "agent_missing")
        assert (await daemon.get("/api/runs"))["items"] == []
        [agent] = [each for each in (await daemon.get("/api/agents"))["items"] if each["name"] == "claude"]
        assert agent["problem"]
        assert agent["hint"]


async def test_runs_are_listed_by_thread_and_status(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    await daemon.thread("u")
    first = await daemon.ask("t", "one")
    second = await daemon.ask("u", "two")
    third = await daemon.ask("t", "!fail 400 invalid_request_error no")

    async def ids(**query: object) -> list[str]:
        return [run["id"] for run in (await daemon.get("/api/runs", params=query))["items"]]

    assert await ids() == [third["id"], second["id"], first["id"]]
    assert await ids(thread="t") == [third["id"], first["id"]]
    assert await ids(status="answered") == [second["id"], first["id"]]
    assert await ids(thread="t", status="failed") == [third["id"]]
    assert await ids(limit=1) == [third["id"]]
    assert (await daemon.http.get("/api/runs", params={"status": "nonsense"})).status_code == 422


async def test_steps_are_the_events_without_streamed_text(daemon: LocalDaemon) -> None:
    await daemon.thread("t", permissions="all")
    run = await daemon.ask("t", '!tool Bash {"command": "echo hi"}')
    steps = (await daemon.get(f"/api/runs/{run['id']}/steps"))["items"]
    kinds = [step["kind"] for step in steps]
    assert "text_streamed" not in kinds
    assert {"tool_started", "tool_finished", "message_said", "run_ended"} <= set(kinds)
    [tool] = [step["body"] for step in steps if step["kind"] == "tool_started"]
    assert tool["input"] == {"command": "echo hi"}
    assert [turn["steps"] for turn in await daemon.turns("t")] == [0, 1]


async def test_a_lone_surrogate_is_escaped_and_not_refused(daemon: LocalDaemon, scripted: Stage) -> None:
    """Agents cut characters in two; the store keeps them, and JSON can express them."""
    await daemon.thread("t", permissions="all")
    run = await daemon.ask("t", r"""!tool Bash {"command": "echo \ud83d"}""")
    steps = (await daemon.get(f"/api/runs/{run['id']}/steps"))["items"]
    assert [step for step in steps if step["kind"] == "tool_started"]


async def test_many_threads_at_once_are_all_answered(daemon: LocalDaemon) -> None:
    names = [f"t{number}" for number in range(8)]
    for name in names:
        await daemon.thread(name)
    runs = await asyncio.gather(*(daemon.ask(name, f"question of {name}") for name in names))
    assert [run["status"] for run in runs] == ["answered"] * 8
    for name in names:
        assert (await daemon.turns(name))[1]["text"] == f"ack: question of {name}"


async def test_a_run_that_met_a_limit_is_continued_once_and_can_be_removed(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    resets_at = int(time.time()) + 3600
    limited = await daemon.ask("t", f"!fail 429 rate_limit_error Claude AI usage limit reached|{resets_at}")
    assert (limited["outcome"], limited["error"]["code"]) == ("usage_limit", "usage_limit")
    assert limited["resets_at"] == stamp(resets_at)
    waiting = await daemon.post(f"/api/runs/{limited['id']}/continue")
    assert (waiting["status"], waiting["held"]) == ("queued", False)
    assert limited["resets_at"] <= waiting["not_before"] <= stamp(resets_at + JITTER_S)
    refused = await daemon.http.post(f"/api/runs/{limited['id']}/continue")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert (await daemon.http.delete(f"/api/runs/{waiting['id']}")).status_code == 204
    answered = await daemon.ask("t", "hello")
    assert (answered["status"], answered["session_resumed"]) == ("answered", True), "the session was kept"
    assert (await daemon.http.post(f"/api/runs/{answered['id']}/continue")).status_code == 409
