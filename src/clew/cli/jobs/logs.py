"""`clew jobs logs`: what the agent said and did, run by run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON
from clew.cli.ui.printing import harmless, lasted, note, print_json, say, stamp
from clew.errors import NotFound

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.core.runs.run import Run
    from clew.store.records import StoredEvent


@click.command()
@click.argument("job_id", metavar="ID")
@click.option("--run", "number", type=click.IntRange(1), metavar="N", help="Only the job's Nth run.")
@AS_JSON
def logs(job_id: str, number: int | None, as_json: bool) -> None:
    """Print what the agent said and did in a job, over all its runs, as far as it has come.

    --json prints the job as an object, with `events`: every event of its runs, in order.

    \b
      clew jobs logs 1f3a9c02 --run 2
      clew jobs logs 1f3a9c02 --json | jq -r '.events[] | select(.kind == "tool_started").body.name'
    """

    async def work(client: Client) -> None:
        from clew.api.jobs import view_job

        job = await view_job(client, job_id)
        if number is not None and number > len(job.runs):
            raise NotFound(f"The job has no run {number}.", hint=f"It has {len(job.runs)} so far.")
        meant = [(n, run) for n, run in enumerate(job.runs, 1) if number in (None, n)]
        if as_json:
            events = [each for n, run in meant for each in await _objects(client, n, run)]
            print_json({**job.to_json(stamp), "events": events})
            return
        if not meant:
            note(f"Nothing yet: the job is {job.job.status}.")
        for place, (n, run) in enumerate(meant):
            if place:
                say()
            say(_heading(n, run))
            for line in lines(await _events(client, run)):
                say(harmless(line) if sys.stdout.isatty() else line)

    with_client(work, reads=True)


async def _events(client: Client, run: Run) -> list[StoredEvent]:
    return await client.engine.store.call(lambda store: store.events.of_run(run.id))


async def _objects(client: Client, number: int, run: Run) -> list[dict[str, object]]:
    from clew.api.jobs import JobEvent
    from clew.cli.jobs.watch import event_object

    return [event_object(JobEvent(number, run, stored)) for stored in await _events(client, run)]


def lines(stored: Iterable[StoredEvent]) -> Iterator[str]:
    """Messages as they were said, a line for each use of a tool, what went wrong; a message that was cut off, too."""
    from clew.cli.ui.run_display import meaning
    from clew.cli.ui.tool_lines import tool_line
    from clew.core.runs import events
    from clew.core.runs.tool_calls import ToolLog

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
                yield f"{meaning(reason)}: went on with a fresh session"
            case events.Warned(message=message):
                yield f"warning: {message}"
            case events.RunEnded(message=message):
                if pieces:
                    yield "".join(pieces) + " …"
                if message:
                    yield f"({message})"
                return
    if pieces:
        yield "".join(pieces) + " …"


def _heading(number: int, run: Run) -> str:
    from clew.cli.ui.printing import at_clock
    from clew.cli.ui.run_display import session_words

    status = f"{run.status.replace('_', ' ')}{lasted(run.started_at, run.ended_at)}"
    parts = (f"run {number}", at_clock(run.started_at or run.created_at), session_words(run), status)
    return f"── {' · '.join(part for part in parts if part)}"
