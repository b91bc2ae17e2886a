"""The WebSocket; each page has one. It carries changes of all threads, and the events of the thread that is shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect
from uvicorn.protocols.utils import ClientDisconnected

from clew.api.views import Changes
from clew.errors import ClewError, NotFound
from clew.server.access import SharedState, shared_of
from clew.server.live.connections import PARTS
from clew.server.live.event_encoding import Parts
from clew.server.live.hub import LATEST, Hub
from clew.server.live.send_buffers import ClientBuffer
from clew.server.live.watch import ThreadWatch
from clew.server.models import bodies
from clew.server.models.json_body import json_text
from clew.server.models.problems import log
from clew.server.security.access_policy import SUBPROTOCOL

router = APIRouter()

POLICY_VIOLATION = 1008  # close codes from IANA's WebSocket registry
SERVICE_RESTART = 1012
TRY_AGAIN_LATER = 1013
MAX_VERSION = 2**62
MAX_RUNS = 1_000  # how many a page may name in one message


class InvalidMessage(Exception):
    """The page sent a message that the protocol does not define."""


@router.websocket("/api/live")
async def live(socket: WebSocket) -> None:
    shared = shared_of(socket)
    with shared.listening(), contextlib.suppress(WebSocketDisconnect, ClientDisconnected):  # the page is gone
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope.get("subprotocols", ()) else None)
        try:
            with shared.send_buffers.buffer_for(socket.scope) as buffer:
                await PageSocket(socket, shared, buffer).run(_version(socket.query_params.get("after")))
            await socket.close(SERVICE_RESTART)
        except InvalidMessage as error:
            await socket.close(POLICY_VIOLATION, str(error))
        except ClewError as error:
            log.warning("a page is disconnected because the store could not be read: %s", error.code)
            await socket.close(TRY_AGAIN_LATER)


class PageSocket:
    """A connected page. Only the newest unsent change of each thread is kept, so changes cannot fill the memory."""

    def __init__(self, socket: WebSocket, shared: SharedState, buffer: ClientBuffer) -> None:
        self._socket = socket
        self._shared = shared
        self._buffer = buffer
        self._version = 0
        self._threads: dict[str, Any] = {}
        self._deleted: dict[str, None] = {}
        self._watch: ThreadWatch | None = None
        self._ready = asyncio.Event()

    async def run(self, after: int | None) -> None:
        """Runs until the page disconnects, the daemon closes, or something fails."""
        hub: Hub = self._shared.hub
        with hub.subscribed(self):
            first = await self._shared.client.views.changes(LATEST if after is None else after)
            if after is not None and after > first.version:  # the page's version is from another store
                first = await self._shared.client.views.changes(0)
            hub.has_read(first.version)
            await self._send({"type": "hello", "version": first.version, "daemon": self._shared.daemon_id})
            self.changed(first)
            work = (self._receive(), self._send_all(), self._shared.closing.wait())
            tasks = [asyncio.create_task(each) for each in work]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                if self._watch is not None:
                    await self._watch.close()

    def changed(self, changes: Changes) -> None:
        """Keeps what was not sent to the page yet. A later state of a thread replaces an earlier one."""
        if changes.version <= self._version:
            return
        self._version = changes.version
        for summary in changes.summaries:
            self._threads[summary.thread.id] = summary
        for thread_id in changes.deleted:
            self._threads.pop(thread_id, None)
            self._deleted[thread_id] = None
        if self._watch is not None and any(summary.thread.id == self._watch.thread_id for summary in changes.summaries):
            self._watch.changed()
        self._ready.set()

    async def _send_all(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            await self._send_changes()
            while (watch := self._watch) is not None and (batch := watch.take()) is not None:
                run_id, events = batch
                head = json_text({"type": "events", "thread": watch.thread_id, "run": run_id, "events": []})
                joined = chain.from_iterable((b",", event.data) for event in events)
                await self._send_parts([head[:-2].encode(), *islice(joined, 1, None), b"]}"])
                for event in events:
                    self._buffer.release(event.data)

    async def _send_changes(self) -> None:
        if not self._threads and not self._deleted:
            return
        threads, self._threads = self._threads, {}
        deleted, self._deleted = self._deleted, {}
        await self._send(
            {
                "type": "changed",
                "version": self._version,
                "threads": [bodies.thread(summary) for summary in threads.values()],
                "deleted": list(deleted),
            }
        )

    async def _receive(self) -> None:
        while True:
            message = _message(await self._socket.receive())
            if message["type"] == "ping":
                await self._send({"type": "pong"})
            elif message["type"] == "watch":
                await self._watch_thread(*_watched(message))

    async def _watch_thread(self, thread: str | None, after: Mapping[str, int]) -> None:
        old, self._watch = self._watch, None
        if old is not None:
            await old.close()
        if thread is None:
            return
        client = self._shared.client
        try:
            found = await client.find(thread)
        except NotFound:
            return  # the thread was deleted; `changed` notifies the page
        self._watch = ThreadWatch(client, found, after, self._shared.encoder, self._buffer, self._ready.set)
        self._watch.start()

    async def _send(self, message: Mapping[str, Any]) -> None:
        data = json_text(message).encode()
        self._buffer.hold(data)
        await self._send_parts([data])
        self._buffer.release(data)

    async def _send_parts(self, parts: Parts) -> None:
        """Waits while the send buffer is full. Raises when slow_clients.py disconnects a page that reads nothing."""
        if PARTS in self._socket.scope.get("extensions", {}):
            await self._socket.send({"type": "websocket.send", PARTS: parts})
        else:
            await self._socket.send_text(b"".join(parts).decode())


def _version(given: str | None) -> int | None:
    if given is None or given == "":
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise InvalidMessage("after is not a version")
    return int(given)


def _message(received: Mapping[str, Any]) -> Mapping[str, Any]:
    if received["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(received.get("code", 1000))
    try:
        message = json.loads(received.get("text") or "")
    except (ValueError, RecursionError):
        raise InvalidMessage("not JSON") from None
    if not isinstance(message, dict) or message.get("type") not in ("ping", "watch"):
        raise InvalidMessage("neither watch nor ping")
    return message


def _watched(message: Mapping[str, Any]) -> tuple[str | None, dict[str, int]]:
    """The thread, and for each of its runs the number of the last event that the page has."""
    thread, after = message.get("thread"), message.get("after") or {}
    if not (thread is None or isinstance(thread, str)) or not isinstance(after, dict) or len(after) > MAX_RUNS:
        raise InvalidMessage("watch needs a thread and its runs")
    if not all(isinstance(seq, int) and not isinstance(seq, bool) and 0 <= seq < MAX_VERSION for seq in after.values()):
        raise InvalidMessage("after needs whole numbers")
    return thread, after
