"""`clew jobs watch`, and how a command waits for the end of a job, which another process or this one runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import client_command
from clew.cli.options import PLAIN
from clew.cli.runs.watch import event_object
from clew.cli.ui.formatting import PROMPT_CHARS, one_line
from clew.cli.ui.printing import note, print_json, say, shown_markdown
from clew.core.ids import SHORT_ID
from clew.errors import Cancelled

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.jobs import JobEvent
    from clew.cli.jobs.display import JobDisplay
    from clew.core.jobs.job import Job


@click.command()
@click.argument("job_id", metavar="ID")
@PLAIN
@click.option(
    "--json", "as_json", is_flag=True, help="Print every event as an object on a line of its own, then the job."
)
@client_command(reads=True)
async def watch(client: Client, job_id: str, as_json: bool) -> int:
    """Show a job live, over all its runs, until it ends; then print its result on stdout.

    A status line on stderr shows the progress: the run, what the agent is doing, the time, the number of tools it ran,
    the tokens (Claude reports them with every request, Codex at the end of a run), and the agent's last words. Without
    a terminal, the line is printed every 10 seconds if it has changed. A job that is over is shown at once. Ctrl-C
    stops watching, not the job. The exit code is 0 if the job succeeded; see `clew jobs submit` for the others.

    \b
      clew jobs watch latest
      clew jobs watch 1f3a9c02 --json | jq -r 'select(.kind == "message_said").body.text'
    """
    from clew.api.jobs import view_job

    found = await view_job(client, job_id)
    job = found.job
    if not as_json:
        note(f"job {job.id[:SHORT_ID]}: {one_line(job.prompt, PROMPT_CHARS)}")
    if found.no_worker is not None:
        note(found.no_worker)
    return await wait_for(client, job, events_as_json=as_json, as_json=as_json)


async def wait_for(
    client: Client, job: Job, *, as_json: bool, events_as_json: bool = False, in_place: bool = False
) -> int:
    """Shows the job until it ends, prints its result, and returns the exit code. `in_place`: this process runs it."""
    import asyncio

    from clew.cli.foreground_run import StopSignals
    from clew.cli.jobs.display import JobDisplay

    display = JobDisplay(job)
    if not events_as_json:
        await _note_job_before(client, job)
        display.start()
    running = asyncio.create_task(client.carry_out(job.id)) if in_place else None
    showing = asyncio.create_task(_show(client, job, display, events_as_json=events_as_json))
    try:
        with StopSignals(display).listening():
            if running is not None:
                await asyncio.wait({showing, running}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    running.result()  # raises an error of the store, which nothing else would report
            await showing
    except asyncio.CancelledError:
        short = job.id[:SHORT_ID]
        rest = "is queued again, for a worker" if in_place else "continues"
        display.note(f"no longer watched; job {short} {rest} (clew jobs cancel {short} stops it)", after_key=True)
        return Cancelled.exit_code
    finally:
        tasks = [showing, *([running] if running is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await display.close()
    return await _conclude(client, job.id, as_json=as_json)


async def _conclude(client: Client, job_id: str, *, as_json: bool) -> int:
    """Prints how the job ended, and returns the exit code."""
    from clew.api.jobs import error_of, view_job
    from clew.cli.foreground_run import report_error
    from clew.cli.jobs.display import closing_line

    ended = await view_job(client, job_id)
    if ended.job.result is not None and not as_json:
        say(shown_markdown(ended.job.result))
        sys.stdout.flush()
    note(closing_line(ended))
    if as_json:
        print_json(ended.to_json(), in_line=True)
    return report_error(error_of(ended.job))


async def _show(client: Client, job: Job, display: JobDisplay, *, events_as_json: bool) -> None:
    from clew.api.jobs import JobChanged, follow

    async for event in follow(client, job.id):
        if isinstance(event, JobChanged):
            if not events_as_json:
                display.job_changed(event.job)
        elif events_as_json:
            print_json(job_event_object(event), in_line=True)
        else:
            display.show_job_event(event)


def job_event_object(event: JobEvent) -> dict[str, Any]:
    return {"run": event.number, "run_id": event.run.id, **event_object(event.stored)}


async def _note_job_before(client: Client, job: Job) -> None:
    """Says which other job this job waits for, if any."""
    from clew.api.jobs import predecessor

    before = await predecessor(client, job.id)
    if before is not None and job.status == "queued":
        note(f"job {job.id[:SHORT_ID]} waits for job {before.id[:SHORT_ID]}: jobs of one key run one after the other")
