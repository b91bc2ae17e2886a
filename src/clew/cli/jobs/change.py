"""`clew jobs retry` and `cancel`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.options import AS_JSON
from clew.cli.ui.printing import SHORT_ID, note, print_json, stamp
from clew.errors import ClewError, UsageError

if TYPE_CHECKING:
    from clew.api.client import Client
    from clew.core.jobs.job import Job

CANCEL_S = 20.0  # a gentle stop, then TERM, then KILL
POLL_S = 0.1


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "--resume/--fresh",
    "resume",
    default=None,
    help="Go on in its session, however old it is; or begin again with its prompt.  [default: resume if it is young]",
)
@click.option(
    "--restore", is_flag=True, help="Put the files of its last checkpoint back first; what is there is saved."
)
@click.option("--keep", is_flag=True, help="Go on with the files as they are now.")
@click.option("--wait", is_flag=True, help="Wait for the end and print the result. Without a worker, run it here.")
@AS_JSON
def retry(job_id: str, resume: bool | None, restore: bool, keep: bool, wait: bool, as_json: bool) -> int:
    """Queue a job again that failed, was cancelled, is blocked, or whose files are in conflict.

    It goes on where it stopped. A session counts as young for its --max-age (an hour) after its last event. With
    --wait the exit code is that of the job's end (see `clew jobs submit`).

    \b
      clew jobs retry 1f3a9c02                after you have logged in, say
      clew jobs retry 1f3a9c02 --fresh        from the beginning
      clew jobs retry 1f3a9c02 --restore      with the files of its last checkpoint
    """
    if restore and keep:
        raise UsageError("Files are put back or kept, not both.")

    async def work(client: Client) -> int:
        from clew.api.jobs import START_A_WORKER, START_A_WORKER_FOR_HOOKS, view_job, workers
        from clew.core.jobs.job import SUBMITTED, StartMode

        start_mode = None if resume is None else StartMode.RESUME if resume else StartMode.FRESH
        found = await client.jobs.find(job_id)
        alive = await workers(client, found.kind)
        if wait and not alive:
            client.engine.find(found.agent)  # raises what is missing, while the job is as it was
        job = await client.jobs.retry(found.id, start_mode, restore=restore, keep=keep)
        if wait:
            from clew.cli.jobs.watch import wait_for

            return await wait_for(client, job, as_json=as_json, in_place=not alive)
        if as_json:
            print_json((await view_job(client, job.id)).to_json(stamp))
        short = job.id[:SHORT_ID]
        note(f"job {short} is queued again; clew jobs watch {short} shows how it goes")
        if not alive:
            start = START_A_WORKER if found.kind == SUBMITTED else START_A_WORKER_FOR_HOOKS
            note(f"no worker is alive to take it up: {start}; or retry with --wait to run it here")
        return 0

    return with_client(work)


@click.command()
@click.argument("job_id", metavar="ID")
@AS_JSON
def cancel(job_id: str, as_json: bool) -> None:
    """Stop a job with all that it started, and wait until it has ended. What the agent said and did is kept.

    It is told gently first, and by force after a few seconds; `clew jobs retry` goes on with it. One that is over: 2.

    \b
      clew jobs cancel 1f3a9c02
    """

    async def work(client: Client) -> None:
        from clew.api.jobs import view_job

        asked = await client.jobs.cancel((await client.jobs.find(job_id)).id)
        ended = await _ended(client, asked)
        if as_json:
            print_json((await view_job(client, ended.id)).to_json(stamp))
        note(f"job {ended.id[:SHORT_ID]}: {ended.status}")

    with_client(work)


async def _ended(client: Client, job: Job) -> Job:
    import asyncio

    from clew.core.jobs.job import STOPPED

    deadline = time.monotonic() + CANCEL_S
    while (now := await client.jobs.find(job.id)).status not in STOPPED:
        if time.monotonic() > deadline:
            raise ClewError(
                f"Job {job.id[:SHORT_ID]} has been told to stop, but has not ended within {CANCEL_S:.0f} s.",
                hint="Its worker may be dead: the next one that runs ends it. See clew jobs show.",
            )
        await asyncio.sleep(POLL_S)
    return now
