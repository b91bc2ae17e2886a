"""Pairs over HTTP: start, follow, stop, resume, rename, fork, replay, merge, clean; and where they are refused."""

from __future__ import annotations

import json
from contextlib import aclosing
from typing import Any

import pytest

from clew.api.pairs import follow
from clew.core.pairs.pair import PairPart, PairRunEvent
from clew.core.runs.events import TextStreamed
from clew.testing.model.scripts import Hang
from clew.testing.stage import MODEL, Stage
from pairs.couple import TASK, Couple, order
from server.daemons import LocalDaemon, local_daemon
from server.operations import events_of

CALLS: list[tuple[str, str, Any]] = [
    ("POST", "/api/pairs", {"task": TASK, "cwd": "/"}),
    ("GET", "/api/pairs", None),
    ("GET", "/api/pairs/p", None),
    ("GET", "/api/pairs/p/events", None),
    ("POST", "/api/pairs/p/stop", {}),
    ("POST", "/api/pairs/p/resume", {}),
    ("POST", "/api/pairs/p/rename", {"name": "q"}),
    ("POST", "/api/pairs/p/fork", {}),
    ("POST", "/api/pairs/p/replay", {"with_model": MODEL}),
    ("DELETE", "/api/pairs?cwd=/&older_than_s=0", None),
]


async def started(daemon: LocalDaemon, name: str = "p", **more: Any) -> Any:
    body = {"task": TASK, "cwd": str(daemon.stage.work), "name": name, "auto_save": False, **more}
    return await daemon.post("/api/pairs", body, 201)


async def followed(daemon: LocalDaemon, pair: str, after: str | None = None) -> list[Any]:
    """The events up to the end of the stream: no process runs the pair any more."""
    headers = {"Last-Event-ID": after} if after else {}
    found = []
    async with daemon.http.stream("GET", f"/api/pairs/{pair}/events", headers=headers) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
    return found


@pytest.fixture
async def daemon(scripted: Stage) -> Any:
    async with local_daemon(scripted, flags={"model": MODEL}) as made:
        yield made


async def test_a_pair_is_started_and_followed_to_its_end(daemon: LocalDaemon) -> None:
    Couple(daemon.stage, rounds=2)
    made = await started(daemon, rounds=5)
    assert (made["name"], made["status"], made["max_rounds"]) == ("p", "running", 5)
    events = await followed(daemon, made["id"])
    assert (events[0]["type"], events[-1]["type"]) == ("opened", "ended")
    last = await followed(daemon, "p", after=events[-2]["cursor"])
    assert [event["cursor"] for event in last] == [events[-1]["cursor"]]
    shown = await daemon.get("/api/pairs/p")
    assert (shown["status"], len(shown["rounds"]), shown["rounds"][0]["result"][:8]) == ("finished", 3, "report-1")
    listed = await daemon.get(f"/api/pairs?cwd={daemon.stage.work}")
    assert [each["id"] for each in listed["items"]] == [made["id"]]
    assert (await daemon.http.post("/api/pairs/p/stop", json={})).status_code == 409


async def test_a_pair_is_stopped_and_resumed_with_a_message(daemon: LocalDaemon) -> None:
    couple = Couple(daemon.stage, rounds=1)
    couple.busy[1] = Hang("text", "half a rep")
    made = await started(daemon, permissions="read-only")
    await worker_speaks(daemon, made["id"])
    await daemon.post("/api/pairs/p/stop")
    await followed(daemon, "p")
    assert (await daemon.get("/api/pairs/p"))["status"] == "stopped"
    commands = daemon.stage.home / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "make.md").write_text("---\nallowed-tools: Bash(touch:*)\n---\n!`touch made`\n")
    refused = await daemon.http.post("/api/pairs/p/resume", json={"message": "/make", "expand": True})
    assert refused.status_code == 422 and "this conversation is read-only" in refused.text
    refused = await daemon.http.post("/api/pairs/p/resume", json={"message": "/nosuch", "expand": True})
    assert refused.status_code == 422 and "There is no command /nosuch" in refused.text
    resumed = await daemon.post("/api/pairs/p/resume", {"message": "Hurry up.", "rounds": 3})
    assert (resumed["id"], resumed["warnings"]) == (made["id"], [])
    await followed(daemon, "p")
    shown = await daemon.get("/api/pairs/p")
    assert shown["status"] == "finished"
    assert "Hurry up." in [round_["message"] for round_ in shown["rounds"]]


async def worker_speaks(daemon: LocalDaemon, pair: str) -> None:
    """Waits until the worker has said something. Through the API: a stream of a daemon in this process comes at its
    end."""
    assert daemon.shared is not None
    async with aclosing(follow(daemon.shared.client, pair)) as events:
        async for each in events:
            event = each.event
            is_worker = isinstance(event, PairRunEvent) and event.part is PairPart.WORKER
            if is_worker and isinstance(event.event, TextStreamed):
                return
    raise AssertionError("the pair ended")


async def test_a_pair_is_renamed_forked_replayed_merged_and_cleaned(daemon: LocalDaemon) -> None:
    Couple(daemon.stage, rounds=1)
    await started(daemon)
    await followed(daemon, "p")
    assert (await daemon.post("/api/pairs/p/rename", {"name": "q"}, 200))["name"] == "q"
    forked = await daemon.post("/api/pairs/q/fork", {"round": 1, "name": "r"}, 201)
    assert (forked["name"], len(forked["rounds"])) == ("r", 1)
    operation = await daemon.post("/api/pairs/q/replay", {"with_worker_model": "claude-opus-4-1", "name": "s"})
    assert (await events_of(daemon, operation["id"]))[-1]["kind"] == "ended"
    done = await daemon.get(f"/api/operations/{operation['id']}")
    assert (done["status"], done["result"]["after"]["worker_model"]) == ("done", "claude-opus-4-1")
    assert done["result"]["after"]["permissions"] == "read-only"
    merged = await daemon.post("/api/merge", {"a": "q", "b": "s", "name": "both"}, 201)
    assert (merged["name"], merged["common_rounds"] + sum(merged["own_rounds"]) > 1) == ("both", True)
    refused = await daemon.http.post("/api/threads/q/replay", json={"with_model": MODEL})
    assert (refused.status_code, "/api/pairs/" in refused.json()["hint"]) == (422, True)
    old = f"/api/pairs?cwd={daemon.stage.work}&older_than_s=0"
    planned = (await daemon.http.delete(f"{old}&dry_run=true")).json()
    assert {each["archive"] for each in planned["items"]} == {None}
    cleaned = (await daemon.http.delete(old)).json()
    assert {each["name"] for each in cleaned["items"]} == {"q", "r", "s", "both"}
    assert (await daemon.get("/api/pairs"))["items"] == []


async def test_a_cancelled_replay_of_a_pair_keeps_what_was_said(daemon: LocalDaemon) -> None:
    couple = Couple(daemon.stage, rounds=1)
    await started(daemon)
    await followed(daemon, "p")
    couple.orders.append(order("order-1 once more"))
    couple.busy[1] = Hang("text", "half a rep")
    operation = await daemon.post("/api/pairs/p/replay", {"with_model": "claude-opus-4-1", "name": "s"})
    await worker_speaks(daemon, "s")
    await daemon.post(f"/api/operations/{operation['id']}/cancel")
    await events_of(daemon, operation["id"])
    done = await daemon.get(f"/api/operations/{operation['id']}")
    assert (done["status"], done["result"]["after"]["status"]) == ("cancelled", "stopped")
    assert done["result"]["after"]["rounds"][0]["order"]["instruction"] == "order-1 once more"


async def test_a_daemon_that_ends_leaves_a_pair_that_can_be_resumed(scripted: Stage) -> None:
    couple = Couple(scripted, rounds=1)
    couple.busy[1] = Hang("text", "half a rep")
    async with local_daemon(scripted, flags={"model": MODEL}) as daemon:
        await started(daemon)
        await worker_speaks(daemon, "p")
    async with local_daemon(scripted, flags={"model": MODEL}) as daemon:
        assert (await daemon.get("/api/pairs/p"))["status"] != "running"
        await daemon.post("/api/pairs/p/resume")
        await followed(daemon, "p")
        assert (await daemon.get("/api/pairs/p"))["status"] == "finished"


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
async def test_a_call_without_a_token_is_refused(daemon: LocalDaemon, method: str, path: str, body: Any) -> None:
    response = await daemon.http.request(method, path, json=body, headers={"Authorization": ""})
    assert response.status_code == 401


async def test_nothing_runs_outside_of_the_roots(scripted: Stage) -> None:
    Couple(scripted, rounds=1)
    async with local_daemon(scripted, flags={"model": MODEL}) as daemon:
        await started(daemon)
        await followed(daemon, "p")
    inside = scripted.folder / "inside"
    inside.mkdir()
    async with local_daemon(scripted, flags={"model": MODEL}, roots=[inside]) as daemon:
        outside = str(scripted.work)
        refused = [
            await daemon.http.post("/api/pairs", json={"task": TASK, "cwd": outside}),
            await daemon.http.post("/api/pairs/p/resume", json={"message": "Go on."}),
            await daemon.http.post("/api/pairs/p/resume", json={"message": "Go on.", "cwd": outside}),
            await daemon.http.post("/api/pairs/p/resume", json={"message": "Go on.", "cwd": str(inside)}),
            await daemon.http.post("/api/pairs/p/replay", json={"with_model": MODEL}),
            await daemon.http.post("/api/pairs/p/replay", json={"with_model": MODEL, "cwd": str(inside)}),
            await daemon.http.post("/api/pairs/p/rename", json={"name": "q"}),
            await daemon.http.post("/api/pairs/p/fork", json={}),
            await daemon.http.delete(f"/api/pairs?cwd={outside}&older_than_s=0"),
            await daemon.http.get(f"/api/pairs?cwd={outside}"),
        ]
        assert [response.status_code for response in refused] == [403] * len(refused)
        assert len((await daemon.get("/api/pairs"))["items"]) == 1


async def test_wrong_values_are_refused_and_nothing_is_stored(daemon: LocalDaemon) -> None:
    wrong: list[dict[str, Any]] = [
        {"task": " "},
        {"permissions": "ask"},
        {"rounds": 0},
        {"name": "a b"},
        {"nonsense": 1},
    ]
    for each in wrong:
        response = await daemon.http.post("/api/pairs", json={"task": TASK, "cwd": str(daemon.stage.work), **each})
        assert response.status_code == 422, each
    assert (await daemon.http.get("/api/pairs/none")).status_code == 404
    assert (await daemon.get("/api/pairs"))["items"] == []
