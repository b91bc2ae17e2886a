"""`clew mcp`, called by the official client and by the real Claude CLI."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from clew.core.runs.run import LIVE
from clew.core.thread import Permissions
from clew.mcp.bounds import Bounds
from clew.mcp.server import PROGRESS_S, make_server
from clew.testing.model.scripts import Hang, Reply, Request, Text, ToolUse, newest_tool_result
from clew.testing.stage import MODEL, Stage
from reviews.reviewer import Reviewer, answer, finding, repository

pytestmark = pytest.mark.rest

CLEW = str(Path(sys.executable).with_name("clew"))


@asynccontextmanager
async def server(stage: Stage, folder: Path, *flags: str) -> AsyncIterator[Client]:
    environ = {**stage.environ, "CLEW_MODEL": MODEL}
    parameters = StdioServerParameters(command=CLEW, args=["mcp", *flags], env=environ, cwd=folder)
    async with asyncio.timeout(100), Client(parameters) as client:
        yield client


def content(result: Any) -> dict[str, Any]:
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    return found


async def test_a_review_and_its_follow_up_with_progress_and_structured_results(stage: Stage) -> None:
    repo = repository(stage.work / "repo")
    (repo / "a.py").write_text("def a():\n    return 3\n")
    stage.api.reply = Reviewer(answer([finding()]), answer(earlier=[{"id": "F1", "state": "fixed", "note": "yes"}]))
    heard: list[tuple[float, str | None]] = []

    async def progress(done: float, _total: float | None, message: str | None) -> None:
        heard.append((done, message))

    async with server(stage, repo) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == [
            "ask", "compare_threads", "follow_up_review", "fork_thread", "get_review", "list_reviews", "list_threads",
            "read_thread", "search_threads", "start_review",
        ]  # fmt: skip
        assert all(tool.output_schema for tool in tools.values())
        first = content(await client.call_tool("start_review", {"focus": "numbers"}, progress_callback=progress))
        assert first["round"] == 1
        assert [each["title"] for each in first["findings"]] == ["It returns the wrong number"]
        assert heard, "a client that hears nothing gives up"
        assert [done for done, _ in heard] == sorted({done for done, _ in heard}), "progress only grows"
        (repo / "a.py").write_text("def a():\n    return 2\n")
        asked = {"review_id": first["review_id"], "message": "Mended."}
        second = content(await client.call_tool("follow_up_review", asked))
        assert (second["session_resumed"], second["reason"], second["changed_since"]) == (True, None, ["a.py"])
        assert second["still_open"] == []
        whole = content(await client.call_tool("get_review", {"review_id": first["review_id"]}))
        assert [(each["id"], each["state"]) for each in whole["findings"]] == [("F1", "fixed")]
        listed = content(await client.call_tool("list_reviews", {}))
        assert [(each["review_id"], each["open"]) for each in listed["reviews"]] == [(first["review_id"], 0)]


async def test_a_conversation_continues_in_a_named_thread(stage: Stage) -> None:
    async with server(stage, stage.work) as client:
        first = content(await client.call_tool("ask", {"prompt": "one", "thread": "talk"}))
        assert (first["text"], first["reason"], first["warnings"]) == ("ack: one", "first_turn", [])
        (stage.work / "CLAUDE.md").symlink_to("/etc/hostname")
        second = content(await client.call_tool("ask", {"prompt": "two", "thread": "talk"}))
        assert (second["text"], second["session_resumed"]) == ("ack: two", True)
        assert second["warnings"][0].endswith("shown to claude (CLAUDE.md: a link).")
        threads = content(await client.call_tool("list_threads", {}))["threads"]
        assert [(each["name"], each["kind"]) for each in threads] == [("talk", "chat")]


async def test_an_error_is_one_line(scripted: Stage) -> None:
    repo = repository(scripted.work / "repo")
    outside = repository(scripted.folder / "outside")
    async with scripted.open() as clew:
        await clew.thread("mighty", cwd=repo, permissions="all")
        await clew.thread("elsewhere", cwd=outside)
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("start_review", {}, "nothing to review"),
        ("start_review", {"base": "nope"}, "is not a commit"),
        ("start_review", {"cwd": str(outside)}, "outside the directories"),
        ("start_review", {"cwd": ".."}, "outside the directories"),
        ("start_review", {"paths": ["/etc"]}, "is not in the repository"),
        ("start_review", {"scope": "everything"}, "scope"),
        ("start_review", {"agent": "nobody"}, "There is no agent"),
        ("follow_up_review", {"review_id": "2020-01-01-001"}, "'2020-01-01-001' is not a review."),
        ("get_review", {"review_id": "\0"}, "is not a review."),
        ("ask", {"prompt": ""}, "prompt"),
        ("ask", {"prompt": "x", "thread": "mighty"}, "has more permissions"),
        ("ask", {"prompt": "x", "thread": "elsewhere"}, "outside the directories"),
        ("ask", {"prompt": "x", "thread": "no such name!"}, "cannot be a thread's name"),
    ]
    async with server(scripted, repo) as client:
        for tool, given, words in cases:
            result = await client.call_tool(tool, given)
            assert result.is_error, (tool, given)
            said = result.content[0].text
            assert words in said, (tool, given, said)
            assert "Traceback" not in said
    assert scripted.launches == []


async def test_more_permissions_can_be_given_at_the_start(scripted: Stage) -> None:
    outside = scripted.folder / "outside"
    outside.mkdir()
    async with server(scripted, scripted.work, "--root", str(outside), "--permissions", "edits") as client:
        given = {"prompt": "x", "thread": "there", "cwd": str(outside)}
        assert content(await client.call_tool("ask", given))["text"] == "ack: x"
    async with scripted.open() as clew:
        record = (await clew.find("there")).record
    assert (record.permissions, record.trust, record.cwd) == ("edits", "user", str(outside))


async def test_a_cancelled_call_stops_its_agent(scripted: Stage) -> None:
    async with server(scripted, scripted.work) as client:
        call = asyncio.create_task(client.call_tool("ask", {"prompt": "!slow 4000 0.05", "thread": "long"}))
        async with scripted.open() as clew, asyncio.timeout(60):
            while not (runs := await clew.runs()) or runs[0].status.value != "running":
                await asyncio.sleep(0.1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            while (run := await clew.run(runs[0].id)).status.value == "running":
                await asyncio.sleep(0.1)
            assert run.status.value == "cancelled"
        assert content(await client.call_tool("ask", {"prompt": "still there?"}))["text"] == "ack: still there?"


async def test_a_caller_gets_progress_while_the_agent_is_silent(scripted: Stage) -> None:
    """The ten seconds between two progress messages are shortened to a twentieth of a second."""
    assert PROGRESS_S <= 10
    every_s = PROGRESS_S / 200
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("a = 2\n")
    scripted.api.reply = lambda request: Hang("start") if request.is_main else None
    bounds = Bounds(str(repo), (str(repo),), Permissions.READ_ONLY)
    calls: list[tuple[str, dict[str, Any]]] = [("start_review", {}), ("ask", {"prompt": "Are you there?"})]
    async with scripted.open() as clew, Client(make_server(clew, bounds, every_s=every_s)) as client:
        for tool, given in calls:
            heard: list[tuple[float, str | None]] = []
            enough = asyncio.Event()

            async def progress(done: float, _total: float | None, message: str | None) -> None:
                heard.append((done, message))  # noqa: B023 - the call is over before the next one begins
                silent = [said for _, said in heard if said and "is starting" in said]  # noqa: B023
                if len(silent) > 5:
                    enough.set()  # noqa: B023

            call = asyncio.create_task(client.call_tool(tool, given, progress_callback=progress))
            async with asyncio.timeout(60):
                await enough.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert [done for done, _ in heard] == sorted({done for done, _ in heard}), "progress only grows"
            async with asyncio.timeout(60):
                while any(run.status in LIVE for run in await clew.runs()):
                    await asyncio.sleep(0.05)


async def test_asking_in_the_thread_of_a_review_adds_a_turn(scripted: Stage) -> None:
    """As with clew ask, the reviewer answers in its session and may only read. The next round is not affected."""
    repo = repository(scripted.work / "repo")
    (repo / "a.py").write_text("def a():\n    return 3\n")
    fixed = answer(earlier=[{"id": "F1", "state": "fixed"}])
    reviewer = Reviewer(answer([finding()]), "Because two was asked for.", fixed)
    scripted.api.reply = reviewer
    async with server(scripted, repo, "--permissions", "edits") as client:
        first = content(await client.call_tool("start_review", {}))
        thread = f"review-{first['review_id']}"
        asked = content(await client.call_tool("ask", {"prompt": "Why is F1 wrong?", "thread": thread}))
        assert (asked["text"], asked["session_resumed"]) == ("Because two was asked for.", True)
        assert reviewer.asked[1] == "Why is F1 wrong?"
        whole = content(await client.call_tool("get_review", {"review_id": first["review_id"]}))
        assert [each["state"] for each in whole["findings"]] == ["open"]
        assert len(whole["rounds"]) == 1, "a question is no round"
        (repo / "a.py").write_text("def a():\n    return 2\n")
        second = content(await client.call_tool("follow_up_review", {"review_id": first["review_id"]}))
        assert (second["round"], second["session_resumed"], second["changed_since"]) == (2, True, ["a.py"])
        assert second["still_open"] == []
    assert len({launch.session_id or launch.resumes for launch in scripted.launches}) == 1
    async with scripted.open() as clew:
        assert (await clew.find(thread)).record.permissions is Permissions.READ_ONLY


def test_the_real_claude_cli_has_its_work_reviewed(real: Stage) -> None:
    repo = repository(real.work / "repo")
    (repo / "a.py").write_text("def a():\n    return 3\n")
    reviewer = Reviewer(answer([finding()]))

    def reply(request: Request) -> Reply | None:
        if not request.is_main:
            return None
        if any("You review changes to a code base" in text for _, text in request.shown_texts()):
            return reviewer(request)
        result = newest_tool_result(request.messages)
        if result is not None:
            return Text(f"The review says: {result}")
        return ToolUse("mcp__clew__start_review", {"focus": "numbers"})

    real.api.reply = reply
    environ = {**real.environ, "CLEW_MODEL": MODEL}
    config = {"mcpServers": {"clew": {"command": CLEW, "args": ["mcp"], "env": environ}}}
    done = subprocess.run(
        [
            str(real.binary), "-p", "--output-format", "json", "--model", MODEL, "--strict-mcp-config",
            "--mcp-config", json.dumps(config), "--allowedTools", "mcp__clew__start_review",
        ],
        cwd=repo, env=real.environ, input="Have it reviewed.", text=True, capture_output=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["result"]
    assert "It returns the wrong number" in said
    assert "+    return 3" in reviewer.asked[0]
