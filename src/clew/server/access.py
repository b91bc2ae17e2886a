"""What the routes get by dependency injection: the client, the allowed roots, and the state that connections share."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Path
from starlette.requests import HTTPConnection

from clew.api.client import Client, Thread
from clew.server.health import HealthCheck
from clew.server.live.event_encoding import EventEncoder
from clew.server.live.hub import Hub
from clew.server.live.send_buffers import SendBuffers
from clew.server.models.problems import RequestRefused
from clew.server.security.roots import AllowedRoots

MAX_LISTENERS = 256


def _working_directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - compared as text
    except OSError:
        return None  # the directory was removed


class SharedState:
    """The state that all connections of one daemon share."""

    def __init__(self, client: Client, roots: AllowedRoots) -> None:
        self.client = client
        self.roots = roots
        self.started_in = _working_directory()
        self.hub = Hub(client)
        self.health = HealthCheck(client)
        self.encoder = EventEncoder()
        self.send_buffers = SendBuffers()
        self.daemon_id = secrets.token_hex(8)  # differs after each restart
        self.closing = asyncio.Event()
        self.listeners = 0  # clients that follow events

    async def ready_thread(self, name: str) -> Thread:
        """The thread. Raises RequestRefused if no agent may be started in its directory."""
        thread = await self.client.find(name)
        self.roots.check(thread.record.cwd)
        return thread

    async def ready_group(self, name: str) -> list[Thread]:
        """The thread, or both threads of a pair. Raises RequestRefused if its directory is outside the roots."""
        threads = await self.client.together(name)
        for thread in threads:
            self.roots.check(thread.record.cwd)
        return threads

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Counts a client that follows events, until it disconnects."""
        self.check_capacity()
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    def check_capacity(self) -> None:
        if self.closing.is_set():
            raise RequestRefused(503, "The daemon is shutting down.", headers={"Retry-After": "2"})
        if self.listeners >= MAX_LISTENERS:
            raise RequestRefused(503, "Too many clients follow events already.", headers={"Retry-After": "2"})


def shared_of(connection: HTTPConnection) -> SharedState:
    shared = connection.app.state.shared
    assert isinstance(shared, SharedState)
    return shared


def client_of(connection: HTTPConnection) -> Client:
    return shared_of(connection).client


TheShared = Annotated[SharedState, Depends(shared_of)]
TheClient = Annotated[Client, Depends(client_of)]

ThreadName = Annotated[str, Path(alias="thread", max_length=200, description="A thread's id or its name")]
RunId = Annotated[str, Path(alias="run", max_length=200, description="A run's id")]
TurnId = Annotated[str, Path(alias="turn", max_length=200, description="A turn's id")]
