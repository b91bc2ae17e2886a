"""A house: the daemon in this process, on the scripted agent. A served one: `clew serve` in its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from clew.testing.stage import Stage
from server.house import House, Served, house_of, served


@pytest.fixture
async def house(scripted: Stage) -> AsyncIterator[House]:
    async with house_of(scripted) as made:
        yield made


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Served]]:
    """Starts `clew serve` on a stage; all are stopped at the end."""
    async with AsyncExitStack() as open_ones:

        def start(stage: Stage, *args: str, **environ: str) -> Served:
            made = open_ones.enter_context(served(stage, *args, **environ))
            open_ones.push_async_callback(made.http.aclose)
            return made

        yield start
