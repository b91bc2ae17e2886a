"""The command `clew runs watch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clew.api.wire.shape import stamp
from clew.cli.client_runner import with_client
from clew.cli.options import PLAIN, complete_thread
from clew.cli.runs.control import active_runs
from clew.cli.ui.agent_questions import how_to_answer, question_lines
from clew.cli.ui.formatting import PROMPT_CHARS, one_line
from clew.cli.ui.printing import note, print_json
from clew.cli.ui.run_display import RunDisplay
from clew.cli.ui.state_labels import WHO_RECOVERS
from clew.core.ids import SHORT_ID
from clew.core.runs.events import Event, QuestionAsked, RunQueued
from clew.core.runs.run import LIVE, Run, RunStatus
from clew.errors import AgentFailed, Cancelled, NotFound, UsageError

if TYPE_CHECKING:
    import asyncio

    from clew.api.client import Client
    from clew.api.views import StoredEvent

CHECK_EVERY_S = 1.0  # how often to check that the run's process is alive: if it was killed, no event says so


@click.command()
@click.argument("run_id", metavar="[ID]", required=False)
@click.option("--thread", metavar="NAME", shell_complete=complete_thread, help="Watch the newest run of this thread.")
@PLAIN
@click.option("--json", "as_json", is_flag=True, help="Print every event as an object on a line of its own.")
def watch(run_id: str | None, thread: str | None, as_json: bool) -> int:
    """Show a run of any process live, from its first event to its end.

    Without an ID, the newest active run is shown. A run that has ended is printed at once. Ctrl-C stops watching, not
    the run. The exit code is the one that `clew ask` would give for how the run ended.
    """
    if run_id is not None and thread is not None:
        raise UsageError("Give an ID or --thread, not both.")

    async def work(client: Client) -> int:
        run = await client.run(run_id) if run_id is not None else await _newest(client, thread)
        return await _watch(client, run, as_json=as_json)

    return with_client(work, reads=True)


async def _newest(client: Client, thread: str | None) -> Run:
    """The newest run that is running or waits for an answer; else the newest that is queued."""
    live = await active_runs(client, thread)
    return next((run for run in live if run.status is not RunStatus.QUEUED), live[0])


async def _watch(client: Client, run: Run, *, as_json: bool) -> int:
    import asyncio

    from clew.cli.foreground_run import StopSignals, report_reply

    short = run.id[:SHORT_ID]
    display = RunDisplay(run.agent, as_json=as_json)
    if not as_json:
        name = (await client.find(run.thread_id)).name
        note(f"run {short} of {name}: {one_line(run.shown, PROMPT_CHARS)}")
    if run.status in LIVE and run.owner is None and not _is_served(client):
        note("no process is running it: it continues with the next clew serve")
    if run.status in LIVE and not as_json:
        display.start()
    watched = asyncio.current_task()
    gone = asyncio.create_task(_process_gone(client, run))
    gone.add_done_callback(lambda task: watched.cancel() if watched is not None and _is_known(task) else None)
    try:
        with StopSignals(display).listening():
            async for stored in client.views.follow(run.id):
                if as_json:
                    print_json(event_object(stored), in_line=True)
                elif stored.event is not None and await _still_holds(client, run, stored.event):
                    display.show(stored.event)
                    await _show_question(client, run, stored, display)
    except asyncio.CancelledError:
        if _is_known(gone):
            display.note(f"the process of run {short} is gone; {WHO_RECOVERS}", after_key=True)
            return AgentFailed.exit_code
        display.note(f"no longer watched; run {short} continues (clew runs cancel {short} stops it)", after_key=True)
        return Cancelled.exit_code
    finally:
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        await display.close()
    return report_reply(await client.reply(run.id), as_json=False)


def _is_known(gone: asyncio.Task[None]) -> bool:
    """True if the run's process is known to be gone; False also if the store could not be read."""
    return gone.done() and not gone.cancelled() and gone.exception() is None


async def _process_gone(client: Client, run: Run) -> None:
    """Returns once no process is running the run any more, although it has not ended."""
    import asyncio

    while True:
        await asyncio.sleep(CHECK_EVERY_S)
        if await client.gone([await client.run(run.id)]) and not _is_served(client):
            return


def _is_served(client: Client) -> bool:
    """True if a daemon is running: within seconds it ends or continues the runs of a dead process."""
    from clew.api.daemons import running_daemons

    return bool(running_daemons(client.home))


async def _still_holds(client: Client, run: Run, event: Event) -> bool:
    """False for a stored event about a wait that is over: the run may have started since, or its daemon may be dead."""
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


def event_object(stored: StoredEvent) -> dict[str, Any]:
    return {"seq": stored.seq, "at": stamp(stored.at), "kind": stored.kind, "body": dict(stored.body)}


async def _show_question(client: Client, run: Run, stored: StoredEvent, display: RunDisplay) -> None:
    """Shows the question if it is still open: the event may be old."""
    if not isinstance(stored.event, QuestionAsked):
        return
    thread = await client.find(run.thread_id)
    asked = [question for question in await client.views.questions(thread=thread) if question.run_id == run.id]
    for question in asked:
        if question.id == stored.event.question_id:
            for line in [*question_lines(question), f"  {how_to_answer(question, several=len(asked) > 1)}"]:
                display.note(line)
