"""The command `clew threads delete`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.threads.archive import all_names
from clew.cli.ui.formatting import plural
from clew.cli.ui.printing import note, print_json
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.archives import Deleted
    from clew.api.client import Client


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_thread)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@AS_JSON
def delete(names: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete threads. Each is written to an archive file first, as `threads archive` does.

    The two threads of a pair are deleted together; the pair's name works, too. `threads restore` restores them, as long
    as the archive is kept.
    """

    async def plan(client: Client) -> dict[str, Deleted]:
        planned: dict[str, Deleted] = {}
        for thread in [(await client.together(name))[0] for name in names]:
            if not any(thread.name in (name, *plan.others) for name, plan in planned.items()):
                planned[thread.name] = await thread.delete(dry_run=True)
        return planned

    planned = with_client(plan, reads=True)
    for each in planned.values():
        note(f"{'would delete' if dry_run else 'to delete'}: {all_names(each)} ({_counted(each)})")
    if not (dry_run or yes):  # no client is open while the user decides
        _confirm(sum(1 + len(each.others) for each in planned.values()))

    async def work(client: Client) -> list[Deleted]:
        done = []
        for name in planned:
            deleted = await (await client.find(name)).delete()
            done.append(deleted)
            what = "them" if deleted.others else "it"
            note(
                f"deleted {all_names(deleted)} (clew threads restore {name} restores {what}); "
                f"its archive is {deleted.archive}"
            )
        return done

    deleted = list(planned.values()) if dry_run else with_client(work)
    if as_json:
        from clew.api.archives import deleted_shape

        print_json([deleted_shape(each).to_json() for each in deleted])


def _confirm(count: int) -> None:
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError(
            "Deleting needs a confirmation.", hint="Give --yes, or --dry-run to see what would be deleted."
        )
    try:
        agreed = click.confirm(f"Delete {plural(count, 'thread')}?", err=True)
    except click.Abort:
        note("")  # ends the line of the prompt
        raise
    if not agreed:
        raise click.Abort


def _counted(deleted: Deleted) -> str:
    """`2 turns, 8 archived`"""
    archived = deleted.archived_turns
    return plural(deleted.turns - archived, "turn") + (f", {archived:,} archived" if archived else "")
