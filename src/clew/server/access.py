"""What a route gets at: the client, the allowed roots and what the daemon shares among its connections."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import Depends, Path
from starlette.requests import HTTPConnection

from clew.client import Client
from clew.server.encoded import Encoder
from clew.server.health import Health
from clew.server.hub import Hub
from clew.server.problems import Refusal
from clew.server.roots import Roots
from clew.server.unsent import Unsent

MOST_LISTENERS = 256


def _here() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - as text, to be compared
    except OSError:
        return None  # it was removed


class Shared:
    """One a daemon: its client, its roots, how many listen, and whether it is closing."""

    def __init__(self, client: Client, roots: Roots) -> None:
        self.client = client
        self.roots = roots
        self.started_in = _here()
        self.hub = Hub(client)
        self.health = Health(client)
        self.encoder = Encoder()
        self.unsent = Unsent()
        self.daemon_id = secrets.token_hex(8)  # another one after a restart
        self.closing = asyncio.Event()
        self.listeners = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A place among those who follow events, until they go."""
        self.check_room()
        self.listeners += 1
        try:
            yield
        finally:
            self.listeners -= 1

    def check_room(self) -> None:
        if self.closing.is_set():
            raise Refusal(503, "The daemon is ending.", headers={"Retry-After": "2"})
        if self.listeners >= MOST_LISTENERS:
            raise Refusal(503, "Too many are listening already.", headers={"Retry-After": "2"})


def shared_of(connection: HTTPConnection) -> Shared:
    shared = connection.app.state.shared
    assert isinstance(shared, Shared)
    return shared


def client_of(connection: HTTPConnection) -> Client:
    return shared_of(connection).client


TheShared = Annotated[Shared, Depends(shared_of)]
TheClient = Annotated[Client, Depends(client_of)]

ThreadName = Annotated[str, Path(alias="thread", max_length=200, description="A thread's id or its name")]
RunId = Annotated[str, Path(alias="run", max_length=200, description="A run's id")]
TurnId = Annotated[str, Path(alias="turn", max_length=200, description="A turn's id")]
