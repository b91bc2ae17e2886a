"""Follows operations of a daemon."""

from __future__ import annotations

from typing import Any

from server.daemons import LocalDaemon, parsed


async def events_of(daemon: LocalDaemon, operation: str) -> list[Any]:
    """To the end of the operation."""
    async with daemon.http.stream("GET", f"/api/operations/{operation}/events") as response:
        return [event async for event in parsed(response.aiter_lines())]
