"""Server-sent events: in order, each once, over reconnects and when the daemon is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from starlette.types import Message

from clew.server.access import MAX_LISTENERS, SharedState
from clew.server.app import App
from clew.server.routes.events import with_heartbeats
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.roots import AllowedRoots
from clew.server.security.token import Credentials
from clew.testing.stage import Stage
from server.daemons import PORT, TOKEN, LocalDaemon, ServeProcess, parsed


async def test_a_stream_has_all_events_of_the_run_and_ends(daemon: LocalDaemon) -> None:
    await daemon.thread("t")
    run = await daemon.post("/api/threads/t/runs", {"prompt": "!slow 5 0.01"})
    events = [event async for event in daemon.events(run["id"])]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["kind"] for event in events]
    assert kinds[-1] == "run_ended"
    assert {"attempt_started", "session_started", "text_streamed", "message_said"} <= set(kinds)
    said = "".join(event["body"]["text"] for event in events if event["kind"] == "text_streamed")
    assert said.split() == ["w0", "w1", "w2", "w3", "w4"]
    assert events == [event async for event in daemon.events(run["id"])], "and again, from the store"


@pytest.mark.parametrize("how", ["header", "query"])
async def test_a_stream_continues_after_the_last_event_that_a_client_has(daemon: LocalDaemon, how: str) -> None:
    await daemon.thread("t")
    run = await daemon.ask("t", "hello")
    every = [event async for event in daemon.events(run["id"])]
    for cut in (0, 1, len(every) - 1, len(every), 10_000):
        options: dict[str, Any] = (
            {"headers": {"Last-Event-ID": str(cut)}} if how == "header" else {"params": {"after": cut}}
        )
        async with daemon.http.stream("GET", f"/api/runs/{run['id']}/events", **options) as response:
            assert [event async for event in parsed(response.aiter_lines())] == every[cut:]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 30])
async def test_an_invalid_event_id_is_refused(daemon: LocalDaemon, value: str) -> None:
    await daemon.thread("t")
    run = await daemon.ask("t", "hello")
    answer = await daemon.http.get(f"/api/runs/{run['id']}/events", headers={"Last-Event-ID": value})
    assert answer.status_code == 422


async def test_a_silent_run_sends_heartbeats(scripted: Stage) -> None:
    """Comments keep proxies from closing the connection; and the stream ends with the daemon."""
    async with scripted.open() as client:
        shared = SharedState(client, AllowedRoots())
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!hang text so far")
        seen: list[str] = []
        async for stored in with_heartbeats(shared, shared.encoder.following(client, run.id, 0), every_s=0.05):
            seen.append("-" if stored is None else stored.kind)
            if "text_streamed" in seen and seen[-3:] == ["-"] * 3:
                shared.closing.set()
        assert "text_streamed" in seen
        assert "run_ended" not in seen
        run.kill()


async def test_a_client_that_disconnects_frees_its_place_and_its_task(scripted: Stage) -> None:
    async with scripted.open() as client:
        app = App(client, AccessPolicy(Credentials(TOKEN), PORT), scripted.folder)
        run = await (await client.thread("t", cwd=scripted.work)).ask("!hang text so far")
        gone = asyncio.Event()
        before = asyncio.all_tasks()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if b"text_streamed" in message.get("body", b""):
                assert app.shared.listeners == 1
                gone.set()

        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())]
        scope = {"type": "http", "method": "GET", "path": f"/api/runs/{run.id}/events", "headers": headers}
        async with asyncio.timeout(60):
            await app.asgi({**scope, "query_string": b"", "asgi": {"spec_version": "2.3"}}, receive, send)
        assert app.shared.listeners == 0
        left = {task for task in asyncio.all_tasks() - before if "events.py" in str(task.get_coro())}
        assert not left
        run.kill()


async def test_the_number_of_clients_that_follow_events_is_limited(daemon: LocalDaemon) -> None:
    assert daemon.shared is not None
    await daemon.thread("t")
    run = await daemon.ask("t", "hello")
    async with AsyncExitStack() as others:
        for _ in range(MAX_LISTENERS):
            others.enter_context(daemon.shared.listening())
        answer = await daemon.http.get(f"/api/runs/{run['id']}/events")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert (await daemon.http.get(f"/api/runs/{run['id']}/events")).status_code == 200


@pytest.mark.rest
async def test_killed_daemon_and_reconnecting_client_nothing_lost_or_doubled(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    """The daemon is killed twice in the middle of a stream; the client reconnects with its last id."""
    daemon = start_daemon(scripted)
    await daemon.thread("t")
    for round_ in range(2):
        run = await daemon.post("/api/threads/t/runs", {"prompt": "!slow 400 0.02"})
        seen: list[Any] = []
        with pytest.raises(httpx.TransportError):
            async for event in daemon.events(run["id"]):
                seen.append(event)
                if len([each for each in seen if each["kind"] == "text_streamed"]) == 20:
                    daemon.kill()
        daemon.restart()
        seen += [event async for event in daemon.events(run["id"], after=seen[-1]["seq"])]
        whole = [event async for event in daemon.events(run["id"])]
        assert seen == whole, f"round {round_}"
        assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
        assert seen[-1]["kind"] == "run_ended"
        assert seen[-1]["body"]["status"] == "interrupted"
        said = "".join(event["body"]["text"] for event in seen if event["kind"] == "text_streamed")
        answer = (await daemon.turns("t"))[-1]
        assert answer["partial"]
        assert answer["text"].startswith(said.strip()), "what a client saw is in the thread"


async def test_a_run_of_another_process_is_followed_too(daemon: LocalDaemon, scripted: Stage) -> None:
    await daemon.thread("t")
    async with scripted.open() as other:
        run = await (await other.find("t")).ask("!slow 10 0.02")
        events = [event async for event in daemon.events(run.id)]
        await run.reply()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["kind"] == "run_ended"
