"""The commands `clew hooks reset`, `sweep` and `import-sessions`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command, with_client
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import harmless, joined, one_line, plural
from clew.cli.ui.printing import note, print_json, say
from clew.cli.ui.tables import columns
from clew.core.hooks.hook import session_key, split_key
from clew.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clew.api.client import Client
    from clew.api.hooks import ImportedKey, Swept

FILE_MAX_BYTES = 100_000_000
STATE_TEXTS = {
    "adopted": "adopted: its next event resumes it",
    "no_file": "no session file here: not resumed",
    "kept": "has a session already (--replace adopts this one)",
    "unknown_agent": "the settings have no such agent",
    "unknown_repo": "the settings have no such repository",
    "failed": "failed",
    "no_key": "not a session key: they look like boss:charles/peon:4",
}


@click.command()
@click.argument("words", metavar="KEY | AGENT REPO NUMBER", nargs=-1, required=True)
@AS_JSON
def reset(words: tuple[str, ...], as_json: bool) -> None:
    """Drop a session: the next event of its key sends the whole skill to a fresh one.

    Prints whether there was one; the exit code is 0 either way. The conversation is kept as a thread, and the work tree
    is kept too. A run in progress continues; the run of the next event starts after it.

    \b
      clew hooks reset boss:charles/peon:4
      clew hooks reset boss charles/peon 4
    """
    key = _key(words)

    async def work(client: Client) -> None:
        dropped = await client.hooks.sessions.drop(key)
        if as_json:
            print_json({"key": key, "dropped": dropped})
        else:
            say(f"{key}: {'dropped' if dropped else 'there was no session'}")

    with_client(work)


def _key(words: tuple[str, ...]) -> str:
    try:
        if len(words) == 1:
            split_key(words[0])
            return words[0]
        agent, repo, number = words
        return session_key(agent, repo, int(number))
    except ValueError:
        raise UsageError(
            f"{' '.join(words)!r} is not a session key.", hint="Write boss:charles/peon:4, or boss charles/peon 4."
        ) from None


@click.command()
@click.option("--dry-run", is_flag=True, help="Only list what would be dropped and removed.")
@AS_JSON
@client_command()
async def sweep(client: Client, dry_run: bool, as_json: bool) -> None:
    """Drop the sessions whose clean-up event was missed.

    Drops sessions that were not used for longer than hooks.sweep_age, and sessions of issues and pull requests that are
    closed, if the environment has a token to ask the forge with. Removes work trees of dropped sessions, if their issue
    is closed or they were not used for that long; what is in a work tree and nowhere else is archived first. Deletes
    events older than 30 days. `clew serve` does it daily.

    \b
      clew hooks sweep --dry-run
    """
    from clew.api import hooks

    found = await hooks.sweep(client, dry_run=dry_run)
    if as_json:
        print_json([each.as_dict() for each in found])
    elif not found:
        note("Nothing to sweep.")
    else:
        rows = [[each.key, each.why, one_line(each.tree or "-", 100)] for each in found]
        say(columns(["KEY", "WHY", "WORK TREE"], rows))
        note(_swept(found, dry_run=dry_run))


def _swept(found: Sequence[Swept], *, dry_run: bool) -> str:
    sessions = sum(each.session for each in found)
    trees = len(found) - sessions
    dropped = f"{plural(sessions, 'session')} {'to drop' if dry_run else 'dropped'}"
    orphans = f"{plural(trees, 'work tree')} without a session {'to sweep' if dry_run else 'swept'}"
    return joined(dropped if sessions else "", orphans if trees else "", by="; ")


@click.command("import-sessions")
@click.argument("file", metavar="FILE", type=click.Path())
@click.option("--replace", is_flag=True, help="Also replace sessions that keys have already.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done with each session.")
@AS_JSON
def import_sessions(file: str, replace: bool, dry_run: bool, as_json: bool) -> int:
    """Adopt the sessions of an old sessions.json: an object of keys and session ids.

    The content of a session is read from its own file, and becomes turns of the key's thread. Without that file there
    is nothing to resume, and the next event starts a fresh session. Agent and repository must be in the settings. The
    exit code is 0 if each was adopted, kept or had no file; 2 if one could not be adopted (the others still are).

    \b
      clew hooks import-sessions ~/.local/state/claude-hooks/sessions.json --dry-run
    """
    from clew.api.files import named_path

    old = _read(named_path(file))

    async def work(client: Client) -> list[ImportedKey]:
        from clew.api import hooks

        return await hooks.import_sessions(client, old, replace=replace, dry_run=dry_run)

    results = with_client(work)
    if as_json:
        print_json([each.as_dict() for each in results])
    else:
        _print(results, dry_run=dry_run)
    return 0 if all(each.state in ("adopted", "kept", "no_file") for each in results) else UsageError.exit_code


def _read(path: Path) -> Mapping[str, object]:
    try:
        if path.stat().st_size > FILE_MAX_BYTES:
            raise UsageError(f"{path} is longer than {FILE_MAX_BYTES:,} bytes, the limit for a sessions.json.")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON.", hint="The file may be incomplete.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not JSON of the expected form: an object of keys and session ids.")
    return content


def _print(results: Sequence[ImportedKey], *, dry_run: bool) -> None:
    for each in results:
        why = f": {each.why}" if each.why else ""
        say(harmless(f"{one_line(each.key, 80)}  {STATE_TEXTS[each.state]}{why}"))
    adopted = sum(each.state == "adopted" for each in results)
    note(f"{adopted} of {plural(len(results), 'session')} {'would be ' if dry_run else ''}adopted")
