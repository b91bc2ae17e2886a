"""`clew threads delete`"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from clew.cli.output import note, plural
from clew.cli.session import complete_thread, with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client, Thread


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_thread)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(names: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete threads. Each is written to an archive file first."""

    async def plan(client: Client) -> dict[str, str]:
        found = {thread.name: thread for thread in [await client.find(name) for name in names]}
        return {name: await _counted(client, thread) for name, thread in found.items()}

    planned = with_client(plan)
    for name, turns in planned.items():
        note(f"{'would delete' if dry_run else 'to delete'}: {name} ({turns})")
    if dry_run:
        return
    if not yes:
        _confirm(len(planned))  # with nothing open: a person may take their time

    async def work(client: Client) -> None:
        for name in planned:
            deleted = await (await client.find(name)).delete()
            note(f"deleted {deleted.name}; its archive is {deleted.archive}")

    with_client(work)


def _confirm(count: int) -> None:
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError("Deleting needs a yes.", hint="Give --yes, or --dry-run to see what would go.")
    try:
        agreed = click.confirm(f"Delete {plural(count, 'thread')}?", err=True)
    except click.Abort:
        note("")  # nobody pressed Enter
        raise
    if not agreed:
        raise click.Abort


async def _counted(client: Client, thread: Thread) -> str:
    """`2 turns, 8 archived`"""
    turns = await client.engine.database.call(lambda store: store.all_turns(thread.record.id))
    archived = sum(turn.archived for turn in turns)
    return plural(len(turns) - archived, "turn") + (f", {archived:,} archived" if archived else "")
