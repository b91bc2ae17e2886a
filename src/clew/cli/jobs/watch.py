"""`clew jobs watch`, and waiting for a job to its end: in another process, or in this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.ui.printing import SHORT_ID, harmless, note, one_line, print_json, say, stamp
from clew.errors import Cancelled

if TYPE_CHECKING:
    import asyncio

    from clew.api.client import Client
    from clew.api.jobs import JobEvent
    from clew.cli.jobs.display import JobDisplay
    from clew.core.jobs.job import Job

PROMPT_CHARS = 80


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "--json", "as_json", is_flag=True, help="Print every event as an object on a line of its own, then the job."
)
def watch(job_id: str, as_json: bool) -> int:
    """Show a job live, over all its runs, to its end; then its result on stdout.

    A line on stderr says how far it has come: the run, what it does, how long it has been at it, the tools it ran, the
    tokens (Claude tells them with every request, Codex at the end of a run), the agent's last words. Where there is no
    terminal, it is printed every 10 seconds if it is another one. One that is over is shown at once. Ctrl-C stops the
    watching, not the job. The exit code is 0 when it succeeded; else that of what ended it (see `clew jobs submit`).

    \b
      clew jobs watch latest
      clew jobs watch 1f3a9c02 --json | jq -r 'select(.kind == "message_said").body.text'
    """

    async def work(client: Client) -> int:
        from clew.api.jobs import view_job

        found = await view_job(client, job_id)
        job = found.job
        if not as_json:
            note(f"job {job.id[:SHORT_ID]}: {one_line(job.prompt, PROMPT_CHARS)}")
        if found.no_worker is not None:
            note(found.no_worker)
        return await wait_for(client, job, events_as_json=as_json, as_json=as_json)

    return with_client(work, reads=True)


async def wait_for(
    client: Client, job: Job, *, as_json: bool, events_as_json: bool = False, in_place: bool = False
) -> int:
    """Shows the job to its end, its result last, and gives the exit code. `in_place`: this process carries it out."""
    import asyncio

    from clew.cli.jobs.display import JobDisplay

    display = JobDisplay(job)
    if not events_as_json:
        await _tell_before(client, job)
        display.start()
    carrying = asyncio.create_task(client.carry_out(job.id)) if in_place else None
    try:
        with _heeding_signals():
            await _shown(client, job, display, carrying, events_as_json=events_as_json)
    except asyncio.CancelledError:
        short = job.id[:SHORT_ID]
        goes_on = "is queued again, for a worker" if in_place else "goes on"
        display.note(f"no longer watched; job {short} {goes_on} (clew jobs cancel {short} ends it)", after_key=True)
        return Cancelled.exit_code
    finally:
        if carrying is not None:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)
        await display.close()
    return await conclude(client, job.id, as_json=as_json)


async def conclude(client: Client, job_id: str, *, as_json: bool) -> int:
    """How a job that is over ended: in words or as an object, and as the exit code."""
    import sys

    from clew.api.jobs import error_of, view_job
    from clew.cli import error_report
    from clew.cli.jobs.display import closing_line

    ended = await view_job(client, job_id)
    if ended.job.result is not None and not as_json:
        say(harmless(ended.job.result) if sys.stdout.isatty() else ended.job.result)
        sys.stdout.flush()
    note(closing_line(ended))
    if as_json:
        print_json(ended.to_json(stamp), in_line=True)
    error = error_of(ended.job)
    if error is None:
        return 0
    error_report.print_error(error)
    return error.exit_code


async def _shown(
    client: Client,
    job: Job,
    display: JobDisplay,
    carrying: asyncio.Task[None] | None,
    *,
    events_as_json: bool,
) -> None:
    import asyncio

    showing = asyncio.create_task(_show(client, job, display, events_as_json=events_as_json))
    try:
        if carrying is not None:
            await asyncio.wait({showing, carrying}, return_when=asyncio.FIRST_COMPLETED)
            if carrying.done():
                carrying.result()  # the store failed, and nobody else would say so
        await showing
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


async def _show(client: Client, job: Job, display: JobDisplay, *, events_as_json: bool) -> None:
    from clew.api.jobs import JobChanged, follow

    async for told in follow(client, job.id):
        if isinstance(told, JobChanged):
            if not events_as_json:
                display.job_changed(told.job)
        elif events_as_json:
            print_json(event_object(told), in_line=True)
        else:
            display.hear(told)


def event_object(told: JobEvent) -> dict[str, object]:
    stored = told.stored
    return {
        "run": told.number,
        "run_id": told.run.id,
        "seq": stored.seq,
        "at": stamp(stored.at),
        "kind": stored.kind,
        "body": dict(stored.body),
    }


async def _tell_before(client: Client, job: Job) -> None:
    """What it waits for, when that is another job."""
    before = await client.engine.store.call(lambda store: store.jobs.predecessor(job.id))
    if before is not None and job.status == "queued":
        note(f"job {job.id[:SHORT_ID]} waits for job {before.id[:SHORT_ID]}: jobs of one key run one after the other")


@contextmanager
def _heeding_signals() -> Iterator[None]:
    """Ctrl-C, kill and a closed terminal end the wait."""
    import asyncio
    import signal

    from clew.cli.foreground_run import STOP_SIGNALS

    loop, waiting = asyncio.get_running_loop(), asyncio.current_task()
    assert waiting is not None
    ours = [each for each in STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]  # as nohup sets it
    for number in ours:
        loop.add_signal_handler(number, waiting.cancel)
    try:
        yield
    finally:
        for number in ours:
            loop.remove_signal_handler(number)
