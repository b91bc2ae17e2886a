"""The command `clew threads sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.ui.formatting import ago, one_line, plural, speaker
from clew.cli.ui.printing import note, print_json, say
from clew.core.decision import ADOPT_HINT

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.thread import Synced

TEXT_CHARS = 100  # of a turn
COMPACTED = (
    "A session was compacted outside Clew: it holds the earlier turns only as a summary. The thread still has them: "
    "clew ask --fresh-session sends them all again."
)
BRANCHED = (
    "The session {session_id} was continued outside Clew from an earlier turn, or after this thread had left it: what "
    "was said there is not in this thread."
)


@click.command()
@click.argument("thread", required=False, shell_complete=complete_thread)
@click.option("--dry-run", is_flag=True, help="Only show what would come in.")
@AS_JSON
@client_command()
async def sync(client: Client, thread: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring in the turns that were made outside Clew, in an agent's own CLI.

    They become turns of the thread, marked as outside, with their tool calls, model and usage. `clew ask` does the same
    by itself before it asks. THREAD is the latest thread of this directory if it is not given. It is refused while a
    run is active in the thread.

    A session that was continued from an earlier turn is not the thread's any more: `clew sessions adopt` makes a thread
    of its own of it.
    """
    of_thread = await (client.latest() if thread is None else client.find(thread))
    found = await of_thread.sync(dry_run=dry_run)
    if as_json:
        from clew.api.wire.turns import synced_thread

        print_json(synced_thread(found).to_json())
        return
    for turn in found.turns:
        say(f"{speaker(turn)}  {ago(turn.created_at)}  {one_line(turn.text, TEXT_CHARS)}")
    if found.turns or not found.branched:
        note(_result(found, dry_run=dry_run))
    if found.is_compacted:
        note(COMPACTED)
    for session_id in found.branched:
        note(f"{BRANCHED.format(session_id=session_id)} {ADOPT_HINT.format(session_id=session_id)}")


def _result(found: Synced, *, dry_run: bool) -> str:
    if not found.turns:
        return f"Nothing to bring in: {found.name} has every turn of its session."
    turns = plural(len(found.turns), "turn")
    made = "was made" if len(found.turns) == 1 else "were made"
    return f"{turns} {made} outside Clew and {'would come' if dry_run else 'came'} into {found.name}"
