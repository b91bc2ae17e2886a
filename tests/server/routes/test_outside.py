"""Turns that were made outside Clew, over HTTP: reported by reads, brought in by a sync and by a prompt."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.testing.stage import Stage
from plain_cli import continue_outside, message_ids
from server.daemons import LocalDaemon


async def outside(daemon: LocalDaemon, session_id: str, prompt: str, *flags: str) -> None:
    stage = daemon.stage
    continue_outside(stage.binary, session_id, prompt, *flags, environ=stage.environ, cwd=stage.work)


async def two_turns(daemon: LocalDaemon) -> Any:
    await daemon.thread("t")
    await daemon.ask("t", "first question")
    return await daemon.ask("t", "second question")


async def test_a_view_counts_outside_turns_and_a_sync_brings_them_in(daemon: LocalDaemon) -> None:
    run = await two_turns(daemon)
    before = await daemon.get("/api/threads/t/view")
    assert before["outside_turns"] == 0
    await outside(daemon, run["session_id"], '!tool Bash {"command": "echo hi", "description": "greets"}')

    view = await daemon.get("/api/threads/t/view")
    assert view == {**before, "outside_turns": 2}, "a read changes nothing else"
    session = await daemon.get("/api/threads/t/session")
    assert (session["outside_turns"], session["resumes"], session["reason"]) == (2, True, None)
    planned = await daemon.post("/api/threads/t/sync?dry_run=true", status=200)
    assert await daemon.get("/api/threads/t/view") == view

    done = await daemon.post("/api/threads/t/sync", status=200)
    assert (done["thread"], done["compacted"], done["branched"]) == ("t", False, [])
    assert [turn["role"] for turn in done["turns"]] == ["user", "assistant"]
    assert [turn["text"] for turn in done["turns"]] == [turn["text"] for turn in planned["turns"]]
    turns = (await daemon.get("/api/threads/t/view"))["turns"]
    assert [turn["outside"] for turn in turns] == [False] * 4 + [True] * 2
    assert [turn["id"] for turn in turns[4:]] == [turn["id"] for turn in done["turns"]]
    assert (turns[5]["steps"], turns[5]["run"]["outside"]) == (1, True)
    steps = (await daemon.get(f"/api/runs/{turns[5]['run_id']}/steps"))["items"]
    assert [step["kind"] for step in steps if step["kind"].startswith("tool")] == ["tool_started", "tool_finished"]
    assert (await daemon.post("/api/threads/t/sync", status=200))["turns"] == []


async def test_a_prompt_brings_them_in_by_itself(daemon: LocalDaemon) -> None:
    run = await two_turns(daemon)
    await outside(daemon, run["session_id"], "from a terminal")
    cost = (await daemon.get("/api/stats"))["cost_usd"]

    asked = await daemon.ask("t", "third question")

    assert (asked["session_resumed"], asked["reason"], asked["session_id"]) == (True, None, run["session_id"])
    assert daemon.stage.prompt == "third question"
    texts = [turn["text"] for turn in await daemon.turns("t")]
    assert texts[4:] == ["from a terminal", "ack: from a terminal", "third question", "ack: third question"]
    warnings = [event["body"]["code"] async for event in daemon.events(asked["id"]) if event["kind"] == "warned"]
    assert "outside_turns" in warnings
    stats = await daemon.get("/api/stats")
    assert (stats["runs"], stats["resumed"], stats["fresh"]) == (3, 2, {"first_turn": 1}), "of Clew's own runs"
    assert stats["cost_usd"] == pytest.approx(cost + asked["cost_usd"], abs=2e-6), "sums are rounded"
    thread = await daemon.get("/api/threads/t")
    assert thread["cost_usd"] > stats["cost_usd"], "a thread's cost is that of all its turns"


async def test_a_branch_is_named_and_a_compaction_is_said(daemon: LocalDaemon) -> None:
    run = await two_turns(daemon)
    [path] = daemon.stage.session_files()
    await outside(daemon, run["session_id"], "/compact")
    assert (await daemon.post("/api/threads/t/sync", status=200))["compacted"]
    await outside(daemon, run["session_id"], "another way", f"--resume-session-at={message_ids(path)[-1]}")
    await outside(daemon, run["session_id"], "yet another way", f"--resume-session-at={message_ids(path)[-2]}")
    done = await daemon.post("/api/threads/t/sync", status=200)
    assert (done["turns"], done["branched"]) == ([], [run["session_id"]])
    session = await daemon.get("/api/threads/t/session")
    assert (session["resumes"], session["reason"]) == (False, "session_diverged")


async def test_a_sync_is_a_conflict_while_a_run_is_live(daemon: LocalDaemon, scripted: Stage) -> None:
    await daemon.thread("t")
    run = await daemon.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await asyncio.to_thread(scripted.api.wait_for_hanging, 1)

    refused = await daemon.http.post("/api/threads/t/sync")

    assert (refused.status_code, refused.json()["code"]) == (409, "busy")
    assert (await daemon.post("/api/threads/t/sync?dry_run=true", status=200))["turns"] == []
    assert (await daemon.http.post("/api/threads/none/sync")).status_code == 404
    scripted.api.release()
    await daemon.ended(run["id"])
