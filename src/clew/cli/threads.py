"""`clew threads`"""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from clew.cli import states
from clew.cli.ahead import ahead_of
from clew.cli.lazy import SuggestingGroup
from clew.cli.options import AS_JSON, NO_WAIT, REPLY_AS_JSON, TIMEOUT
from clew.cli.output import (
    ago,
    columns,
    harmless,
    note,
    one_line,
    plural,
    price,
    print_json,
    say,
    short_ids,
    stamp,
)
from clew.cli.session import complete_thread, with_client
from clew.cli.threads_delete import delete
from clew.cli.threads_set import rename, set_
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.client import Client, Run, Thread
    from clew.core.history import Turn
    from clew.core.run import Run as RunRecord
    from clew.core.thread import Thread as ThreadRecord
    from clew.engine.settings import Person
    from clew.store.records import ThreadCard

RUNS_LOOKED_AT = 100_000
SHOWN_CHARS = 200  # of the standing text
HEADINGS = ["NAME", "LAST USED", "STATE", "COST", "AGENT", "DIRECTORY"]


@click.group(cls=SuggestingGroup)
def threads() -> None:
    """List, show, set, rename, edit, truncate, retry and delete threads.

    TURN_ID is a turn's id as `threads show` lists it, or any unambiguous beginning of it.
    """


for command in (delete, rename, set_):
    threads.add_command(command)


@threads.command("list")
@click.option("--cwd", metavar="DIR", help="Only those of this work directory.")
@click.option("--here", is_flag=True, help="Only those of the directory you are in.")
@click.option("--search", metavar="TEXT", help="Only those with this in their name, directory or turns.")
@click.option(
    "--kind",
    type=click.Choice(["chat", "job", "all"]),
    default="chat",
    show_default=True,
    help="Conversations, those of jobs, or both.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="At most so many.")
@AS_JSON
def list_(cwd: str | None, here: bool, search: str | None, kind: str, limit: int, as_json: bool) -> None:
    """List threads, the last used first, with what is going on in them and what they cost."""
    if cwd is not None and here:
        raise UsageError("--cwd and --here name two directories.", hint="Give one of them.")

    async def work(client: Client) -> None:
        from clew.core.run import RunStatus

        folder = "." if here else cwd
        where = os.path.realpath(folder) if folder is not None else None
        of_kind = None if kind == "all" else kind
        found = (await client.cards(q=search, cwd=where, kind=of_kind, limit=limit)).items
        queued = Counter(run.thread_id for run in await client.runs(statuses=[RunStatus.QUEUED], limit=RUNS_LOOKED_AT))
        if as_json:
            print_json([_card_object(card, queued[card.thread.id]) for card in found])
        elif found:
            say(columns(HEADINGS, [_row(card, queued[card.thread.id]) for card in found]))
        else:
            narrowed = search is not None or where is not None
            note("No such threads." if narrowed else 'No threads yet. Start one with clew ask "…".')

    with_client(work)


@threads.command()
@click.argument("name", shell_complete=complete_thread)
@AS_JSON
def show(name: str, as_json: bool) -> None:
    """Show a thread's turns with their ids, what waits in it, and whether the next turn would resume its session."""

    async def work(client: Client) -> None:
        thread = await client.find(name)
        turns = await thread.turns()
        ahead = await ahead_of(client, thread)
        if as_json:
            print_json(
                _thread_object(thread.record) | {"turns": [_turn_object(turn) for turn in turns]} | ahead.as_object()
            )
            return
        record = thread.record
        say(f"{record.name}  {_who(record)}  {harmless(record.cwd)}")
        say(f"permissions {record.permissions}, trust {record.trust}, visibility {record.visibility}")
        if record.standing:
            say(f"instructions: {one_line(record.standing, SHOWN_CHARS)}")
        short = short_ids(turn.id for turn in turns)
        unanswered = _unanswered(turns, await client.runs(thread=thread, limit=RUNS_LOOKED_AT))
        for turn in turns:
            say(f"\n{_turn_heading(turn, short[turn.id])}\n{_for_terminal(turn.text)}")
            if turn.id in unanswered:
                say(f"(no answer{unanswered[turn.id]})")
        say()
        for line in ahead.lines():
            say(line)

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
@click.option("--agent", metavar="AGENT", help="Who answers this time.  [default: whom it was asked before]")
@click.option("--model", metavar="MODEL", help="The model, this time.")
@TIMEOUT
@NO_WAIT
@REPLY_AS_JSON
def retry(
    name: str,
    turn_id: str,
    agent: str | None,
    model: str | None,
    timeout: str | None,
    no_wait: bool,
    as_json: bool,
) -> int:
    """Ask a user's turn again, in a fresh session. What follows it is archived."""

    async def work(client: Client) -> int:
        from clew.cli.conversation import converse

        thread = await client.find(name)

        async def start(person: Person | None) -> Run:
            return await thread.retry(turn_id, agent=agent, model=model, wait=not no_wait, person=person)

        return await converse(thread, start, as_json=as_json, agent=agent)

    return with_client(work, timeout=timeout)


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


def _row(card: ThreadCard, queued: int) -> list[str]:
    record = card.thread
    state, cost = states.of_thread(card, queued), price(card.cost_usd, used=False)
    return [record.name, ago(record.updated_at), state, cost, _who(record), harmless(record.cwd)]


def _who(record: ThreadRecord) -> str:
    return one_line(f"{record.agent} {record.model}" if record.model else record.agent, 80)


def _turn_heading(turn: Turn, short: str) -> str:
    who = "you" if turn.role == "user" else one_line(" ".join(part for part in (turn.agent, turn.model) if part), 80)
    marks = [mark for mark, given in (("cut off", turn.partial), ("edited", turn.revision > 0)) if given]
    return "  ".join([short, who, ago(turn.created_at), *(f"({mark})" for mark in marks)])


def _for_terminal(text: str) -> str:
    return harmless(text) if sys.stdout.isatty() else text


def _short(turns: tuple[Turn, ...], turn_id: str) -> str:
    return one_line(short_ids(turn.id for turn in turns).get(turn_id, turn_id), 60)


def _card_object(card: ThreadCard, queued: int) -> dict[str, Any]:
    live = card.live
    return _thread_object(card.thread) | {
        "cost_usd": card.cost_usd,
        "live": None if live is None else {"run": live.id, "status": live.status},
        "queued": queued,
        "questions": card.questions,
        "last_text": card.last_text,
    }


def _thread_object(record: ThreadRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "id": record.id,
        "cwd": record.cwd,
        "agent": record.agent,
        "model": record.model,
        "permissions": record.permissions,
        "trust": record.trust,
        "visibility": record.visibility,
        "instructions": record.standing,
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
