"""A command's time with the store: opened, what a crash had left told, closed whatever happens."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from clew.cli.output import note, one_line, plural

if TYPE_CHECKING:
    from clew.client import Client

T = TypeVar("T")
PATIENCE_S = 1.0
WARNING_CHARS = 1000  # names are cut before; a path may be long


def with_client(
    work: Callable[[Client], Awaitable[T]],
    *,
    work_dir: str | None = None,
    quiet: bool = False,
    reads: bool = False,
    **flags: Any,
) -> T:
    """Runs `work` with an open client. `flags` are settings that were given on the command line.

    `reads`: it changes nothing, so neither does the opening: what a crash left is shown as it is.
    """
    load_asyncio_quickly()
    import asyncio

    from clew import client as api

    async def inside() -> T:
        where = Path(work_dir) if work_dir is not None else Path.cwd()
        async with api.open(work_dir=where, recover=not reads, **flags) as client:
            gc.freeze()
            gc.enable()
            if not quiet:
                tell_recovered(client)
                for words in client.settings.warnings:
                    warn(words)
            return await work(client)

    try:
        return asyncio.run(inside())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def patiently(words: str, work: Coroutine[Any, Any, T]) -> T:
    """Says so when it takes longer than one would wait without a word."""
    import asyncio

    task = asyncio.create_task(work)
    await asyncio.wait({task}, timeout=PATIENCE_S)
    if not task.done():
        note(words)
    return await task


def load_asyncio_quickly() -> None:
    """asyncio without TLS, which it would load: a tenth of what a turn may cost, and nothing here uses it."""
    if "asyncio" not in sys.modules and "ssl" not in sys.modules:
        sys.modules["ssl"] = None  # type: ignore[assignment]  # asyncio knows how to do without
        try:
            import asyncio  # noqa: F401
        finally:
            del sys.modules["ssl"]


def tell_recovered(client: Client) -> None:
    if client.recovered:
        runs = plural(len(client.recovered), "run")
        note(f"clew: ended {runs} that a crash had left behind; what was said is kept (clew runs list)")


@cache  # once, however often a command opens the store
def warn(words: str) -> None:
    """A setting that does not count: it stops nobody, but nobody is left to wonder either."""
    note(f"warning: {one_line(words, WARNING_CHARS)}")


def complete_thread(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    """Names of threads for the shell. Never makes a store, never complains."""
    from clew import config
    from clew.errors import ClewError

    async def names(client: Client) -> list[str]:
        return [thread.name for thread in await client.threads(limit=1000)]

    try:
        if not (config.home(os.environ) / "clew.db").exists():
            return []
        return [name for name in with_client(names, quiet=True, reads=True) if name.startswith(incomplete)]
    except (ClewError, OSError):
        return []
