"""`clew threads set` and `clew threads rename`: the settings of a thread from its next turn on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON, INSTRUCTIONS, complete_thread
from clew.cli.threads.listing import thread_object
from clew.cli.ui.formatting import harmless, one_line
from clew.cli.ui.printing import note, print_json
from clew.cli.ui.upcoming import next_turn
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client

SHOWN_CHARS = 80
RULE_CHARS = 300
SETTINGS = ("cwd", "agent", "model", "permissions", "trust", "visibility", "standing")


@click.command("set")
@click.argument("name", shell_complete=complete_thread)
@click.option("--name", "new_name", metavar="NEW", help="Another name; possible while a run is active.")
@click.option("--cwd", metavar="DIR", help="Another work directory. The next turn starts a fresh session.")
@click.option(
    "--agent", metavar="AGENT", help="The agent that answers, with its default model unless --model is given."
)
@click.option("--model", metavar="MODEL", help="The model.")
@click.option(
    "--permissions",
    type=click.Choice(["ask", "edits", "read-only", "all"]),
    help="What the agent may do without asking. `all` means everything.",
)
@click.option(
    "--trust",
    type=click.Choice(["user", "project"]),
    help="Whose agent settings, hooks and MCP servers are loaded.",
)
@click.option("--visibility", type=click.Choice(["shared", "own"]), help="What agents see of each other's turns.")
@click.option(
    "--forget-allowed",
    is_flag=True,
    help="Take back what was allowed with `always in this thread`; at once, also while a run is active.",
)
@INSTRUCTIONS
@AS_JSON
def set_(
    name: str,
    new_name: str | None,
    forget_allowed: bool,
    instructions: str | None,
    as_json: bool,
    **changes: str | None,
) -> None:
    """Change a thread's settings from its next turn on. While a run is active, only the name can change."""
    given = (new_name, instructions, *changes.values())
    if not forget_allowed and all(value is None for value in given):
        raise UsageError("No setting was given.", hint="clew threads set --help lists the settings.")
    standing = None
    if instructions is not None:
        from clew.cli.stdin import read_instructions

        standing = read_instructions(instructions)
    changes |= {"name": new_name, "instructions": standing}
    with_client(lambda client: _change(client, name, as_json, changes, forget_allowed=forget_allowed))


@click.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("new")
@AS_JSON
def rename(name: str, new: str, as_json: bool) -> None:
    """Rename a thread; possible while a run is active.

    If NAME is a pair's, the pair, both its threads and its state file are renamed; not while the pair is running.
    """

    async def work(client: Client) -> None:
        done = await client.rename(name, new)
        for was, now in done.names:
            note(f"{was} is now called {now}" if was != now else f"{now} already has that name")
        if done.trouble is not None:
            note(f"warning: {harmless(done.trouble)}")
        if as_json and done.is_pair:
            from clew.api.pairs import pair_note

            print_json(pair_note(await client.pairs.find(done.id)).to_json())
        elif as_json:
            print_json(thread_object((await client.find(done.id)).record))

    with_client(work)


async def _change(
    client: Client, of: str, as_json: bool, changes: dict[str, str | None], *, forget_allowed: bool
) -> None:
    thread = await client.find(of)
    before = thread.record
    await thread.change(**changes, forget_allowed=forget_allowed)
    now = thread.record
    changed = [each for each in SETTINGS if getattr(now, each) != getattr(before, each)]
    if now.name != before.name:
        note(f"{before.name} is now called {now.name}")
    if forget_allowed:
        for rule in before.tool_rules:
            note(f"not allowed any more: {one_line(rule.words, RULE_CHARS)}")
    for each in changed:
        label = "instructions" if each == "standing" else each
        note(f"{label}: {_value(getattr(before, each))} -> {_value(getattr(now, each))}")
    if changed:
        note(f"next turn: {(await next_turn(thread))[1]}")
    elif now.name == before.name and now.tool_rules == before.tool_rules:
        note(f"{now.name} has these settings already")
    if as_json:
        print_json(thread_object(now))


def _value(value: Any) -> str:
    return one_line(str(value), SHOWN_CHARS) if value else "none"
