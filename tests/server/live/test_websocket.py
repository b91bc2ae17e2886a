"""The WebSocket: what changed, and the events of the watched thread, each once, over reconnects and restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import websockets
from starlette.types import Message
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from clew.core.ids import RunId
from clew.core.record import replace
from clew.core.runs.run import RunStatus
from clew.server.access import MAX_LISTENERS
from clew.server.app import App
from clew.server.live.watch import RUNS_READ
from clew.server.security.access_policy import AccessPolicy
from clew.server.security.token import Credentials
from clew.store import open_store
from clew.testing.stage import Stage
from server.daemons import PORT, TOKEN, ServeProcess

WAIT_S = 60


class Page:
    """A page's end of the WebSocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.hello: Any = None
        self.seen: list[Any] = []

    async def say(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def next(self, kind: str | None = None) -> Any:
        """The next message, or the next of that kind."""
        async with asyncio.timeout(WAIT_S):
            while True:
                message = json.loads(await self.socket.recv())
                self.seen.append(message)
                if kind is None or message["type"] == kind:
                    return message

    async def until_events(self, kind: str) -> list[Any]:
        """All events up to the first of that kind, and with it."""
        found: list[Any] = []
        while not any(event["kind"] == kind for event in found):
            found += (await self.next("events"))["events"]
        return found


@asynccontextmanager
async def page_of(daemon: ServeProcess, after: int | str | None = None) -> AsyncIterator[Page]:
    query = "" if after is None else f"?after={after}"
    async with websockets.connect(
        f"ws://127.0.0.1:{daemon.port}/api/live{query}",
        additional_headers={"Authorization": f"Bearer {daemon.token}"},
        proxy=None,
        max_size=None,
    ) as socket:
        page = Page(socket)
        page.hello = await page.next()
        assert page.hello["type"] == "hello"
        yield page


async def test_a_page_is_notified_about_every_change_once(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    async with page_of(daemon) as page:
        assert page.hello["version"] == (await daemon.get("/api/threads"))["version"]
        made = await daemon.thread("t")
        changed = await page.next("changed")
        assert changed["threads"] == [made]
        assert (changed["version"], changed["deleted"]) == (made["version"], [])
        await daemon.patch("/api/threads/t", {"name": "u"})
        assert [thread["name"] for thread in (await page.next("changed"))["threads"]] == ["u"]
        await daemon.http.delete("/api/threads/u")
        gone = await page.next("changed")
        assert (gone["threads"], gone["deleted"]) == ([], [made["id"]])


async def test_a_page_that_reconnects_gets_what_it_missed(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    first = await daemon.thread("first")
    version = (await daemon.get("/api/threads"))["version"]
    second = await daemon.thread("second")
    await daemon.http.delete("/api/threads/first")
    async with page_of(daemon, version) as page:
        changed = await page.next("changed")
        assert [thread["id"] for thread in changed["threads"]] == [second["id"]]
        assert changed["deleted"] == [first["id"]]
        assert changed["version"] == page.hello["version"] > version
    async with page_of(daemon, changed["version"]) as page:
        await page.say(type="ping")
        assert (await page.next())["type"] == "pong", "nothing is sent again"
    async with page_of(daemon, 10**15) as page:
        assert [thread["name"] for thread in (await page.next("changed"))["threads"]] == ["second"], (
            "its version was of another store"
        )


async def test_a_page_is_notified_about_changes_of_other_processes(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    async with page_of(daemon) as page, scripted.open() as other:
        await other.thread("from-elsewhere", cwd=scripted.work)
        changed = await page.next("changed")
        assert [thread["name"] for thread in changed["threads"]] == ["from-elsewhere"]


async def test_the_watched_threads_events_come_in_order_each_once(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    watched = await daemon.thread("watched")
    await daemon.thread("other")
    async with page_of(daemon) as page:
        await page.say(type="watch", thread=watched["id"], after={})
        await daemon.ask("other", "not shown")
        for prompt in ("!slow 20 0.01", "second"):
            run = await daemon.post("/api/threads/watched/runs", {"prompt": prompt})
            told = await page.until_events("run_ended")
            assert told == [event async for event in daemon.events(run["id"])]
        messages = [message for message in page.seen if message["type"] == "events"]
        assert {message["thread"] for message in messages} == {watched["id"]}
        live = [
            thread["live"]["status"]
            for message in page.seen
            if message["type"] == "changed"
            for thread in message["threads"]
            if thread["live"] and thread["id"] == watched["id"]
        ]
        assert "running" in live


async def test_a_watch_continues_after_the_last_event_that_the_page_has(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    """Also for a run that ended while the page was disconnected; events of runs that were over before are not sent."""
    daemon = start_daemon(scripted)
    thread = await daemon.thread("t")
    old = await daemon.ask("t", "long ago")
    run = await daemon.ask("t", "hello")
    every = [event async for event in daemon.events(run["id"])]
    async with page_of(daemon) as page:
        await page.say(type="watch", thread=thread["id"], after={run["id"]: 3, "gone": 7})
        assert await page.until_events("run_ended") == every[3:]
        await page.say(type="watch", thread=None)
        await page.say(type="ping")
        assert (await page.next("pong"))["type"] == "pong"
        assert old["id"] not in {message.get("run") for message in page.seen}


async def test_two_pages_get_the_same_events(scripted: Stage, start_daemon: Callable[..., ServeProcess]) -> None:
    daemon = start_daemon(scripted)
    thread = await daemon.thread("t")
    async with page_of(daemon) as one, page_of(daemon) as two:
        for page in (one, two):
            await page.say(type="watch", thread=thread["id"], after={})
        await daemon.post("/api/threads/t/runs", {"prompt": "!slow 10 0.01"})
        assert await one.until_events("run_ended") == await two.until_events("run_ended")


async def test_no_event_is_lost_or_doubled_when_the_daemon_is_killed(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    thread = await daemon.thread("t")
    seen: list[Any] = []
    async with page_of(daemon) as page:
        await page.say(type="watch", thread=thread["id"], after={})
        run = await daemon.post("/api/threads/t/runs", {"prompt": "!slow 400 0.02"})
        while len(seen) < 25:
            seen += (await page.next("events"))["events"]
        daemon.kill()
        with pytest.raises(ConnectionClosed):
            while True:
                message = await page.next()
                seen += message["events"] if message["type"] == "events" else []
        first_daemon = page.hello["daemon"]
    daemon.restart()
    view = await daemon.get("/api/threads/t/view")
    async with page_of(daemon, view["version"]) as page:
        assert page.hello["daemon"] != first_daemon
        await page.say(type="watch", thread=thread["id"], after={run["id"]: seen[-1]["seq"]})
        seen += await page.until_events("run_ended")
    assert seen == [event async for event in daemon.events(run["id"])]
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize(
    "message",
    [
        "nonsense",
        "[]",
        "{}",
        '{"type": "shout"}',
        '{"type": "watch", "thread": 7}',
        '{"type": "watch", "thread": "t", "after": [1]}',
        '{"type": "watch", "thread": "t", "after": {"r": -1}}',
        '{"type": "watch", "thread": "t", "after": {"r": "1"}}',
        "[" * 100_000,
    ],
)
async def test_an_invalid_message_ends_the_connection(
    scripted: Stage, start_daemon: Callable[..., ServeProcess], message: str
) -> None:
    daemon = start_daemon(scripted)
    async with page_of(daemon) as page:
        await page.socket.send(message)
        with pytest.raises(ConnectionClosed) as ended:
            await page.next()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1008
    assert (await daemon.get("/healthz"))["status"] == "ok"


async def test_a_page_that_does_not_read_delays_nobody(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    thread = await daemon.thread("t")
    async with page_of(daemon) as slow, page_of(daemon) as page:
        for each in (slow, page):
            await each.say(type="watch", thread=thread["id"], after={})
        slow.socket.transport.pause_reading()
        run = await daemon.post("/api/threads/t/runs", {"prompt": "!big 3000000"})
        told = await page.until_events("run_ended")
        assert told == [event async for event in daemon.events(run["id"])]
        slow.socket.transport.abort()


async def test_one_page_too_many_is_refused_for_now(scripted: Stage) -> None:
    async with scripted.open() as client, AsyncExitStack() as others:
        app = App(client, AccessPolicy(Credentials(TOKEN), PORT), scripted.folder)
        for _ in range(MAX_LISTENERS):
            others.enter_context(app.shared.listening())
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "websocket.connect"}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {
            "type": "websocket",
            "path": "/api/live",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"authorization", f"Bearer {TOKEN}".encode())],
            "extensions": {"websocket.http.response": {}},
        }
        await app.asgi(scope, receive, send)
        assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", 503)
        assert (b"x-content-type-options", b"nosniff") in sent[0]["headers"]
        assert json.loads(sent[1]["body"])["status"] == 503


async def test_pages_are_disconnected_when_the_daemon_stops(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    async with page_of(daemon) as page:
        assert await asyncio.to_thread(daemon.stop) == 0
        with pytest.raises(ConnectionClosed) as ended:
            await page.next()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1012


async def test_the_running_run_is_followed_however_many_are_queued(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    thread = await daemon.thread("t")
    running = await daemon.post("/api/threads/t/runs", {"prompt": "!hang text so far"})
    await daemon.until(running["id"], "text_streamed")
    with open_store(scripted.clew_home / "clew.db") as store, store.transaction():
        run = store.runs.require(running["id"])
        for n in range(RUNS_READ + 1):
            queued = replace(run, id=RunId(f"queued-{n}"), status=RunStatus.QUEUED, created_at=run.created_at + 1 + n)
            store.runs.create(queued)
    async with page_of(daemon) as page:
        await page.say(type="watch", thread=thread["id"], after={})
        told = await page.until_events("text_streamed")
        assert {message["run"] for message in page.seen if message["type"] == "events"} == {running["id"]}
        assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
        await daemon.post(f"/api/runs/{running['id']}/cancel")
        assert (await page.until_events("run_ended"))[-1]["body"]["status"] == "cancelled"


@pytest.mark.rest
async def test_a_queued_run_is_followed_from_its_first_event(
    scripted: Stage, start_daemon: Callable[..., ServeProcess]
) -> None:
    daemon = start_daemon(scripted)
    thread = await daemon.thread("t")
    first = await daemon.post("/api/threads/t/runs", {"prompt": "!slow 20 0.05"})
    later = [await daemon.post("/api/threads/t/runs", {"prompt": f"later {n}"}) for n in range(3)]
    async with page_of(daemon) as page:
        await page.say(type="watch", thread=thread["id"], after={})
        told: dict[str, list[Any]] = {}
        while sum(events[-1]["kind"] == "run_ended" for events in told.values()) < 4:
            message = await page.next("events")
            told.setdefault(message["run"], []).extend(message["events"])
    for run in (first, *later):
        assert told[run["id"]] == [event async for event in daemon.events(run["id"])]
