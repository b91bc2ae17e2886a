"""The daemons of a home, and what they keep ready."""

from __future__ import annotations

from typing import Annotated

from clew.api.wire.shape import Doc, Shape, Time


class Daemon(Shape):
    """A process that serves the page and the API."""

    pid: int
    version: Annotated[str | None, Doc("null: an older version, which does not say")]
    started_at: Time | None
    port: int | None
    url: Annotated[str | None, Doc("The page's address, without the token")]


class Resident(Shape):
    """The process to which `clew ask`, `chat`, `review` and `pair` hand their work."""

    pid: int
    socket: str
    commands: Annotated[int, Doc("How many commands it carries out now")]


class KeptAgent(Shape):
    """An agent that waits for the next prompt of its thread."""

    thread: str
    pid: int
    memory_bytes: int


class DaemonStatus(Shape):
    """What runs for a home."""

    daemons: list[Daemon]
    resident: Resident | None
    agents: Annotated[list[KeptAgent], Doc("Agents that are kept warm")]
    memory_bytes: Annotated[int | None, Doc("What all these processes use; null: the platform does not tell")]
    log: str
