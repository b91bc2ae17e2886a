"""`clew threads`"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.lazy import SuggestingGroup
from clew.cli.options import AS_JSON, NO_WAIT, REPLY_AS_JSON, TIMEOUT
from clew.cli.output import ago, columns, harmless, note, one_line, plural, print_json, say, short_ids, stamp
from clew.cli.session import complete_thread, with_client
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client, Run, Thread
    from clew.core.history import Turn
    from clew.core.run import Run as RunRecord
    from clew.engine.settings import Person

RUNS_LOOKED_AT = 100_000


@click.group(cls=SuggestingGroup)
def threads() -> None:
    """List, show, edit, truncate, retry and delete threads.

    TURN_ID is a turn's id as `threads show` lists it, or any unambiguous beginning of it.
    """


@threads.command("list")
@click.option("--cwd", metavar="DIR", help="Only those of this work directory.")
@click.option("--here", is_flag=True, help="Only those of the directory you are in.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@AS_JSON
def list_(cwd: str | None, here: bool, limit: int, as_json: bool) -> None:
    """List threads, the last used first."""
    if cwd is not None and here:
        raise UsageError("--cwd and --here name two directories.", hint="Give one of them.")

    async def work(client: Client) -> None:
        found = await client.threads(cwd="." if here else cwd, limit=limit)
        if as_json:
            print_json([_thread_object(thread) for thread in found])
        elif not found:
            note('No threads yet. Start one with clew ask "…".' if cwd is None and not here else "No threads there.")
        else:
            rows = [[one.name, ago(one.record.updated_at), _who(one), harmless(one.record.cwd)] for one in found]
            say(columns(["NAME", "LAST USED", "AGENT", "DIRECTORY"], rows))

    with_client(work)


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@AS_JSON
def show(name: str, as_json: bool) -> None:
    """Show a thread's turns with their ids."""

    async def work(client: Client) -> None:
        thread = await client.find(name)
        turns = await thread.turns()
        if as_json:
            print_json({**_thread_object(thread), "turns": [_turn_object(turn) for turn in turns]})
            return
        record = thread.record
        say(f"{record.name}  {_who(thread)}  {harmless(record.cwd)}")
        say(f"permissions {record.permissions}, trust {record.trust}, visibility {record.visibility}")
        short = short_ids(turn.id for turn in turns)
        unanswered = _unanswered(turns, await client.runs(thread=thread, limit=RUNS_LOOKED_AT))
        for turn in turns:
            say(f"\n{_turn_heading(turn, short[turn.id])}\n{_for_terminal(turn.text)}")
            if turn.id in unanswered:
                say(f"(no answer{unanswered[turn.id]})")

    with_client(work)


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("turn_id")
@click.argument("text")
def edit(name: str, turn_id: str, text: str) -> None:
    """Give a turn another text (- = stdin). The old one is kept, and later turns stay."""
    if text == "-":
        from clew.cli.ask import read_stdin

        text = read_stdin("text")
    if not text.strip():
        raise UsageError("The new text is empty.", hint="clew threads truncate takes a turn away.")

    async def work(client: Client) -> None:
        thread = await client.find(name)
        turn = await thread.edit(turn_id, text)
        note(f"edited turn {_short(await thread.turns(), turn.id)} of {thread.name}; the old text is kept")
        await _tell_session(thread)

    with_client(work)


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("turn_id")
def truncate(name: str, turn_id: str) -> None:
    """Archive that turn and all after it."""

    async def work(client: Client) -> None:
        thread = await client.find(name)
        count = await thread.truncate(turn_id)
        note(f"archived {plural(count, 'turn')} of {thread.name}")
        await _tell_session(thread)

    with_client(work)


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@click.argument("turn_id")
@TIMEOUT
@NO_WAIT
@REPLY_AS_JSON
def retry(name: str, turn_id: str, timeout: str | None, no_wait: bool, as_json: bool) -> int:
    """Ask a user's turn again, in a fresh session. What follows it is archived."""

    async def work(client: Client) -> int:
        from clew.cli.conversation import converse

        thread = await client.find(name)

        async def start(person: Person | None) -> Run:
            return await thread.retry(turn_id, wait=not no_wait, person=person)

        return await converse(client, thread, start, as_json=as_json)

    return with_client(work, timeout=timeout)


@threads.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=complete_thread)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(names: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Delete threads. Each is written to an archive file first."""

    async def plan(client: Client) -> dict[str, str]:
        found = {thread.name: thread for thread in [await client.find(name) for name in names]}
        return {name: await _counted(client, thread) for name, thread in found.items()}

    planned = with_client(plan)
    for name, turns in planned.items():
        note(f"{'would delete' if dry_run else 'to delete'}: {name} ({turns})")
    if dry_run:
        return
    if not yes:
        _confirm(len(planned))  # with nothing open: a person may take their time

    async def work(client: Client) -> None:
        for name in planned:
            deleted = await (await client.find(name)).delete()
            note(f"deleted {deleted.name}; its archive is {deleted.archive}")

    with_client(work)


def _confirm(count: int) -> None:
    if not (sys.stdin is not None and sys.stdin.isatty()):
        raise UsageError("Deleting needs a yes.", hint="Give --yes, or --dry-run to see what would go.")
    try:
        agreed = click.confirm(f"Delete {plural(count, 'thread')}?", err=True)
    except click.Abort:
        note("")  # nobody pressed Enter
        raise
    if not agreed:
        raise click.Abort


async def _counted(client: Client, thread: Thread) -> str:
    """`2 turns, 8 archived`"""
    turns = await client.engine.database.call(lambda store: store.all_turns(thread.record.id))
    archived = sum(turn.archived for turn in turns)
    return plural(len(turns) - archived, "turn") + (f", {archived:,} archived" if archived else "")


def _unanswered(turns: tuple[Turn, ...], runs: list[RunRecord]) -> dict[str, str]:
    """The user's turns that nothing was said to, each with why not. Of several runs the newest counts."""
    from clew.core.run import LIVE, RunStatus

    newest = {run.prompt_turn_id: run for run in reversed(runs)}
    said = {turn.run_id for turn in turns if turn.role == "assistant"}
    words = {}
    for turn in turns:
        run = newest.get(turn.id)
        if turn.role != "user" or run is None or run.id in said or run.status is RunStatus.ANSWERED:
            continue
        why = run.outcome if run.status is RunStatus.FAILED and run.outcome else run.status
        words[str(turn.id)] = f" yet: {run.status}" if run.status in LIVE else f": {why.replace('_', ' ')}"
    return words


async def _tell_session(thread: Thread) -> None:
    match await thread.session_stands():
        case None:
            note("it has no session that could be resumed: the next turn starts fresh anyway")
        case False:
            note("the session holds what you changed: the next turn starts fresh, with the thread as it is now")
        case True:
            note("the session never saw what you changed: the next turn still resumes it")


def _who(thread: Thread) -> str:
    record = thread.record
    return one_line(f"{record.agent} {record.model}" if record.model else record.agent, 80)


def _turn_heading(turn: Turn, short: str) -> str:
    who = "you" if turn.role == "user" else one_line(" ".join(part for part in (turn.agent, turn.model) if part), 80)
    marks = [mark for mark, given in (("cut off", turn.partial), ("edited", turn.revision > 0)) if given]
    return "  ".join([short, who, ago(turn.created_at), *(f"({mark})" for mark in marks)])


def _for_terminal(text: str) -> str:
    return harmless(text) if sys.stdout.isatty() else text


def _short(turns: tuple[Turn, ...], turn_id: str) -> str:
    return one_line(short_ids(turn.id for turn in turns).get(turn_id, turn_id), 60)


def _thread_object(thread: Thread) -> dict[str, Any]:
    record = thread.record
    return {
        "name": record.name,
        "id": record.id,
        "cwd": record.cwd,
        "agent": record.agent,
        "model": record.model,
        "permissions": record.permissions,
        "trust": record.trust,
        "visibility": record.visibility,
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
    }


def _turn_object(turn: Turn) -> dict[str, Any]:
    return {
        "id": turn.id,
        "role": turn.role,
        "agent": turn.agent,
        "model": turn.model,
        "text": turn.text,
        "partial": turn.partial,
        "revision": turn.revision,
        "run": turn.run_id,
        "created_at": stamp(turn.created_at),
    }
