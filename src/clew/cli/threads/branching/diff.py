"""`clew threads diff`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.options import AS_JSON
from clew.cli.output import print_json, say
from clew.cli.session import complete_thread, patiently, with_client

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.comparing import Compared


@click.command()
@click.argument("a", shell_complete=complete_thread)
@click.argument("b", shell_complete=complete_thread)
@click.option(
    "--context",
    metavar="N",
    type=click.IntRange(0, 1_000_000),
    default=3,
    help="So many turns and lines that are the same are shown around a difference.  [default: 3]",
)
@click.option("--exit-code", is_flag=True, help="Exit with 1 when they differ.")
@AS_JSON
def diff(a: str, b: str, context: int, exit_code: bool, as_json: bool) -> int:
    """Compare two threads turn by turn, and the files that their agents wrote to.

    Turns that are the same are marked =, those that differ ~ with their words marked, those in A alone -, those in B
    alone +. Answers to the same prompt belong together. Of files it knows what the agents' own editing tools
    were asked to do, not what commands did; of Codex's patches the names alone (?: edited in both). Two pairs are
    compared part by part. The exit code is 0, unless --exit-code is given.

    \b
      clew threads diff fix-login fix-login-fork
      clew threads diff fix-login fix-login-opus --context 0
    """

    async def work(client: Client) -> tuple[Compared, ...]:
        from clew.hosts.comparing import compare

        return await patiently("comparing…", compare(client.engine, a, b))

    found = with_client(work, reads=True)
    from clew.cli.diff_display import as_object, lines_of

    if as_json:
        print_json(as_object(found, context))
    else:
        for compared in found:
            for line in lines_of(compared, context):
                say(line)
    return 1 if exit_code and not all(each.is_same for each in found) else 0
