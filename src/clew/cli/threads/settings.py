"""`clew threads set` and `clew threads rename`: what holds for a thread from its next turn on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.ahead import next_turn
from clew.cli.options import AS_JSON
from clew.cli.output import harmless, note, one_line, print_json, stamp
from clew.cli.session import complete_thread, with_client
from clew.cli.threads_list import thread_object
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client

SHOWN_CHARS = 80
SETTINGS = ("cwd", "agent", "model", "permissions", "trust", "visibility", "standing")


@click.command("set")
@click.argument("name", shell_complete=complete_thread)
@click.option("--name", "new_name", metavar="NEW", help="Call it so; also while a run is going on.")
@click.option("--cwd", metavar="DIR", help="Another work directory. Its next turn starts a fresh session.")
@click.option("--agent", metavar="AGENT", help="Who answers, with that agent's default model unless --model is given.")
@click.option("--model", metavar="MODEL", help="The model.")
@click.option(
    "--permissions",
    type=click.Choice(["ask", "edits", "read-only", "all"]),
    help="What the agent may do without asking. `all` is everything.",
)
@click.option(
    "--trust",
    type=click.Choice(["user", "project"]),
    help="Whose rules (CLAUDE.md, AGENTS.md), agent settings, hooks and MCP servers load.",
)
@click.option("--visibility", type=click.Choice(["shared", "own"]), help="What agents see of each other.")
@click.option(
    "--instructions", metavar="FILE", help="Text that holds for the thread from now on (- = stdin; empty: none)."
)
@AS_JSON
def set_(name: str, new_name: str | None, instructions: str | None, as_json: bool, **wanted: str | None) -> None:
    """Change a thread's settings from its next turn on. Not while a run is going on, but for the name."""
    if new_name is None and instructions is None and not any(value is not None for value in wanted.values()):
        raise UsageError("Nothing is to be set.", hint="clew threads set --help lists what can be.")
    standing = None
    if instructions is not None:
        from clew.cli.ask import read_instructions

        standing = read_instructions(instructions)
    with_client(lambda client: _change(client, name, as_json, name=new_name, instructions=standing, **wanted))


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("new")
@AS_JSON
def rename(name: str, new: str, as_json: bool) -> None:
    """Give a thread another name; also while a run is going on.

    Of a pair's name, the pair and both its threads get another, and its state file follows; not while it is at work.
    """

    async def work(client: Client) -> None:
        from clew.hosts.pair_naming import rename as renamed

        done = await renamed(client.engine, name, new)
        if done is None:
            await _change(client, name, as_json, name=new)
            return
        for was, now in done.names:
            note(f"{was} is called {now} now" if was != now else f"{now} was so already")
        if done.trouble is not None:
            note(f"warning: {harmless(done.trouble)}")
        if as_json:
            from clew.pair import pair_json

            print_json(pair_json(await client.pairs.find(done.pair.id), stamp, rounds=False))

    with_client(work)


async def _change(client: Client, of: str, as_json: bool, **wanted: str | None) -> None:
    thread = await client.find(of)
    before = thread.record
    await thread.change(**wanted)
    now = thread.record
    changed = [each for each in SETTINGS if getattr(now, each) != getattr(before, each)]
    if now.name != before.name:
        note(f"{before.name} is called {now.name} now")
    for each in changed:
        note(f"{_label(each)}: {_value(getattr(before, each))} -> {_value(getattr(now, each))}")
    if changed:
        note(f"next turn: {(await next_turn(thread))[1]}")
    elif now.name == before.name:
        note(f"{now.name} was so already")
    if as_json:
        print_json(thread_object(now))


def _label(setting: str) -> str:
    return "instructions" if setting == "standing" else setting


def _value(value: Any) -> str:
    return one_line(str(value), SHOWN_CHARS) if value else "none"
