"""`clew threads fork`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.ahead import next_turn
from clew.cli.options import AS_JSON
from clew.cli.output import harmless, note, plural, print_json, say
from clew.cli.session import complete_thread, with_client
from clew.cli.threads_list import thread_object
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.hosts.branches import Forked
    from clew.hosts.outlook import Outlook

MOST_ROUNDS = 1_000_000


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("new", required=False)
@click.option(
    "--at-round",
    type=click.IntRange(1, MOST_ROUNDS),
    metavar="N",
    help="Up to the N-th prompt and its answer; of a pair, up to its round N.  [default: all of it]",
)
@click.option("--at", "at_turn", metavar="TURN_ID", help="Up to this turn; of a prompt, with its answer.")
@AS_JSON
def fork(name: str, new: str | None, at_round: int | None, at_turn: str | None, as_json: bool) -> None:
    """Begin a new thread with a thread's history up to a point. The old one stays as it is.

    The first turn of the new one goes on in a copy of the session where the agent can make one that ends there, and
    starts fresh with the transcript where not. NAME may be a pair's: it becomes another pair. NEW is made from NAME.

    \b
      clew threads fork fix-login another-try --at-round 3
      clew threads fork maze --at-round 15 && clew pair --session maze-fork
    """
    if at_round is not None and at_turn is not None:
        raise UsageError("--at-round and --at say two things.", hint="Give one of them.")

    async def work(client: Client) -> None:
        made = await client.fork(name, new, at_round=at_round, at_turn=at_turn)
        ahead = {thread.name: await next_turn(await client.find(thread.id)) for thread in made.threads}
        _tell(made, ahead, as_json=as_json)

    with_client(work)


def _tell(made: Forked, ahead: dict[str, tuple[Outlook | None, str]], *, as_json: bool) -> None:
    if as_json:
        threads = []
        for thread in made.threads:
            outlook, words = ahead[thread.name]
            resumes, reason = (outlook.resumes, outlook.reason) if outlook is not None else (None, None)
            told = {"resumes": resumes, "reason": reason, "words": words}
            threads.append(thread_object(thread) | {"next_turn": told})
        print_json(
            {
                "name": made.pair or made.threads[0].name,
                "id": None if made.pair else made.threads[0].id,
                "of": [{"id": made.of_id, "name": made.of}],
                "pair": made.pair,
                "turns": made.turns,
                "rounds": made.rounds,
                "notes": list(made.notes),
                "threads": threads,
            }
        )
        return
    say(made.pair or made.threads[0].name)
    note(f"{made.of} up to round {made.rounds}: {plural(made.turns, 'turn')}")
    for thread in made.threads:
        where = f" of {thread.name}" if made.pair else ""
        note(harmless(f"next turn{where}: {ahead[thread.name][1]}"))
    for words in made.notes:
        note(words)
    if made.pair:
        message = ' "and now …"' if made.is_finished else ""  # one that is done must be told what is next
        note(f"clew pair --session {made.pair}{message} goes on with it")
