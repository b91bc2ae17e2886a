"""The WebSocket: one a page. Tells what changed, and the events of the thread that the page shows."""

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

from clew.errors import ClewError, NotFound
from clew.server import bodies
from clew.server.access import Shared, shared_of
from clew.server.doors import SUBPROTOCOL
from clew.server.encoded import Parts
from clew.server.hub import NOW, Hub
from clew.server.json_body import json_text
from clew.server.problems import log
from clew.server.unsent import Reader
from clew.server.watch import Watch
from clew.server.wire import PARTS
from clew.store.records import Changes

router = APIRouter()

NOT_UNDERSTOOD = 1008
RESTARTING = 1012
LATER = 1013
MAX_VERSION = 2**62
MOST_RUNS = 1_000  # that a page may name in one message


class NotUnderstood(Exception):
    """The page said something that has no meaning here."""


@router.websocket("/api/live")
async def live(socket: WebSocket) -> None:
    shared = shared_of(socket)
    with shared.listening(), contextlib.suppress(WebSocketDisconnect, ClientDisconnected):  # the page is gone
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope.get("subprotocols", ()) else None)
        try:
            with shared.unsent.reader(socket.scope) as reader:
                await Listener(socket, shared, reader).run(_version(socket.query_params.get("after")))
            await socket.close(RESTARTING)
        except NotUnderstood as error:
            await socket.close(NOT_UNDERSTOOD, str(error))
        except ClewError as error:
            log.warning("a page is let go, what it asks for could not be read: %s", error.code)
            await socket.close(LATER)


class Listener:
    """A page that is connected. What has not been sent yet is kept by thread, so it cannot pile up."""

    def __init__(self, socket: WebSocket, shared: Shared, reader: Reader) -> None:
        self._socket = socket
        self._shared = shared
        self._reader = reader
        self._version = 0
        self._threads: dict[str, Any] = {}
        self._deleted: dict[str, None] = {}
        self._watch: Watch | None = None
        self._ready = asyncio.Event()

    async def run(self, after: int | None) -> None:
        """Until the page goes, the daemon closes, or something is wrong."""
        hub: Hub = self._shared.hub
        with hub.telling(self):
            first = await self._shared.client.changes(NOW if after is None else after)
            if after is not None and after > first.version:  # of another store: the page knows nothing of this one
                first = await self._shared.client.changes(0)
            hub.knows(first.version)
            await self._send({"type": "hello", "version": first.version, "daemon": self._shared.daemon_id})
            self.changed(first)
            tasks = [asyncio.create_task(work) for work in (self._hear(), self._tell(), self._shared.closing.wait())]
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
        """What a page has not been told yet; a later state of a thread takes the place of an earlier one."""
        if changes.version <= self._version:
            return
        self._version = changes.version
        for card in changes.cards:
            self._threads[card.thread.id] = card
        for thread_id in changes.deleted:
            self._threads.pop(thread_id, None)
            self._deleted[thread_id] = None
        if self._watch is not None and any(card.thread.id == self._watch.thread_id for card in changes.cards):
            self._watch.look()
        self._ready.set()

    async def _tell(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            await self._tell_changed()
            while (watch := self._watch) is not None and (batch := watch.take()) is not None:
                run_id, events = batch
                head = json_text({"type": "events", "thread": watch.thread_id, "run": run_id, "events": []})
                told = chain.from_iterable((b",", event.data) for event in events)
                await self._send_parts([head[:-2].encode(), *islice(told, 1, None), b"]}"])
                for event in events:
                    self._reader.let_go(event.data)

    async def _tell_changed(self) -> None:
        if not self._threads and not self._deleted:
            return
        threads, self._threads = self._threads, {}
        deleted, self._deleted = self._deleted, {}
        await self._send(
            {
                "type": "changed",
                "version": self._version,
                "threads": [bodies.thread(card) for card in threads.values()],
                "deleted": list(deleted),
            }
        )

    async def _hear(self) -> None:
        while True:
            said = _message(await self._socket.receive())
            if said["type"] == "ping":
                await self._send({"type": "pong"})
            elif said["type"] == "watch":
                await self._watch_thread(*_wish(said))

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
            return  # deleted in the meantime; the page hears of it by `changed`
        self._watch = Watch(client, found, after, self._shared.encoder, self._reader, self._ready.set)
        self._watch.start()

    async def _send(self, message: Mapping[str, Any]) -> None:
        data = json_text(message).encode()
        self._reader.hold(data)
        await self._send_parts([data])
        self._reader.let_go(data)

    async def _send_parts(self, parts: Parts) -> None:
        """Waits until the page has room. One that takes nothing is dropped (patience.py), and this raises then."""
        if PARTS in self._socket.scope.get("extensions", {}):
            await self._socket.send({"type": "websocket.send", PARTS: parts})
        else:
            await self._socket.send_text(b"".join(parts).decode())


def _version(given: str | None) -> int | None:
    if given is None or given == "":
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise NotUnderstood("after is not a version")
    return int(given)


def _message(received: Mapping[str, Any]) -> Mapping[str, Any]:
    if received["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(received.get("code", 1000))
    try:
        said = json.loads(received.get("text") or "")
    except (ValueError, RecursionError):
        raise NotUnderstood("not JSON") from None
    if not isinstance(said, dict) or said.get("type") not in ("ping", "watch"):
        raise NotUnderstood("neither watch nor ping")
    return said


def _wish(said: Mapping[str, Any]) -> tuple[str | None, dict[str, int]]:
    thread, after = said.get("thread"), said.get("after") or {}
    if not (thread is None or isinstance(thread, str)) or not isinstance(after, dict) or len(after) > MOST_RUNS:
        raise NotUnderstood("watch wants a thread and its runs")
    if not all(isinstance(seq, int) and not isinstance(seq, bool) and 0 <= seq < MAX_VERSION for seq in after.values()):
        raise NotUnderstood("after wants numbers")
    return thread, after
