"""The command `clew sessions`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import client_command, with_client
from clew.cli.command_groups import SuggestingGroup
from clew.cli.error_report import print_error
from clew.cli.options import AS_JSON, OF_AGENT, OF_PROJECT
from clew.cli.ui.formatting import ago, harmless, one_line, plural, short_ids
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.errors import Busy, ClewError, NotFound, UsageError
from clew.system.timestamps import stamp

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.hosts.chat.agent_sessions import AdoptionResult, AgentSession, AgentSessions

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
    found: list[AgentSession] = []
    has_more = False
    async for session in _sessions(client).newest(agent=agent, project=project):
        if len(found) == SHOWN and not everything:
            has_more = True
            break
        found.append(session)
    if not found and project is not None and not Path(project).is_dir():
        raise UsageError(f"{project} is not a directory.", hint="No session was ever started there.")
    if as_json:
        print_json([_object(session) for session in found])
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
    help="All sessions that belong to no thread, or that continued outside Clew since.",
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
    Clew notices; the new messages are not in the thread. The next turn then starts fresh, and adopting the session
    again creates another thread with all of its history. A session that belongs to a thread and did not continue
    outside Clew is skipped. ID may be any unambiguous beginning of an id.

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
    failed: list[ClewError] = []

    async def work(client: Client) -> list[AdoptionResult]:
        from clew.core.thread import Permissions, Trust

        known = _sessions(client)
        chosen: list[AgentSession] = []
        if everything:
            chosen = [each async for each in known.newest(agent=agent, project=project)]
        for session_id in dict.fromkeys(ids):
            try:
                chosen.append(await known.find(session_id, agent=agent))
            except NotFound as error:
                failed.append(error)
        permissions = Permissions(client.settings.of("permissions"))
        trust = Trust(client.settings.of("trust"))
        done: list[AdoptionResult] = []
        for each in chosen:
            try:
                done.append(await known.adopt(each, permissions=permissions, trust=trust, dry_run=dry_run))
            except Busy as error:
                failed.append(error)
        return done

    done = with_client(work)
    if failed and not done:
        *others, last = failed
        for error in others:
            print_error(error)
        raise last
    if as_json:
        print_json([_object(each.session) | _outcome(each) for each in done])
    else:
        _print(done, dry_run=dry_run)
    for error in failed:
        print_error(error)
    return failed[0].exit_code if failed else 0


def _print(done: list[AdoptionResult], *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for each in done:
        if each.thread is not None:
            say(harmless(f"{each.thread}  {would}adopted with {plural(each.turns, 'turn')}: {each.session.id}"))
        else:
            note(harmless(f"skipped {each.session.id}: {each.why}"))
    if not done:
        note("No sessions yet.")


def _sessions(client: Client) -> AgentSessions:
    from clew.hosts.chat.agent_sessions import AgentSessions

    return AgentSessions(client.engine)


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


def _object(session: AgentSession) -> dict[str, Any]:
    return {
        "id": session.id,
        "agent": session.agent,
        "cwd": session.work_dir or None,
        "first_words": one_line(session.first_words, 200),
        "changed_at": stamp(session.changed_at),
        "size_bytes": session.size_bytes,
        "file": str(session.path),
        "thread": session.thread,
    }


def _outcome(done: AdoptionResult) -> dict[str, Any]:
    return {
        "adopted": done.thread is not None,
        "thread": done.thread or done.session.thread,
        "turns": done.turns,
        "why": done.why or None,
    }
