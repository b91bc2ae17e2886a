"""Opens the client for a command, reports what a crash left, warns about settings, and closes the client."""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine
from functools import cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import click

from clew.cli.commands import ENDS_PROCESS
from clew.cli.ui.formatting import one_line, plural
from clew.cli.ui.printing import be_plain, note
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client

T = TypeVar("T")
P = ParamSpec("P")
SLOW_S = 1.0
WARNING_CHARS = 1000  # a path may be long


def with_client(
    work: Callable[[Client], Awaitable[T]],
    *,
    work_dir: str | None = None,
    quiet: bool = False,
    reads: bool = False,
    keep_agents: bool = False,
    use_daemon: bool = True,
    **flags: Any,
) -> T:
    """Runs `work` with an open client. `flags` are settings that were given on the command line.

    `reads`: the command changes nothing, so opening the store does not recover what a crash left either.
    `keep_agents`: it may ask several times in a thread, so agents stay after their turn. `use_daemon`: they stay in the
    daemon, if one runs, also for the next command.
    """
    load_asyncio_quickly()
    import asyncio

    from clew.api import client as api

    async def inside() -> T:
        where = Path(work_dir) if work_dir is not None else current_directory()
        opened = api.open(
            work_dir=where, recover=not reads, keep_agents=keep_agents, use_daemon=use_daemon and not reads, **flags
        )
        async with opened as client:
            gc.freeze()
            gc.enable()
            if _ends_process():
                client.process_ends()
            if client.settings.of("plain"):
                be_plain()
            if not quiet:
                report_recovered(client)
                for words in client.settings.warnings:
                    warn_once(words)
            return await work(client)

    try:
        return asyncio.run(inside())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _ends_process() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and context.find_object(str) == ENDS_PROCESS


def current_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("The current directory no longer exists.", hint="Change to another one.") from None


def client_command(
    *, reads: bool = False
) -> Callable[[Callable[Concatenate[Client, P], Awaitable[T]]], Callable[P, T]]:
    """For a command that is a coroutine function: runs it with an open client as its first argument."""

    def decorate(command: Callable[Concatenate[Client, P], Awaitable[T]]) -> Callable[P, T]:
        @wraps(command)
        def run(*args: P.args, **options: P.kwargs) -> T:
            return with_client(lambda client: command(client, *args, **options), reads=reads)

        return run

    return decorate


async def note_when_slow(words: str, work: Coroutine[Any, Any, T]) -> T:
    """Prints `words` if the work takes longer than a second."""
    import asyncio

    task = asyncio.create_task(work)
    await asyncio.wait({task}, timeout=SLOW_S)
    if not task.done():
        note(words)
    return await task


def load_asyncio_quickly() -> None:
    """Imports asyncio without `ssl`: loading `ssl` takes a tenth of the time of a turn, and few commands need it.

    A command that needs TLS imports asyncio before this is called.
    """
    if "asyncio" not in sys.modules and "ssl" not in sys.modules:
        sys.modules["ssl"] = None  # type: ignore[assignment]  # asyncio works without it
        try:
            import asyncio  # noqa: F401
        finally:
            del sys.modules["ssl"]


def report_recovered(client: Client) -> None:
    if client.recovered:
        runs = plural(len(client.recovered), "run")
        note(f"clew: ended {runs} that a crash had left unfinished; what was answered so far is kept (clew runs list)")


@cache  # a command may open the store more than once
def warn_once(words: str) -> None:
    """Prints a warning about a setting that is ignored."""
    note(f"warning: {one_line(words, WARNING_CHARS)}")
