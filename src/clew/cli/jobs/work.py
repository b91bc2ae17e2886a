"""The command `clew work`."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

import click

from clew.cli.client_runner import with_client
from clew.cli.ui.formatting import harmless, lasted, local_time, plural
from clew.cli.ui.printing import note
from clew.core.ids import SHORT_ID
from clew.core.jobs.job import STOPPED
from clew.errors import Cancelled, ClewError, StoreError, UsageError

if TYPE_CHECKING:
    import asyncio

    from clew.api.client import Client
    from clew.core.jobs.job import Job

CHECK_EVERY_S = 1.0  # the least time between two checks; a check is made only after this process wrote something
OVERLAP_S = 5.0  # each check also covers this long before the previous one: a job's end may be written late
FIRST_TIDY_S = 60.0  # after the start, so that a worker that runs only briefly is not delayed
TIDY_EVERY_S = 3600.0  # how often to check whether the daily clean-up is due; any process may have done it


@click.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Run at most this many agents at once.  [default: the setting max_agents]",
)
@click.option("--id", "name", metavar="NAME", help="A name for this worker that stays the same after a restart.")
@click.option("--until-idle", is_flag=True, help="Exit when there is nothing left to do.")
def work(concurrency: int | None, name: str | None, until_idle: bool) -> None:
    """Run jobs until Ctrl-C. Any number of workers may run, on this machine or on others (docs/operations.md).

    After Ctrl-C or SIGTERM, the worker returns its jobs to the queue and exits with 0: another worker continues them
    where they stopped. After a second signal, it exits at once with 7.

    \b
      clew work --concurrency 2
      clew work --id build-1 --until-idle
    """
    import asyncio  # noqa: F401 - with TLS, which a database driver may need; with_client would load it without

    if name is not None and not name.strip():
        raise UsageError("The worker's name is empty.", hint="Without --id, the worker chooses a name.")

    async def inside(client: Client) -> None:
        from clew.api.hooks import check_templates

        check_templates(client)
        _set_up_logs()
        await _work(client, concurrency or client.settings.of("max_agents"), name, until_idle=until_idle)

    with_client(inside)


async def _work(client: Client, max_jobs: int, name: str | None, *, until_idle: bool) -> None:
    import asyncio

    stop_asked, stop = asyncio.Event(), asyncio.Event()
    _listen_for_signals(stop_asked)
    log = WorkLog(client)
    working = asyncio.create_task(client.work(max_jobs, stop, name=name, until_idle=until_idle))
    logging = asyncio.create_task(log.run(max_jobs))
    others = [asyncio.create_task(tidy_daily(client)), asyncio.create_task(_stop_when_asked(stop_asked, stop, log))]
    try:
        await asyncio.wait({working, logging}, return_when=asyncio.FIRST_COMPLETED)
        if logging.done():
            logging.result()
        await working
    finally:
        for task in (logging, *others):
            task.cancel()
        stop.set()
        await asyncio.gather(working, logging, *others, return_exceptions=True)
    with contextlib.suppress(StoreError):
        await log.report_changes()
    note(f"worker ended; {plural(log.ended, 'job')} done here")


async def tidy_daily(client: Client, first_s: float = FIRST_TIDY_S) -> None:
    """Cleans up as the settings retention.threads and retention.archives say. If that fails, the worker continues."""
    import asyncio

    await asyncio.sleep(first_s)
    while True:
        try:
            await client.archives.tidy_if_due()
        except (ClewError, OSError) as error:
            note(f"old threads and archives could not be cleaned up: {error}")
        await asyncio.sleep(TIDY_EVERY_S)


def _listen_for_signals(stop_asked: asyncio.Event) -> None:
    import asyncio
    import signal

    def caught() -> None:
        if stop_asked.is_set():
            os._exit(Cancelled.exit_code)
        note("stopping: running jobs return to the queue (a second signal stops at once)")
        stop_asked.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, caught)


async def _stop_when_asked(stop_asked: asyncio.Event, stop: asyncio.Event, log: WorkLog) -> None:
    """Checks for changes once more before it stops the worker: a job that was just started must be in the log, so that
    the log can also say that it was returned to the queue."""
    import asyncio

    await stop_asked.wait()
    try:
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(CHECK_EVERY_S):
                await log.report_changes()
    finally:
        stop.set()


class WorkLog:
    """Says which jobs this worker starts and how they end. Like every log, it holds no prompts and no session ids."""

    def __init__(self, client: Client) -> None:
        import asyncio

        self._client = client
        self._one_at_a_time = asyncio.Lock()
        self._since = time.time()
        self._worker: str | None = None
        self._seen: dict[str, Job] = {}
        self.ended = 0

    async def run(self, max_jobs: int) -> None:
        import asyncio

        while self._worker is None:
            await asyncio.sleep(CHECK_EVERY_S / 3)
            with contextlib.suppress(StoreError):  # the worker reports the same error
                await self._find_worker(max_jobs)
        while True:
            try:
                await self.report_changes()
            except StoreError:  # a later check reports the changes
                await asyncio.sleep(CHECK_EVERY_S)
                continue
            await asyncio.sleep(CHECK_EVERY_S)
            await self._client.views.written()

    async def _find_worker(self, max_jobs: int) -> None:
        from clew.api.jobs import own_worker

        self._worker = await own_worker(self._client)
        if self._worker is not None:
            note(f"worker {harmless(self._worker)}: up to {plural(max_jobs, 'job')} at once; Ctrl-C ends it")

    async def report_changes(self) -> None:
        """Prints what has changed since the last check."""
        from clew.api.jobs import jobs_of_worker

        if self._worker is None:
            return
        async with self._one_at_a_time:
            seen, now = self._seen, time.time()
            found = await jobs_of_worker(self._client, self._worker, self._since, seen)
            self._seen = {}
            for job in found:
                self._report(job, seen.get(job.id))
                if job.worker is not None:
                    self._seen[job.id] = job
            self._since = max(self._since, now - OVERLAP_S)

    def _report(self, job: Job, before: Job | None) -> None:
        short = job.id[:SHORT_ID]
        runs = before.runs if before is not None else 0
        if before is None or job.runs > max(1, runs) or (job.status == "running" and before.status != "running"):
            again = f", run {job.runs}" if job.runs > 1 else ""
            note(f"job {short} started{again} in {harmless(job.cwd)}")
        if before is not None and (job.status, job.wake_at) == (before.status, before.wake_at):
            return
        why = f": {job.outcome.replace('_', ' ')}" if job.error and job.outcome else ""
        if job.status in STOPPED:
            self.ended += 1
            note(f"job {short} {job.status}{lasted(job.started_at, job.ended_at)}{why}")
        elif job.status == "waiting":
            note(f"job {short} waits until {local_time(job.wake_at)}{why}")
        elif before is not None and job.worker is None:
            note(f"job {short} returned to the queue")


def _set_up_logs() -> None:
    """Prints warnings on stderr, one line each."""
    import logging
    import sys

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
