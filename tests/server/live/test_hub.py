"""The hub: what another process writes is told to everybody who listens, whenever it comes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from clew.server.hub import NOW, Hub
from clew.store.records import Changes


class FakeClient:
    """Its store is at version 5. The first look is held until the test lets it go."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.is_asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def changes(self, after: int) -> Changes:
        self.asked.append(after)
        self.is_asked.set()
        await self.go_on.wait()
        return Changes(5, [], [])

    async def written(self) -> None:
        await asyncio.Event().wait()


class FakeListener:
    def __init__(self) -> None:
        self.told: asyncio.Future[Changes] = asyncio.get_running_loop().create_future()

    def changed(self, changes: Changes) -> None:
        self.told.set_result(changes)


@pytest.mark.parametrize("when", ["during the hub's first look", "before it"])
async def test_what_was_written_between_a_listeners_own_look_and_the_hubs_is_told(when: str) -> None:
    client: Any = FakeClient()
    hub = Hub(client)
    running = asyncio.create_task(hub.run())
    await asyncio.sleep(0)
    listener = FakeListener()
    with hub.telling(listener):
        if when == "before it":
            hub.knows(4)
        await client.is_asked.wait()
        if when != "before it":
            hub.knows(4)
        client.go_on.set()
        async with asyncio.timeout(60):
            assert (await listener.told).version == 5
        assert client.asked == ([4] if when == "before it" else [NOW, 4])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
