"""`clew mcp`"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from clew.cli.session import with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client


@click.command()
@click.option("--cwd", metavar="DIR", help="Work in this directory unless a call names another.  [default: this one]")
@click.option(
    "--root",
    "roots",
    metavar="DIR",
    multiple=True,
    help="Calls may name directories below this one; may be given again.  [default: the one of --cwd]",
)
@click.option(
    "--permissions",
    type=click.Choice(["read-only", "edits", "all"]),
    default="read-only",
    show_default=True,
    help="What an agent that is asked may do; the caller cannot choose it. Reviews are read-only always.",
)
def mcp(cwd: str | None, roots: tuple[str, ...], permissions: str) -> None:
    """Serve reviews and conversations to an agent, as an MCP server on stdin and stdout.

    An agent starts it, not you; docs/mcp.md shows how to tell it. Tools: start_review, follow_up_review, get_review,
    list_reviews, ask, list_threads.

    \b
      claude mcp add clew -- clew mcp
      codex mcp add clew -- clew mcp
    """
    import asyncio  # noqa: F401 - whole, with TLS: with_client would load it without, and the server library wants it

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
            pass  # whoever called is gone: what it had asked for is stopped

    with_client(work, work_dir=where)
