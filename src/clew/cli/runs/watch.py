"""`clew runs watch`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.output import SHORT_ID, note, one_line, print_json, stamp
from clew.cli.session import complete_thread, with_client
from clew.cli.states import WHO_RECOVERS
from clew.errors import AgentFailed, Cancelled, UsageError

if TYPE_CHECKING:
    import asyncio

    from clew.cli.display import Display
    from clew.client import Client
    from clew.core.events import Event
    from clew.core.run import Run
    from clew.store.records import StoredEvent

PROMPT_CHARS = 80
LOOK_S = 1.0  # a run whose process was killed does not end by itself


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="What is going on in this thread.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as an object on a line of its own.")
def watch(run_id: str | None, thread: str | None, as_json: bool) -> int:
    """Show a run of any process live, from its first event to its end.

    Without an ID it is the newest that is going on. One that is over is shown at once. Ctrl-C stops the watching, not
    the run. The exit code is that of `clew ask`, by how the run ended.
    """
    if run_id is not None and thread is not None:
        raise UsageError("Give an ID or --thread, not both.")

    async def work(client: Client) -> int:
        run = await client.run(run_id) if run_id is not None else await _newest(client, thread)
        return await _watch(client, run, as_json=as_json)

    return with_client(work, reads=True)


async def _newest(client: Client, thread: str | None) -> Run:
    """The newest that runs, or waits for an answer; else the newest that is queued."""
    from clew.cli.runs_queue import going_on
    from clew.core.run import RunStatus

    live = await going_on(client, thread)
    return next((run for run in live if run.status is not RunStatus.QUEUED), live[0])


async def _watch(client: Client, run: Run, *, as_json: bool) -> int:
    import asyncio

    from clew.cli.conversation import Stop, conclude
    from clew.cli.display import Display
    from clew.core.run import LIVE

    short = run.id[:SHORT_ID]
    display = Display(run.agent, as_json=as_json)
    if not as_json:
        name = (await client.find(run.thread_id)).name
        note(f"run {short} of {name}: {one_line(run.prompt, PROMPT_CHARS)}")
    if run.status in LIVE and run.owner is None and not _is_served(client):
        note("nobody carries it out: it goes on with the next clew serve")
    if run.status in LIVE and not as_json:
        display.start()
    watched = asyncio.current_task()
    gone = asyncio.create_task(_gone(client, run))
    gone.add_done_callback(lambda task: watched.cancel() if watched is not None and _is_known(task) else None)
    try:
        with Stop(display).listening():
            async for stored in client.follow(run.id):
                if as_json:
                    _print(stored)
                elif stored.event is not None and await _still_holds(client, run, stored.event):
                    display.show(stored.event)
                    await _tell_question(client, run, stored, display)
    except asyncio.CancelledError:
        if _is_known(gone):
            display.note(f"the process that carried run {short} out is gone; {WHO_RECOVERS}", after_key=True)
            return AgentFailed.exit_code
        display.note(f"no longer watched; run {short} goes on (clew runs cancel {short} stops it)", after_key=True)
        return Cancelled.exit_code
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await display.close()
    return conclude(await client.reply(run.id), as_json=False)


def _is_known(gone: asyncio.Task[None]) -> bool:
    """True if the run's process is known to be gone. If the store could not be read, nothing is known."""
    return gone.done() and not gone.cancelled() and gone.exception() is None


async def _gone(client: Client, run: Run) -> None:
    """Returns when nobody carries the run out any more, although it has not ended."""
    import asyncio

    while True:
        await asyncio.sleep(LOOK_S)
        if await client.gone([await client.run(run.id)]) and not _is_served(client):
            return


def _is_served(client: Client) -> bool:
    """A daemon is there; it takes up what another one left in a few seconds."""
    from clew.server.presence import serving

    return bool(serving(client.home))


async def _still_holds(client: Client, run: Run, event: Event) -> bool:
    """What a run waited for is told only while it does: it may have started since, or its daemon may have died."""
    from clew.core.events import RunQueued
    from clew.core.run import LIVE, RunStatus
    from clew.errors import NotFound

    if not isinstance(event, RunQueued):
        return True
    now = await client.run(run.id)
    if now.status is not RunStatus.QUEUED or now.owner is None:
        return False
    if event.waiting_for == "person":
        return now.asked.held
    if event.held_by is None:
        return True
    try:
        return (await client.run(event.held_by)).status in LIVE
    except NotFound:
        return False


def _print(stored: StoredEvent) -> None:
    told = {"seq": stored.seq, "at": stamp(stored.at), "kind": stored.kind, "body": dict(stored.body)}
    print_json(told, in_line=True)


async def _tell_question(client: Client, run: Run, stored: StoredEvent, display: Display) -> None:
    """What the run waits for; what was answered long ago is not told."""
    from clew.cli.questions import how_to_answer, lines
    from clew.core.events import QuestionAsked

    if not isinstance(stored.event, QuestionAsked):
        return
    thread = await client.find(run.thread_id)
    asked = [question for question in await client.questions(thread=thread) if question.run_id == run.id]
    for question in asked:
        if question.id == stored.event.question_id:
            for line in [*lines(question), f"  {how_to_answer(question, several=len(asked) > 1)}"]:
                display.note(line)
