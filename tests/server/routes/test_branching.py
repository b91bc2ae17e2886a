"""Replay, compare and merge over HTTP: what they answer, and where they are refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.testing.model.scripts import Hang, Reply, Request, Text, newest_user_text
from clew.testing.stage import MODEL, Stage
from server.daemons import LocalDaemon, local_daemon
from server.operations import events_of

OPUS = "claude-opus-4-1"
CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/api/threads/a/replay", {"with_model": OPUS}),
    ("GET", "/api/compare?a=a&b=b", None),
    ("POST", "/api/merge", {"a": "a", "b": "b"}),
]


async def two_threads(daemon: LocalDaemon) -> None:
    """`b` is a fork of `a` that went another way."""
    await daemon.thread("a")
    await daemon.ask("a", "one")
    await daemon.ask("a", "two")
    await daemon.post("/api/threads/a/fork", {"round": 1, "name": "b"}, 201)
    await daemon.ask("b", "another two")


async def names(daemon: LocalDaemon) -> set[str]:
    return {each["name"] for each in (await daemon.get("/api/threads?kind=all"))["items"]}


async def test_a_replay_is_an_operation_with_both_answers_of_each_round(daemon: LocalDaemon) -> None:
    await two_threads(daemon)
    response = await daemon.http.post(
        "/api/threads/a/replay", json={"with_model": OPUS, "name": "n", "rounds": 2, "timeout_s": 90}
    )
    assert response.status_code == 202, response.text
    started = response.json()
    assert response.headers["location"] == f"/api/operations/{started['id']}"
    assert (started["kind"], started["subjects"]) == ("replay", ["a", "n"])
    events = await events_of(daemon, started["id"])
    assert [event["kind"] for event in events] == ["progress"] * 4 + ["ended"]
    run = await daemon.get(f"/api/runs/{events[0]['data']['run_id']}")
    assert (run["model"], run["thread_id"]) == (OPUS, events[0]["data"]["thread_id"])
    done = await daemon.get(f"/api/operations/{started['id']}")
    assert done["status"] == "done"
    assert [(each["before"]["model"], each["after"]["model"]) for each in done["result"]["rounds"]] == [
        (MODEL, OPUS)
    ] * 2
    assert (done["result"]["permissions"], done["result"]["after"]["answers"]) == ("read-only", 2)


async def test_a_replay_that_is_cancelled_keeps_its_answers_and_is_continued(daemon: LocalDaemon) -> None:
    await two_threads(daemon)
    left = [Hang("text", "half an ans")]

    def reply(request: Request) -> Reply | None:
        said = newest_user_text(request.messages).splitlines()[-1]
        return left.pop() if request.is_main and said == "two" and left else Text(f"other on {said}")

    daemon.stage.api.reply = reply
    body = {"with_model": OPUS, "name": "n"}
    started = await daemon.post("/api/threads/a/replay", body)
    await asyncio.to_thread(daemon.stage.api.wait_for_hanging, 1, timeout_s=60)
    await daemon.post(f"/api/operations/{started['id']}/cancel")
    await events_of(daemon, started["id"])
    daemon.stage.api.release()
    stopped = await daemon.get(f"/api/operations/{started['id']}")
    assert (stopped["status"], stopped["error"]["code"]) == ("cancelled", "cancelled")
    assert [each["after"]["partial"] for each in stopped["result"]["rounds"]] == [False, True]
    assert (await daemon.get("/api/runs?thread=n"))["items"][0]["status"] == "cancelled"
    again = await daemon.post("/api/threads/a/replay", body)
    await events_of(daemon, again["id"])
    done = await daemon.get(f"/api/operations/{again['id']}")
    assert [each["after"]["text"] for each in done["result"]["rounds"]] == ["other on one", "other on two"]
    assert [turn["text"] for turn in await daemon.turns("n")] == ["one", "other on one", "two", "other on two"]


async def test_two_threads_are_compared(daemon: LocalDaemon) -> None:
    await two_threads(daemon)
    found = await daemon.get("/api/compare?a=a&b=b&context=0")
    assert (found["same"], found["a"]["name"], found["b"]["name"]) == (False, "a", "b")
    assert [turn["step"] for turn in found["turns"]][:2] == ["same", "same"]
    assert (await daemon.get("/api/compare?a=a&b=a"))["same"] is True


async def test_a_merge_is_answered_with_the_address_of_its_thread(daemon: LocalDaemon) -> None:
    await two_threads(daemon)
    response = await daemon.http.post("/api/merge", json={"a": "a", "b": "b", "name": "m"})
    assert response.status_code == 201, response.text
    made = response.json()
    assert (made["name"], made["common_turns"], made["own_turns"]) == ("m", 2, [2, 2])
    thread = await daemon.get(response.headers["location"])
    assert (thread["id"], thread["origin"]["how"], thread["turns"]) == (made["id"], "merge", 7)
    again = await daemon.http.post("/api/merge", json={"a": "a", "b": "b", "name": "m"})
    assert again.status_code == 409


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/threads/nobody/replay", {"with_model": OPUS}, 404),
        ("/api/threads/a/replay", {}, 422),
        ("/api/threads/a/replay", {"with_agent": "nobody"}, 422),
        ("/api/threads/a/replay", {"with_model": OPUS, "name": "b"}, 409),
        ("/api/threads/a/replay", {"with_model": OPUS, "cwd": "relative"}, 422),
        ("/api/threads/a/replay", {"with_model": OPUS, "rounds": 0}, 422),
        ("/api/threads/empty/replay", {"with_model": OPUS}, 422),
        ("/api/merge", {"a": "a", "b": "a"}, 422),
        ("/api/merge", {"a": "a", "b": "nobody"}, 404),
        ("/api/merge", {"a": "a", "b": "empty"}, 422),
        ("/api/merge", {"a": "a"}, 422),
        ("/api/merge", {"a": "a", "b": "b", "agent": "nobody"}, 422),
    ],
)
async def test_an_invalid_request_is_refused_and_creates_nothing(
    daemon: LocalDaemon, path: str, body: Any, status: int
) -> None:
    await daemon.thread("a")
    await daemon.ask("a", "one")
    await daemon.thread("empty")
    await daemon.thread("b")
    response = await daemon.http.post(path, json=body)
    assert response.status_code == status, response.text
    assert await names(daemon) == {"a", "b", "empty"}
    assert (await daemon.get("/api/operations"))["items"] == []
    assert (await daemon.http.get("/api/compare?a=a&b=nobody")).status_code == 404


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
async def test_each_call_is_refused_without_the_token(daemon: LocalDaemon, method: str, path: str, body: Any) -> None:
    response = await daemon.http.request(method, path, json=body, headers={"Authorization": "Bearer wrong"})
    assert response.status_code == 401


async def test_threads_outside_the_roots_are_not_replayed_compared_or_merged(scripted: Stage) -> None:
    inside, outside = scripted.work / "inside", scripted.folder / "outside"
    inside.mkdir()
    outside.mkdir()
    async with local_daemon(scripted) as daemon:
        for name, cwd in (("a", outside), ("b", inside)):
            await daemon.thread(name, cwd=str(cwd))
            await daemon.ask(name, "one")
        replayed = await daemon.post("/api/threads/b/replay", {"with_model": OPUS, "name": "out", "cwd": str(outside)})
        await events_of(daemon, replayed["id"])
    launched = len(scripted.launches)
    async with local_daemon(scripted, roots=[inside]) as daemon:
        known = await names(daemon)
        refused: list[tuple[str, str, Any]] = [
            *CALLS,
            ("POST", "/api/threads/a/replay", {"with_model": OPUS, "cwd": str(inside)}),
            ("POST", "/api/threads/b/replay", {"with_model": OPUS, "cwd": str(outside)}),
            ("POST", "/api/threads/b/replay", {"with_model": OPUS, "name": "out"}),
            ("GET", "/api/compare?a=b&b=a", None),
            ("POST", "/api/merge", {"a": "b", "b": "a"}),
            ("POST", "/api/merge", {"a": "b", "b": "b", "cwd": str(outside)}),
        ]
        for method, path, body in refused:
            response = await daemon.http.request(method, path, json=body)
            assert response.status_code == 403, (path, body, response.text)
        assert (await daemon.get("/api/operations"))["items"] == []
        assert await names(daemon) == known
        assert len(scripted.launches) == launched, "no agent was started"
        allowed = await daemon.post("/api/threads/b/replay", {"with_model": OPUS})
        await events_of(daemon, allowed["id"])
        assert (await daemon.get(f"/api/operations/{allowed['id']}"))["status"] == "done"
