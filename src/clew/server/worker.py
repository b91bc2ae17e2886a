"""The daemon as a worker: besides answering requests it runs jobs, and cleans up hooks and old threads daily.

It runs the jobs that hooks created. It runs other jobs only if the setting serve.worker or `clew serve --work` says so.
The worker starts when the daemon begins to answer requests and stops after the last answer was sent. Jobs that are
still running then are returned to the queue, and the next daemon or another worker continues them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clew.api.client import Client
from clew.core.durations import DAY_S
from clew.core.record import Record
from clew.errors import ClewError, ConfigError, StoreError
from clew.server.models import problems
from clew.server.models.problems import log

DEFAULT_JOBS = 2  # jobs at once, if serve.work is not set and there may be jobs
RETRY_S = 30.0  # the pause after a failure of the queue
FIRST_SWEEP_S = 120.0  # soon after the start, so that a daemon that is started every morning cleans up too
SWEEP_EVERY_S = DAY_S


class DaemonWork(Record):
    """Which jobs the daemon runs."""

    max_jobs: int  # at once; 0: all jobs are left to `clew work`
    hooks_only: bool = True  # submitted jobs are left to `clew work`


def daemon_work(client: Client) -> DaemonWork:
    """Reads the settings serve.work and serve.worker. Raises ConfigError when they contradict each other."""
    max_jobs: int | None = client.settings.of("serve.work")
    is_worker: bool = client.settings.of("serve.worker")
    if max_jobs == 0 and is_worker:
        raise ConfigError(
            "serve.worker is true, and serve.work is 0: no job would be run.",
            hint=f"Give serve.work another number ({client.settings['serve.work'].source}), or leave the jobs to "
            "`clew work`.",
        )
    if max_jobs is None:
        max_jobs = DEFAULT_JOBS if is_worker or client.hooks.settings.rules else 0
    return DaemonWork(max_jobs, hooks_only=not is_worker)


@asynccontextmanager
async def running_worker(
    client: Client, work: DaemonWork, *, first_sweep_s: float = FIRST_SWEEP_S
) -> AsyncIterator[None]:
    """While this is open, jobs are run and clean-ups are done when they are due."""
    stop = asyncio.Event()
    sweeping = asyncio.create_task(_sweep(client, first_sweep_s))
    working = asyncio.create_task(_work(client, work, stop)) if work.max_jobs else None
    try:
        yield
    finally:
        stop.set()
        sweeping.cancel()
        await asyncio.gather(*filter(None, (sweeping, working)), return_exceptions=True)


async def _work(client: Client, work: DaemonWork, stop: asyncio.Event) -> None:
    """Runs jobs until `stop`. After a failure it tries again; meanwhile the page works, and hook events are kept."""
    while not stop.is_set():
        try:
            await client.work(work.max_jobs, stop, hooks_only=work.hooks_only)
        except ClewError as error:
            if isinstance(error, StoreError) and error.kind == "lost":
                return  # health.py logs that the store is lost
            log.warning("no jobs are run: %s", error.message)
        except Exception as error:  # noqa: BLE001 - the next try may succeed
            problems.log_unexpected(error, "no jobs are run")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await stop.wait()


async def _sweep(client: Client, first_s: float) -> None:
    await asyncio.sleep(first_s)
    while True:
        with problems.failures_logged("hooks could not be cleaned up"):
            for swept in await client.hooks.sweep.run():
                log.info("%s was dropped: %s", swept.key, swept.why)
        with problems.failures_logged("old threads and archives could not be cleaned up"):
            await client.archives.tidy_if_due()  # by the settings retention.threads and retention.archives
        await asyncio.sleep(SWEEP_EVERY_S)
