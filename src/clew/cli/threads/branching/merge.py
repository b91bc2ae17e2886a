"""The command `clew threads merge`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command, note_when_slow
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.ui.formatting import harmless, plural
from clew.cli.ui.printing import note, print_json, say

if TYPE_CHECKING:
    from clew.api.branching import Merged
    from clew.api.client import Client
    from clew.api.pairs import MergedPair


@click.command()
@click.argument("a", shell_complete=complete_thread)
@click.argument("b", shell_complete=complete_thread)
@click.option(
    "--name", metavar="NEW", help="The name of the new thread or pair.  [default: A-B, with a number if that is taken]"
)
@click.option("--agent", metavar="AGENT", help="The agent that answers in it.  [default: A's]")
@click.option("--model", metavar="MODEL", help="The model.  [default: A's, or B's if B has the agent]")
@click.option("--cwd", metavar="DIR", help="Its work directory.  [default: A's]")
@AS_JSON
@client_command()
async def merge(client: Client, /, a: str, b: str, as_json: bool, **options: str | None) -> None:
    """Merge two threads, or two pairs, into a new one. Both stay as they are.

    The new thread holds the turns that both begin with, once; then those of A, then those of B, each under a line that
    says where it comes from; and last a summary that the agent reads with its first turn: the aim of each thread, and
    the files that each has changed. Files are not merged. Permissions and trust are the narrower ones of the two. Two
    pairs become a new pair: instructor is merged with instructor and worker with worker, and the rounds of B follow
    those of A. A pair and a thread cannot be merged.

    \b
      clew threads merge fix-login fix-login-codex --name login
      clew ask -t login "Which of the two ways is better?"
      clew threads merge maze maze-fork --name both && clew pair --session both "Take the better of the two."
    """
    from clew.api import branching, pairs

    if await pairs.is_pair(client, a) and await pairs.is_pair(client, b):
        joined = await note_when_slow("merging…", pairs.merge(client, a, b, pairs.MergeOptions(**options)))
        if as_json:
            print_json(pairs.merge_shape(joined).to_json())
        else:
            _print_pair(joined, cwd_given=options["cwd"] is not None)
        return
    made = await note_when_slow("merging…", branching.merge(client, a, b, branching.MergeOptions(**options)))
    if as_json:
        print_json(branching.merge_shape(made).to_json())
    else:
        _print(made, cwd_given=options["cwd"] is not None)


def _print(made: Merged, *, cwd_given: bool) -> None:
    one, other = made.of
    say(made.thread.name)
    common = f"{plural(made.common, 'turn')} in common, " if made.common else ""
    note(f"{common}{made.own[0]:,} of {one.name}, {made.own[1]:,} of {other.name}, and a summary")
    if one.cwd != other.cwd and not cwd_given:
        note(f"{other.name} works in another directory; the new thread works in {harmless(made.thread.cwd)}")
    if made.chars > made.shown_chars:
        note(f"it has {made.chars:,} characters; a session is shown the last {made.shown_chars:,} (transcript_limit)")
    note(f'continue with clew ask -t {made.thread.name} "…"')


def _print_pair(made: MergedPair, *, cwd_given: bool) -> None:
    (one, other), pair = made.of, made.pair
    say(pair.name)
    common = f"{plural(made.common, 'round')} in common, " if made.common else ""
    note(f"{common}{made.own[0]:,} of {one.name}, {made.own[1]:,} of {other.name}, and a summary for each part")
    if one.cwd != other.cwd and not cwd_given:
        note(f"{other.name} works in another directory; the new pair works in {harmless(pair.cwd)}")
    for part, merged in made.parts.items():
        if merged.chars > made.shown_chars:
            note(
                f"its {part} has {merged.chars:,} characters; a session is shown the last {made.shown_chars:,} "
                "(transcript_limit)"
            )
    note(f'continue with clew pair --session {pair.name} "…"')
