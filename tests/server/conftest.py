"""Fixtures: a daemon in this process on the scripted agent, and `clew serve` in a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from clew.testing.stage import Stage
from server.daemons import LocalDaemon, ServeProcess, local_daemon, serve_process


@pytest.fixture
async def daemon(scripted: Stage) -> AsyncIterator[LocalDaemon]:
    async with local_daemon(scripted) as made:
        yield made


@pytest.fixture
async def start_daemon() -> AsyncIterator[Callable[..., ServeProcess]]:
    """Starts `clew serve` on a stage. All of them are stopped at the end."""
    async with AsyncExitStack() as stack:

        def start(stage: Stage, *args: str, **environ: str) -> ServeProcess:
            made = stack.enter_context(serve_process(stage, *args, **environ))
            stack.push_async_callback(made.http.aclose)
            return made

        yield start
