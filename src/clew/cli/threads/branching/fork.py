"""The command `clew threads fork`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, complete_thread
from clew.cli.ui.formatting import harmless, plural
from clew.cli.ui.printing import note, print_json, say
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.branching import Forked
    from clew.api.client import Client
    from clew.api.wire.branching import Fork

MAX_ROUNDS = 1_000_000


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("new", required=False)
@click.option(
    "--at-round",
    type=click.IntRange(1, MAX_ROUNDS),
    metavar="N",
    help="Up to the N-th prompt and its answer; for a pair, up to its round N.  [default: everything]",
)
@click.option(
    "--at", "at_turn", metavar="TURN", help="Up to this turn (number or id); a prompt is taken with its answer."
)
@AS_JSON
def fork(name: str, new: str | None, at_round: int | None, at_turn: str | None, as_json: bool) -> None:
    """Start a new thread with a thread's history up to a point. The old thread stays as it is.

    The first turn of the new thread continues in a copy of the session, if the agent can make one that ends at that
    point; else it starts fresh with the transcript. NAME may be a pair's: the fork is then another pair. Without NEW,
    the new name is made from NAME.

    \b
      clew threads fork fix-login another-try --at-round 3
      clew threads fork maze --at-round 15 && clew pair --session maze-fork
    """
    if at_round is not None and at_turn is not None:
        raise UsageError("--at-round and --at cannot be given together.", hint="Give one of them.")

    async def work(client: Client) -> None:
        from clew.api import branching

        made = await branching.fork(client, name, new, at_round=at_round, at_turn=at_turn)
        shape = await branching.fork_shape(client, made)
        if as_json:
            print_json(shape.to_json())
        else:
            _print(made, shape)

    with_client(work)


def _print(made: Forked, shape: Fork) -> None:
    say(shape.name)
    note(f"{made.of} up to round {made.rounds}: {plural(made.turns, 'turn')}")
    for thread in shape.threads:
        where = f" of {thread.name}" if made.pair else ""
        note(harmless(f"next turn{where}: {thread.next_turn.words}"))
    for words in made.notes:
        note(words)
    if made.pair:
        message = ' "and now …"' if made.is_finished else ""  # a finished pair needs a message
        note(f"clew pair --session {made.pair}{message} continues it")
