"""The command `clew mcp`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client


@click.command()
@click.option(
    "--cwd", metavar="DIR", help="Work in this directory unless a call names another one.  [default: the current one]"
)
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    help="Calls may name this directory and those below it; may be given several times.  [default: that of --cwd]",
)
@click.option(
    "--permissions",
    type=click.Choice(["read-only", "edits", "all"]),
    default="read-only",
    show_default=True,
    help="What the agent that answers may do; the caller cannot choose it. Reviews are always read-only.",
)
def mcp(cwd: str | None, roots: tuple[str, ...], permissions: str) -> None:
    """Offer reviews and conversations to an agent, as an MCP server on stdin and stdout.

    An agent starts this command, not you; docs/mcp.md shows how to set that up. Tools: start_review,
    follow_up_review, get_review, list_reviews, ask, list_threads, search_threads, read_thread, fork_thread,
    compare_threads.

    \b
      claude mcp add clew -- clew mcp
      codex mcp add clew -- clew mcp
    """
    import asyncio  # noqa: F401 - with TLS, which the server library needs; with_client would load it without

    where = os.path.realpath(cwd or ".")
    allowed = tuple(os.path.realpath(root) for root in roots) or (where,)
    for folder in (where, *allowed):
        if not os.path.isdir(folder):  # noqa: PTH112 - as the links were resolved
            raise UsageError(f"{folder} is not a directory.")

    async def work(client: Client) -> None:
        from clew.core.thread import Permissions
        from clew.mcp.bounds import Bounds
        from clew.mcp.server import make_server

        bounds = Bounds(where, allowed, Permissions(permissions))
        try:
            await make_server(client, bounds).run_stdio_async()
        except* (BrokenPipeError, ConnectionResetError):
            pass  # the caller has gone, and its requests are stopped

    with_client(work, work_dir=where, keep_agents=True)
