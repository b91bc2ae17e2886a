"""The commands `clew hooks events` and `sessions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command
from clew.cli.options import AS_JSON, LIMIT
from clew.cli.ui.formatting import ago, harmless, one_line, short_ids
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.core.ids import SHORT_ID

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.hooks import HookSession, StoredHook

STATES = ("received", "dispatched", "ignored", "failed")
WHY_CHARS = 90


@click.command()
@click.option("--state", type=click.Choice(STATES), help="Only events in this state.")
@LIMIT
@AS_JSON
@client_command(reads=True)
async def events(client: Client, state: str | None, limit: int, as_json: bool) -> None:
    """List the events of forges, the newest first, with their state.

    `received`: it waits for a worker. `dispatched`: it woke an agent, or sessions were cleaned up. `ignored`: neither.
    `failed`: it could not be handled. WHY gives the reason. Events are kept for 30 days.

    \b
      clew hooks events --state failed
      clew hooks events --json | jq -r '.[] | select(.state == "ignored").why'
    """
    from clew.api.hooks import event_json

    found = await client.hooks.events(state=state, limit=limit)
    if as_json:
        print_json([event_json(each) for each in found])
    elif not found:
        note("No events yet." if state is None else "No such events.")
    else:
        short = short_ids(each.id for each in found)
        headings = ["EVENT", "STATE", "RECEIVED", "BY", "KIND", "WHERE", "JOBS", "WHY"]
        rows = [[short[each.id], *_event_row(each)] for each in found]
        say(columns(headings, rows, optional=["BY", "JOBS", "KIND", "RECEIVED"]))


def _event_row(stored: StoredHook) -> list[str]:
    event = stored.event
    where = f"{event.repo}#{event.number}" if event.number is not None else f"{event.repo} {event.branch or ''}"
    jobs = " ".join(job[:SHORT_ID] for job in stored.jobs) or "-"
    return [
        stored.state,
        ago(stored.received_at),
        one_line(event.actor, 20),
        event.kind,
        one_line(where, 50),
        jobs,
        one_line(stored.why or "-", WHY_CHARS),
    ]


@click.command()
@click.option("--repo", metavar="OWNER/NAME", help="Only sessions of this repository.")
@AS_JSON
@client_command(reads=True)
async def sessions(client: Client, repo: str | None, as_json: bool) -> None:
    """List the sessions by key, with what the key's next event would find.

    `resumable`: it would resume the session. `fresh`: there is none, so it would send the whole skill to a fresh
    session. `running`: an agent is working in it now.

    \b
      clew hooks sessions
      clew hooks sessions --repo charles/peon --json | jq -r '.[].key'
    """
    from clew.api.hooks import session_json

    found = await client.hooks.sessions.list()
    if repo is not None:  # on a forge, case does not matter
        found = [each for each in found if each.key.repo.lower() == repo.lower()]
    last = await client.hooks.last_events()
    trees = {tree.key: tree.path for tree in await client.hooks.trees.list() if tree.there}
    if as_json:
        objects = [(each.key.key, session_json(each, last.get(each.key.key))) for each in found]
        print_json([session | {"work_tree": trees.get(key)} for key, session in objects])
    elif not found:
        note("No sessions yet." if repo is None else f"No sessions of {harmless(repo)}.")
    else:
        say(columns(["KEY", "STATE", "USED", "BRANCH", "WORK TREE"], [_session_row(each, trees) for each in found]))


def _session_row(session: HookSession, trees: dict[str, str]) -> list[str]:
    key = session.key
    branch = one_line(key.branch or "-", 30)
    return [key.key, session.state, ago(key.used_at), branch, harmless(trees.get(key.key, "-"))]
