"""The command `clew threads diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command, note_when_slow
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.ui.printing import print_json, say

if TYPE_CHECKING:
    from clew.api.client import Client


@click.command()
@click.argument("a", shell_complete=complete_thread)
@click.argument("b", shell_complete=complete_thread)
@click.option(
    "--context",
    metavar="N",
    type=click.IntRange(0, 1_000_000),
    default=3,
    help="How many equal turns and lines to show around a difference.  [default: 3]",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 if they differ.")
@AS_JSON
@client_command(reads=True)
async def diff(client: Client, a: str, b: str, context: int, exit_code: bool, as_json: bool) -> int:
    """Compare two threads turn by turn, and the files that their agents wrote to.

    Equal turns are marked =, different ones ~ with their words marked, those only in A -, those only in B +. Answers to
    the same prompt are compared with each other. For files it knows the edits of the agents' own editing tools, not
    what commands changed. For patches of Codex it knows only the names of the files; ? marks a file that both edited.
    Two pairs are compared part by part. The exit code is 0, unless --exit-code is given.

    \b
      clew threads diff fix-login fix-login-fork
      clew threads diff fix-login fix-login-opus --context 0
    """
    from clew.api.branching import compare, comparison_shape
    from clew.cli.threads.branching.diff_display import lines_of

    found = await note_when_slow("comparing…", compare(client, a, b))
    if as_json:
        print_json(comparison_shape(found, context).to_json())
    else:
        for compared in found:
            for line in lines_of(compared, context):
                say(line)
    return 1 if exit_code and not all(each.is_same for each in found) else 0
