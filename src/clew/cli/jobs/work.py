"""`clew work`"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any

import click

from clew.cli.client_runner import with_client
from clew.cli.ui.printing import SHORT_ID, harmless, lasted, note, plural
from clew.errors import Cancelled, ClewError, StoreError, UsageError

if TYPE_CHECKING:
    import asyncio

    from clew.api.client import Client
    from clew.core.jobs.job import Job

LOOK_S = 1.0  # at most so often, and only when this process wrote something
OVERLAP_S = 5.0  # of what two looks see, for an end that was long on its way to the store
TIDY_SOON_S = 60.0  # after the start, so that a short one is not held up
TIDY_EVERY_S = 3600.0  # it is done once a day, by whoever comes first


@click.command()
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="At most so many agents at once.  [default: the setting max_agents]",
)
@click.option("--id", "name", metavar="NAME", help="This worker's own name, the same after a restart.")
@click.option("--until-idle", is_flag=True, help="End when there is nothing left to do.")
def work(concurrency: int | None, name: str | None, until_idle: bool) -> None:
    """Carry out jobs until Ctrl-C. Any number of workers may run, on this machine or on others (docs/operations.md).

    Ctrl-C and SIGTERM hand back what is going on: another worker, or the next one, goes on where it stopped. A second
    one does not wait. The exit code is 0 after a gentle end, 7 after the second signal.

    \b
      clew work --concurrency 2
      clew work --id build-1 --until-idle
    """
    import asyncio  # noqa: F401 - whole, with TLS: with_client would load it without, and a database's driver wants it

    if name is not None and not name.strip():
        raise UsageError("The worker's name is empty.", hint="Leave --id out: one is made up.")

    async def inside(client: Client) -> None:
        from clew.wiring.hooks import check

        check(client.hooks)
        most = concurrency or client.settings.of("max_agents")
        set_up_logs()
        await _work(client, most, name, until_idle=until_idle)

    with_client(inside)


async def _work(client: Client, most: int, name: str | None, *, until_idle: bool) -> None:
    import asyncio

    told, stop = asyncio.Event(), asyncio.Event()
    _heed_signals(told)
    log = WorkLog(client)
    working = asyncio.create_task(client.work(most, stop, name=name, until_idle=until_idle))
    telling = asyncio.create_task(log.run(most))
    tidying = asyncio.create_task(tidy_daily(client))
    ending = asyncio.create_task(_end_when_told(told, stop, log))
    try:
        await asyncio.wait({working, telling}, return_when=asyncio.FIRST_COMPLETED)
        if telling.done():
            telling.result()
        await working
    finally:
        for task in (telling, tidying, ending):
            task.cancel()
        stop.set()
        await asyncio.gather(working, telling, tidying, ending, return_exceptions=True)
    with contextlib.suppress(StoreError):
        await log.look()
    note(f"worker ended; {plural(log.ended, 'job')} done here")


async def tidy_daily(client: Client, soon_s: float = TIDY_SOON_S) -> None:
    """What the settings retention.threads and retention.archives say. Trouble with it is no reason to stop working."""
    import asyncio

    await asyncio.sleep(soon_s)
    while True:
        try:
            await client.archives.tidy_if_due()
        except (ClewError, OSError) as error:
            note(f"old threads and archives could not be cleaned: {error}")
        await asyncio.sleep(TIDY_EVERY_S)


def _heed_signals(told: asyncio.Event) -> None:
    import asyncio
    import signal

    def heard() -> None:
        if told.is_set():
            os._exit(Cancelled.exit_code)
        note("ending: what goes on is handed back (once more: at once)")
        told.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, heard)


async def _end_when_told(told: asyncio.Event, stop: asyncio.Event, log: WorkLog) -> None:
    """After one more look: what was taken up a moment ago is told of as well when it is handed back."""
    import asyncio

    await told.wait()
    try:
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await log.look()
    finally:
        stop.set()


class WorkLog:
    """Says what this worker takes up and what comes of it; as every log, without prompts and session ids."""

    def __init__(self, client: Client) -> None:
        import asyncio

        self._client = client
        self._looking = asyncio.Lock()
        self._since = time.time()
        self._worker: str | None = None
        self._seen: dict[str, Job] = {}
        self.ended = 0

    async def run(self, most: int) -> None:
        import asyncio

        while self._worker is None:
            await asyncio.sleep(LOOK_S / 3)
            with contextlib.suppress(StoreError):  # the worker itself says so
                await self._find_worker(most)
        while True:
            try:
                await self.look()
            except StoreError:  # what changed is told at a later look
                await asyncio.sleep(LOOK_S)
                continue
            await asyncio.sleep(LOOK_S)
            await self._client.views.written()

    async def _find_worker(self, most: int) -> None:
        owner = self._client.engine.context.owner
        found = await self._client.engine.store.call(lambda store: store.workers.all())
        self._worker = next((each.id for each in found if each.owner == owner), None)
        if self._worker is not None:
            note(f"worker {harmless(self._worker)}: up to {plural(most, 'job')} at once; Ctrl-C ends it")

    async def look(self) -> None:
        """Tells what changed since the last look."""
        if self._worker is None:
            return
        async with self._looking:
            seen, now = self._seen, time.time()
            found = await self._client.engine.store.call(lambda store: self._mine(store, seen))
            self._seen = {}
            for job in found:
                self._tell(job, seen.get(job.id))
                if job.worker is not None:
                    self._seen[job.id] = job
            self._since = max(self._since, now - OVERLAP_S)

    def _mine(self, store: Any, seen: dict[str, Job]) -> list[Job]:
        """What it has, what came and went between two looks, and once more what it handed back; the oldest first."""
        found = {job.id: job for job in store.jobs.of_worker(self._worker, self._since)}
        left = [store.jobs.find(job_id) for job_id, job in seen.items() if job_id not in found and not _is_over(job)]
        found |= {job.id: job for job in left if job is not None and job.worker in (None, self._worker)}
        return sorted(found.values(), key=lambda job: job.created_at)

    def _tell(self, job: Job, before: Job | None) -> None:
        short = job.id[:SHORT_ID]
        runs = before.runs if before is not None else 0
        if before is None or job.runs > max(1, runs) or (job.status == "running" and before.status != "running"):
            again = f", run {job.runs}" if job.runs > 1 else ""
            note(f"job {short} begun{again} in {harmless(job.cwd)}")
        if before is not None and (job.status, job.wake_at) == (before.status, before.wake_at):
            return
        why = f": {job.outcome.replace('_', ' ')}" if job.error and job.outcome else ""
        if _is_over(job):
            self.ended += 1
            note(f"job {short} {job.status}{lasted(job.started_at, job.ended_at)}{why}")
        elif job.status == "waiting":
            from clew.cli.ui.printing import at_clock

            note(f"job {short} waits until {at_clock(job.wake_at)}{why}")
        elif before is not None and job.worker is None:
            note(f"job {short} handed back")


def _is_over(job: Job) -> bool:
    from clew.core.jobs.job import STOPPED

    return job.status in STOPPED


def set_up_logs() -> None:
    """Warnings on stderr, a line each."""
    import logging
    import sys

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
