"""`clew runs cancel`, `edit`, `remove` and `send`: what is done to runs that have not ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from clew.cli.output import SHORT_ID, note, one_line
from clew.cli.session import complete_thread, with_client
from clew.errors import ClewError, NotFound, UsageError

if TYPE_CHECKING:
    from clew.client import Client
    from clew.core.run import Run

CANCEL_S = 20.0  # a gentle stop, then TERM, then KILL
POLL_S = 0.1
PROMPT_CHARS = 80


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="Whatever is going on in this thread.")
def cancel(run_id: str | None, thread: str | None) -> None:
    """Stop a run of any process, and wait until it has ended. What the agent said so far is kept.

    A queued one is taken back, as `clew runs remove` does: its prompt is no turn of the thread. Prompts that the page
    or a program queued in the daemon behind a run that is stopped are held until `clew runs send`; a `clew ask` that
    waits in a terminal is not.
    """
    if run_id is not None and thread is not None:
        raise UsageError("Give an ID or --thread, not both.")
    if run_id is None and thread is None:
        raise UsageError("Name the run to cancel.", hint="Give its ID (clew runs list), or --thread NAME.")

    async def work(client: Client) -> None:
        meant = [await client.run(run_id)] if run_id is not None else await going_on(client, thread)
        asked = [run for run in meant if await client.cancel(run.id)]
        for run in meant:
            if run not in asked:
                note(f"run {run.id[:SHORT_ID]} is over already: {run.status}")
        for run in asked:
            ended = await _ended(client, run)
            note(f"run {run.id[:SHORT_ID]}: {ended.status}{f' ({ended.error})' if ended.error else ''}")

    with_client(work)


@click.command()
@click.argument("run_id", metavar="ID")
@click.argument("text")
def edit(run_id: str, text: str) -> None:
    """Give a queued run another prompt (- = stdin). One that has started keeps its own."""
    if text == "-":
        from clew.cli.ask import read_stdin

        text = read_stdin("text")

    async def work(client: Client) -> None:
        run = await client.edit_queued((await client.run(run_id)).id, text)
        note(f"run {run.id[:SHORT_ID]} will ask: {one_line(run.prompt, PROMPT_CHARS)}")

    with_client(work)


@click.command()
@click.argument("run_id", metavar="ID")
def remove(run_id: str) -> None:
    """Take a queued run back: nothing of it reaches the agent, and its prompt is no turn of the thread.

    `clew runs show` still shows it. One that has started is left alone: see `cancel`.
    """

    async def work(client: Client) -> None:
        run = await client.run(run_id)
        await client.remove_queued(run.id)
        ended = await _ended(client, run)
        note(f"run {run.id[:SHORT_ID]} is taken back: {ended.status}")

    with_client(work)


@click.command()
@click.argument("run_id", metavar="ID")
def send(run_id: str) -> None:
    """Start a queued run now, before the others that wait. What is going on in its thread is stopped, and kept.

    This is how a prompt starts that is held because the run before it was stopped. The daemon that has it starts it.
    """

    async def work(client: Client) -> None:
        run = await client.send_queued((await client.run(run_id)).id)
        when = "starts" if run.owner is not None else "starts with the next clew serve"
        note(f"run {run.id[:SHORT_ID]} {when}: {one_line(run.prompt, PROMPT_CHARS)}")

    with_client(work)


async def going_on(client: Client, thread: str | None) -> list[Run]:
    """The runs that have not ended, the newest first. Raises NotFound when there is none."""
    from clew.core.run import LIVE

    found = await client.find(thread) if thread is not None else None
    live = await client.runs(thread=found, statuses=LIVE, limit=1000)
    if not live:
        where, only = (f" in {found.name}", f" --thread {found.name}") if found is not None else ("", "")
        raise NotFound(f"No run is going on{where}.", hint=f"clew runs list{only} shows those that are over.")
    return live


async def _ended(client: Client, run: Run) -> Run:
    import asyncio

    from clew.core.run import LIVE

    deadline = time.monotonic() + CANCEL_S
    while (now := await client.run(run.id)).status in LIVE:
        if time.monotonic() > deadline:
            raise ClewError(
                f"Run {run.id[:SHORT_ID]} has been told to stop, but has not ended within {CANCEL_S:.0f} s.",
                hint="See clew runs show; on another machine it may take longer.",
            )
        await asyncio.sleep(POLL_S)
    return now
