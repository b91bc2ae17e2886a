"""`clew digests`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.ui.printing import print_json, say

if TYPE_CHECKING:
    from clew.api.client import Client


@click.group(cls=SuggestingGroup)
def digests() -> None:
    """Summarise threads."""


@digests.command()
@click.argument("thread")
def make(thread: str) -> None:
    """Ask an agent for a summary of a thread."""

    async def work(client: Client) -> None:
        say((await client.digests.make(thread)).text)

    with_client(work)


@digests.command("list")
def list_() -> None:
    """List the summaries, as JSON."""

    async def work(client: Client) -> None:
        from clew.api.digests import DigestShape

        print_json([DigestShape.of(digest).to_json() for digest in await client.digests.list()])

    with_client(work, reads=True)
