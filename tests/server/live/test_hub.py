"""The hub: all subscribers are notified about what another process writes, whenever it writes it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clew.server.live.hub import LATEST, Hub
from clew.store.records import Changes


class FakeViews:
    """A store at version 5. The first read is held until the test releases it."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.is_asked = asyncio.Event()
        self.released = asyncio.Event()

    async def changes(self, after: int) -> Changes:
        self.asked.append(after)
        self.is_asked.set()
        await self.released.wait()
        return Changes(5, [], [])

    async def written(self) -> None:
        await asyncio.Event().wait()


class FakeSubscriber:
    def __init__(self) -> None:
        self.notified: asyncio.Future[Changes] = asyncio.get_running_loop().create_future()

    def changed(self, changes: Changes) -> None:
        self.notified.set_result(changes)


@pytest.mark.parametrize("when", ["during the hub's first read", "before it"])
async def test_what_was_written_between_a_subscribers_own_read_and_the_hubs_is_notified(when: str) -> None:
    views = FakeViews()
    client: Any = SimpleNamespace(views=views)
    hub = Hub(client)
    running = asyncio.create_task(hub.run())
    await asyncio.sleep(0)
    subscriber = FakeSubscriber()
    with hub.subscribed(subscriber):
        if when == "before it":
            hub.has_read(4)
        await views.is_asked.wait()
        if when != "before it":
            hub.has_read(4)
        views.released.set()
        async with asyncio.timeout(60):
            assert (await subscriber.notified).version == 5
        assert views.asked == ([4] if when == "before it" else [LATEST, 4])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
