"""The daemon as a worker: it carries out jobs beside answering requests, and cleans up hooks and old threads daily.

It takes the jobs that hooks made, and others only where the setting serve.worker or `clew serve --work` says so. The
worker starts when the daemon answers and ends after the last answer was sent. Jobs that are running then are handed
back, and the next daemon or another worker continues them.
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

DEFAULT_JOBS = 2  # at once, when the number is not set and there may be jobs
RETRY_S = 30.0  # after a failure of the queue
FIRST_SWEEP_S = 120.0  # after the start: a daemon that is started every morning sweeps too
SWEEP_EVERY_S = DAY_S


class DaemonWork(Record):
    """What the daemon carries out."""

    max_jobs: int  # at once; 0: all jobs are left to `clew work`
    hooks_only: bool = True  # submitted jobs are left to `clew work`


def daemon_work(client: Client) -> DaemonWork:
    """From the settings serve.work and serve.worker. Raises ConfigError when they contradict each other."""
    max_jobs: int | None = client.settings.of("serve.work")
    is_worker: bool = client.settings.of("serve.worker")
    if max_jobs == 0 and is_worker:
        raise ConfigError(
            "serve.worker is true, and serve.work is 0: no job would be carried out.",
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
    """While this is open, jobs are carried out and missed clean-ups are caught up on."""
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
    """A failure of the queue does not end it: the page works meanwhile, and events are kept."""
    while not stop.is_set():
        try:
            await client.work(work.max_jobs, stop, hooks_only=work.hooks_only)
        except ClewError as error:
            if isinstance(error, StoreError) and error.kind == "lost":
                return  # health.py logs it
            log.warning("no jobs are carried out: %s", error.message)
        except Exception as error:  # noqa: BLE001 - the next try may succeed
            problems.log_unexpected(error, "no jobs are carried out")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S):
                await stop.wait()


async def _sweep(client: Client, first_s: float) -> None:
    await asyncio.sleep(first_s)
    while True:
        try:
            for swept in await client.hooks.sweep.run():
                log.info("%s was dropped: %s", swept.key, swept.why)
        except ClewError as error:
            log.warning("hooks could not be cleaned up: %s", error.code)
        except Exception as error:  # noqa: BLE001 - it is tried again the next day
            problems.log_unexpected(error, "hooks could not be cleaned up")
        await _clean_archives(client)
        await asyncio.sleep(SWEEP_EVERY_S)


async def _clean_archives(client: Client) -> None:
    """By the settings retention.threads and retention.archives."""
    try:
        await client.archives.tidy_if_due()
    except ClewError as error:
        log.warning("old threads and archives could not be cleaned up: %s", error.code)
    except Exception as error:  # noqa: BLE001 - it is tried again the next day
        problems.log_unexpected(error, "old threads and archives could not be cleaned up")
