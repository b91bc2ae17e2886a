"""`clew jobs logs`: what the agent said and did, run by run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command
from clew.cli.jobs.watch import job_event_object
from clew.cli.options import AS_JSON
from clew.cli.ui.formatting import joined, lasted, local_time
from clew.cli.ui.printing import for_terminal, note, print_json, say
from clew.cli.ui.run_display import meaning, session_words, warning_words
from clew.cli.ui.tool_lines import tool_line
from clew.core.runs import events
from clew.core.runs.tool_calls import ToolLog
from clew.errors import NotFound

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.api.views import StoredEvent
    from clew.core.runs.run import Run


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--run", "number", type=click.IntRange(1), metavar="N", help="Only the job's Nth run.")
@AS_JSON
@client_command(reads=True)
async def logs(client: Client, job_id: str, number: int | None, as_json: bool) -> None:
    """Print what the agent has said and done in a job so far, over all its runs.

    --json prints the job as an object, with `events`: every event of its runs, in order.

    \b
      clew jobs logs 1f3a9c02 --run 2
      clew jobs logs 1f3a9c02 --json | jq -r '.events[] | select(.kind == "tool_started").body.name'
    """
    from clew.api.jobs import JobEvent, view_job

    job = await view_job(client, job_id)
    if number is not None and number > len(job.runs):
        raise NotFound(f"The job has no run {number}.", hint=f"It has {len(job.runs)} so far.")
    chosen = [(n, run, await client.views.events(run.id)) for n, run in enumerate(job.runs, 1) if number in (None, n)]
    if as_json:
        objects = [job_event_object(JobEvent(n, run, each)) for n, run, stored in chosen for each in stored]
        print_json({**job.to_json(), "events": objects})
        return
    if not chosen:
        note(f"Nothing yet: the job is {job.job.status}.")
    for place, (n, run, stored) in enumerate(chosen):
        if place:
            say()
        say(_heading(n, run))
        for line in lines(stored):
            say(for_terminal(line))


def lines(stored: Iterable[StoredEvent]) -> Iterator[str]:
    """Each message as the agent said it, even one that was cut off; a line for each tool call; what went wrong."""
    tools, pieces = ToolLog(), list[str]()
    for each in stored:
        used = tools.feed(each.event)
        if used is not None:
            yield tool_line(used)
        match each.event:
            case events.TextStreamed(text=text):
                pieces.append(text)
            case events.TextWithdrawn():
                pieces.clear()
            case events.MessageSaid(text=text):
                pieces.clear()
                yield text
            case events.FellBack(reason=reason):
                yield f"{meaning(reason)}: continued with a fresh session"
            case events.Warned():
                yield warning_words(each.event)
            case events.RunEnded(message=message):
                if pieces:
                    yield "".join(pieces) + " …"
                if message:
                    yield f"({message})"
                return
    if pieces:
        yield "".join(pieces) + " …"


def _heading(number: int, run: Run) -> str:
    status = f"{run.status.replace('_', ' ')}{lasted(run.started_at, run.ended_at)}"
    return f"── {joined(f'run {number}', local_time(run.started_at or run.created_at), session_words(run), status)}"
