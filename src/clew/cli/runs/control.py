"""`clew runs cancel`, `edit`, `remove` and `send`: changes to runs that have not ended."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

from clew.cli.client_runner import client_command, with_client
from clew.cli.options import complete_thread
from clew.cli.ui.formatting import PROMPT_CHARS, one_line
from clew.cli.ui.printing import note
from clew.core.ids import SHORT_ID
from clew.core.runs.run import LIVE, Run
from clew.errors import ClewError, NotFound, UsageError

if TYPE_CHECKING:
    from clew.api.client import Client

T = TypeVar("T")

CANCEL_S = 20.0  # long enough for a graceful stop, then SIGTERM, then SIGKILL
POLL_S = 0.1


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="All active runs of this thread.")
def cancel(run_id: str | None, thread: str | None) -> None:
    """Stop a run of any process, and wait until it has ended. What the agent has answered so far is kept.

    A queued run is removed, as `clew runs remove` does: its prompt does not become a turn of the thread. Prompts that
    the page or a program queued in the daemon behind a stopped run are held until `clew runs send`; a `clew ask` that
    waits in a terminal is not held.
    """
    if run_id is not None and thread is not None:
        raise UsageError("Give an ID or --thread, not both.")
    if run_id is None and thread is None:
        raise UsageError("No run was named.", hint="Give the ID of a run (clew runs list), or --thread NAME.")

    async def work(client: Client) -> None:
        named = [await client.run(run_id)] if run_id is not None else await active_runs(client, thread)
        cancelled = [run for run in named if await client.cancel(run.id)]
        for run in named:
            if run not in cancelled:
                note(f"run {run.id[:SHORT_ID]} has already ended: {run.status}")
        for run in cancelled:
            ended = await _ended(client, run)
            note(f"run {run.id[:SHORT_ID]}: {ended.status}{f' ({ended.error})' if ended.error else ''}")

    with_client(work)


@click.command()
@click.argument("run_id", metavar="ID")
@click.argument("text")
def edit(run_id: str, text: str) -> None:
    """Change the prompt of a queued run (- = stdin). A run that has started keeps its prompt."""
    if text == "-":
        from clew.cli.stdin import read_stdin

        text = read_stdin("text", f"clew runs edit {run_id}")

    async def work(client: Client) -> None:
        run = await client.edit_queued((await client.run(run_id)).id, text, expand=True)
        note(f"run {run.id[:SHORT_ID]} will ask: {one_line(run.shown, PROMPT_CHARS)}")

    with_client(work)


@click.command()
@click.argument("run_id", metavar="ID")
@client_command()
async def remove(client: Client, run_id: str) -> None:
    """Remove a queued run: nothing of it reaches the agent, and its prompt does not become a turn of the thread.

    `clew runs show` still shows it. A run that has started is not removed: see `cancel`.
    """
    run = await client.run(run_id)
    await client.remove_queued(run.id)
    note(f"run {run.id[:SHORT_ID]} is removed: {(await _ended(client, run)).status}")


@click.command()
@click.argument("run_id", metavar="ID")
@client_command()
async def send(client: Client, run_id: str) -> None:
    """Start a queued run now, before the others that wait. The active run of its thread is stopped; its answer is kept.

    Use it also for a prompt that is held because the run before it was stopped. The daemon that holds it starts it.
    """
    run = await client.send_queued((await client.run(run_id)).id)
    when = "starts" if run.owner is not None else "starts with the next clew serve"
    note(f"run {run.id[:SHORT_ID]} {when}: {one_line(run.shown, PROMPT_CHARS)}")


async def active_runs(client: Client, thread: str | None) -> list[Run]:
    """The runs that have not ended, the newest first. Raises NotFound if there is none."""
    found = await client.find(thread) if thread is not None else None
    live = await client.runs(thread=found, statuses=LIVE, limit=1000)
    if not live:
        where, only = (f" in {found.name}", f" --thread {found.name}") if found is not None else ("", "")
        raise NotFound(f"No run is active{where}.", hint=f"clew runs list{only} shows those that have ended.")
    return live


async def _ended(client: Client, run: Run) -> Run:
    return await wait_until_ended(
        lambda: client.run(run.id),
        lambda now: now.status not in LIVE,
        f"Run {run.id[:SHORT_ID]}",
        hint="See clew runs show; on another machine it may take longer.",
    )


async def wait_until_ended(
    read: Callable[[], Awaitable[T]], has_ended: Callable[[T], bool], what: str, *, hint: str
) -> T:
    """Reads a run or a job that was asked to stop, until it has ended. Raises ClewError if that takes too long."""
    import asyncio

    deadline = time.monotonic() + CANCEL_S
    while not has_ended(now := await read()):
        if time.monotonic() > deadline:
            raise ClewError(f"{what} was asked to stop, but has not ended within {CANCEL_S:.0f} s.", hint=hint)
        await asyncio.sleep(POLL_S)
    return now
