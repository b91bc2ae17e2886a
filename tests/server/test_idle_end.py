"""When a daemon in the background ends because nobody uses it."""

from __future__ import annotations

import asyncio
from typing import Any

from clew.server.idle_end import IdleEnd
from clew.testing.stage import Stage


class Use:
    """A daemon's use and its clock, as a test sets them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.count = 0
        self.is_used = False

    def end(self, client: Any) -> IdleEnd:
        return IdleEnd(client, 100.0, lambda: (self.count, self.is_used), clock=lambda: self.now)


async def test_it_ends_when_it_was_unused_for_the_time(scripted: Stage) -> None:
    use = Use()
    async with scripted.open() as client:
        end = use.end(client)
        assert not await end.is_due()
        use.now = 99
        assert not await end.is_due()
        use.count, use.now = 1, 99.5  # a request
        assert not await end.is_due()
        use.now = 199
        assert not await end.is_due()
        use.now = 199.5
        assert await end.is_due()


async def test_it_does_not_end_while_it_is_used(scripted: Stage) -> None:
    use = Use()
    async with scripted.open() as client:
        end = use.end(client)
        use.is_used = True
        for use.now in (0, 150, 300):
            assert not await end.is_due()
        use.is_used, use.now = False, 399
        assert not await end.is_due()
        use.now = 400
        assert await end.is_due()


async def test_a_run_of_any_process_is_a_use(scripted: Stage) -> None:
    use = Use()
    async with scripted.open() as client:
        thread = await client.thread("t", cwd=scripted.work)
        run = await thread.ask("!hang start")
        end = use.end(client)
        for use.now in (0, 150):
            assert not await end.is_due()
        await asyncio.to_thread(scripted.api.wait_for_hanging, 1)
        scripted.api.release()
        await run
        use.now = 250
        assert await end.is_due()
