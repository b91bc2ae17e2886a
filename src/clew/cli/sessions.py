"""The command `clew sessions`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command, with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.error_report import print_error
from clew.cli.options import AS_JSON, OF_AGENT, OF_PROJECT
from clew.cli.ui.formatting import ago, harmless, one_line, plural, short_ids
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.sessions import Adoption, AdoptionResult, AgentSession

SHOWN = 50  # without --all
HEADINGS = ["ID", "AGENT", "LAST USED", "SIZE", "THREAD", "DIRECTORY", "FIRST WORDS"]
OPTIONAL_COLUMNS = ["SIZE", "AGENT", "DIRECTORY"]


@click.group(cls=SuggestingGroup)
def sessions() -> None:
    """List the agents' own sessions on this machine, and adopt them as threads."""


@sessions.command("list")
@OF_AGENT
@OF_PROJECT
@click.option("--all", "everything", is_flag=True, help=f"All of them, not only the newest {SHOWN}.")
@AS_JSON
@client_command(reads=True)
async def list_(client: Client, agent: str | None, project: str | None, everything: bool, as_json: bool) -> None:
    """List the sessions that the agents' own CLIs or Clew started, the last used first."""
    from clew.api.sessions import newest, session_shape

    found, has_more = await newest(client, agent=agent, project=project, limit=None if everything else SHOWN)
    if not found and project is not None and not Path(project).is_dir():
        raise UsageError(f"{project} is not a directory.", hint="No session was ever started there.")
    if as_json:
        print_json([session_shape(session).to_json() for session in found])
    elif found:
        short = short_ids(session.id for session in found)
        say(columns(HEADINGS, [_row(session, short[session.id]) for session in found], optional=OPTIONAL_COLUMNS))
        if has_more:
            note(f"the newest {SHOWN}; --all shows the rest")
    else:
        note("No sessions yet.")


@sessions.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="All sessions that belong to no thread, or that were continued outside Clew from an earlier turn.",
)
@OF_AGENT
@OF_PROJECT
@click.option("--dry-run", is_flag=True, help="Only print what would be adopted.")
@AS_JSON
def adopt(
    ids: tuple[str, ...], everything: bool, agent: str | None, project: str | None, dry_run: bool, as_json: bool
) -> int:
    """Turn sessions into threads: their history becomes turns, and the next turn resumes them.

    Their files are only read, and can still be used in the agent's own CLI. If a session continues there afterwards,
    its new turns come into the thread with the next turn, or with `threads sync`. If it was continued from an earlier
    turn, it is not the thread's any more: the next turn starts fresh, and adopting the session again creates another
    thread with all of its history. Other sessions that belong to a thread are skipped. ID may be any unambiguous
    beginning of an id.

    \b
      clew sessions adopt 3f2a
      clew sessions adopt --all --project ~/shop
    """
    if ids and everything:
        raise UsageError("Ids and --all cannot be given together.", hint="Give one of them.")
    if not ids and not everything:
        raise UsageError("No session was named.", hint="Name sessions by their ids, or give --all.")
    if ids and project is not None:
        raise UsageError("--project can only be given with --all.", hint="An id is enough.")

    async def work(client: Client) -> Adoption:
        from clew.api import sessions as api

        chosen = await api.choose(client, api.SessionSelection(ids, everything, agent, project))
        return await api.adopt(client, chosen, dry_run=dry_run)

    adoption = with_client(work)
    done, failed = adoption.done, adoption.failed
    if failed and not done:
        *others, last = failed
        for error in others:
            print_error(error)
        raise last
    if as_json:
        from clew.api.sessions import adopted_shape

        print_json([adopted_shape(each).to_json() for each in done])
    else:
        _print(done, dry_run=dry_run)
    for error in failed:
        print_error(error)
    return failed[0].exit_code if failed else 0


def _print(done: Sequence[AdoptionResult], *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for each in done:
        if each.thread is not None:
            say(harmless(f"{each.thread}  {would}adopted with {plural(each.turns, 'turn')}: {each.session.id}"))
        else:
            note(harmless(f"skipped {each.session.id}: {each.why}"))
    if not done:
        note("No sessions yet.")


def _row(session: AgentSession, short: str) -> list[str]:
    return [
        short,
        session.agent,
        ago(session.changed_at),
        _size(session.size_bytes),
        session.thread or "-",
        one_line(session.work_dir, 120) or "-",
        one_line(session.first_words, 120) or "-",
    ]


def _size(size_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} B"
