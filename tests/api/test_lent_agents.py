"""Which of two daemons of one home lends its agents, and what becomes of its socket."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from clew.api.client import Client
from clew.testing.stage import Stage
from clew.wiring.agents import daemons_pool, lent


@pytest.fixture
def runtime() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="clew-run-") as folder:
        yield Path(folder)


class House:
    """One home, and daemons that are clients in this process."""

    def __init__(self, stage: Stage, runtime: Path) -> None:
        self.stage = stage
        self.environ = {**stage.environ, "XDG_RUNTIME_DIR": str(runtime)}

    async def lend(self, client: Client, leaving: AsyncExitStack) -> str | None:
        lending = lent(client.engine, client.settings, self.environ, client.home, look_s=0.01)
        return await leaving.enter_async_context(lending)

    async def until_lent_by(self, client: Client) -> None:
        wanted = await client.engine.warm.key()
        assert wanted is not None
        async with asyncio.timeout(60):
            while await self._key(client) != wanted:
                await asyncio.sleep(0.01)

    async def _key(self, client: Client) -> bytes | None:
        pool = daemons_pool(client.settings, self.environ, client.home, client.engine.context)
        if pool is None:
            return None
        try:
            return await pool.key()
        finally:
            await pool.close()


async def test_when_the_daemon_that_lends_has_ended_the_other_one_does(scripted: Stage, runtime: Path) -> None:
    house = House(scripted, runtime)
    async with scripted.open() as one, scripted.open() as two, AsyncExitStack() as first, AsyncExitStack() as second:
        assert await house.lend(one, first) is None
        assert await house.lend(two, second) is not None
        await house.until_lent_by(one)
        await first.aclose()
        await house.until_lent_by(two)
    assert not list(runtime.rglob("*.pool"))


async def test_the_socket_is_made_again_when_the_runtime_folder_was_removed(scripted: Stage, runtime: Path) -> None:
    house = House(scripted, runtime)
    async with scripted.open() as client, AsyncExitStack() as lending:
        assert await house.lend(client, lending) is None
        shutil.rmtree(runtime / "clew")
        await house.until_lent_by(client)
