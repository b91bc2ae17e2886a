"""The commands `clew jobs retry` and `cancel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import client_command, with_client
from clew.cli.jobs.submit import WAIT
from clew.cli.options import AS_JSON
from clew.cli.runs.control import wait_until_ended
from clew.cli.ui.printing import note, print_json
from clew.core.ids import SHORT_ID
from clew.core.jobs.job import STOPPED, SUBMITTED, StartMode
from clew.errors import UsageError

if TYPE_CHECKING:
    from clew.api.client import Client


@click.command()
@click.argument("job_id", metavar="ID")
@click.option(
    "--resume/--fresh",
    "resume",
    default=None,
    help="Continue in its session, however old it is; or start again with its prompt.  [default: resume if young]",
)
@click.option(
    "--restore", is_flag=True, help="First restore the files of its last checkpoint; the current ones are saved."
)
@click.option("--keep", is_flag=True, help="Continue with the files as they are now.")
@WAIT
@AS_JSON
def retry(job_id: str, resume: bool | None, restore: bool, keep: bool, wait: bool, as_json: bool) -> int:
    """Queue a job again that failed, was cancelled, is blocked, or whose files are in conflict.

    It continues where it stopped. A session counts as young for its --max-age (an hour) after its last event. With
    --wait, the exit code says how the job ended (see `clew jobs submit`).

    \b
      clew jobs retry 1f3a9c02                for example, after you have logged in
      clew jobs retry 1f3a9c02 --fresh        from the beginning
      clew jobs retry 1f3a9c02 --restore      with the files of its last checkpoint
    """
    if restore and keep:
        raise UsageError("--restore and --keep cannot be given together.", hint="Give one of them.")

    async def work(client: Client) -> int:
        from clew.api.jobs import START_A_WORKER, START_A_WORKER_FOR_HOOKS, view_job, workers

        start_mode = None if resume is None else StartMode.RESUME if resume else StartMode.FRESH
        found = await client.jobs.find(job_id)
        alive = await workers(client, found.kind)
        if wait and not alive:
            client.check_agent(found.agent)  # if the agent is missing, this raises before the job is changed
        job = await client.jobs.retry(found.id, start_mode, restore=restore, keep=keep)
        if wait:
            from clew.cli.jobs.watch import wait_for

            return await wait_for(client, job, as_json=as_json, in_place=not alive)
        if as_json:
            print_json((await view_job(client, job.id)).to_json())
        short = job.id[:SHORT_ID]
        note(f"job {short} is queued again; clew jobs watch {short} shows its progress")
        if not alive:
            start = START_A_WORKER if found.kind == SUBMITTED else START_A_WORKER_FOR_HOOKS
            note(f"no worker is alive to run it: {start}; or retry with --wait to run it here")
        return 0

    return with_client(work)


@click.command()
@click.argument("job_id", metavar="ID")
@AS_JSON
@client_command()
async def cancel(client: Client, job_id: str, as_json: bool) -> None:
    """Stop a job and everything it started, and wait until it has ended. What the agent said and did is kept.

    The agent is first stopped gracefully, and killed after a few seconds. `clew jobs retry` continues the job. If the
    job is already over, the exit code is 2.

    \b
      clew jobs cancel 1f3a9c02
    """
    from clew.api.jobs import view_job

    job = await client.jobs.cancel((await client.jobs.find(job_id)).id)
    ended = await wait_until_ended(
        lambda: client.jobs.find(job.id),
        lambda now: now.status in STOPPED,
        f"Job {job.id[:SHORT_ID]}",
        hint="Its worker may be dead: the next worker that runs ends it. See clew jobs show.",
    )
    if as_json:
        print_json((await view_job(client, ended.id)).to_json())
    note(f"job {ended.id[:SHORT_ID]}: {ended.status}")
