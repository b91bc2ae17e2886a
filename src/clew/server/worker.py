"""The daemon as a worker: it carries out jobs beside answering, and looks after hooks and old threads once a day.

The jobs are those that hooks made; others only where the setting serve.worker or `clew serve --work` says so. It begins
when the daemon answers and ends after the last answer is out: what is under way is handed back, for the next daemon or
another worker to go on with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clew.client import Client
from clew.core.record import Record
from clew.errors import ClewError, ConfigError, StoreError
from clew.server import problems
from clew.server.problems import log

AT_ONCE = 2  # jobs, when the number is not said and there is something to carry out
AGAIN_S = 30.0  # after the queue could not be had
SWEEP_SOON_S = 120.0  # after the start: a daemon that is started every morning sweeps too
SWEEP_S = 86_400.0


class Work(Record):
    """What a daemon carries out."""

    most: int  # jobs at once; 0: all of it is left to `clew work`
    hooks_only: bool = True  # jobs that somebody submitted are left to `clew work`


def work_of(client: Client) -> Work:
    """By the settings serve.work and serve.worker. Raises ConfigError when they contradict each other."""
    most: int | None = client.settings.of("serve.work")
    is_worker: bool = client.settings.of("serve.worker")
    if most == 0 and is_worker:
        raise ConfigError(
            "serve.worker is true, and serve.work is 0: no job would be carried out.",
            hint=f"Give serve.work another number ({client.settings['serve.work'].source}), or leave the jobs to "
            "`clew work`.",
        )
    if most is None:
        most = AT_ONCE if is_worker or client.hooks.settings.rules else 0
    return Work(most, hooks_only=not is_worker)


@asynccontextmanager
async def working(client: Client, what: Work, *, sweep_soon_s: float = SWEEP_SOON_S) -> AsyncIterator[None]:
    """As long as this is open, jobs are carried out and missed clean-ups are made up for."""
    stop = asyncio.Event()
    sweeping = asyncio.create_task(_sweep(client, sweep_soon_s))
    work = asyncio.create_task(_work(client, what, stop)) if what.most else None
    try:
        yield
    finally:
        stop.set()
        sweeping.cancel()
        await asyncio.gather(*filter(None, (sweeping, work)), return_exceptions=True)


async def _work(client: Client, what: Work, stop: asyncio.Event) -> None:
    """Trouble with the queue is no end: the page works meanwhile, and events are kept."""
    while not stop.is_set():
        try:
            await client.work(what.most, stop, hooks_only=what.hooks_only)
        except ClewError as error:
            if isinstance(error, StoreError) and error.kind == "lost":
                return  # health.py says so, once
            log.warning("no jobs are carried out: %s", error.message)
        except Exception as error:  # noqa: BLE001 - the next try may fare better
            problems.log_unexpected(error, "no jobs are carried out")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AGAIN_S):
                await stop.wait()


async def _sweep(client: Client, soon_s: float) -> None:
    await asyncio.sleep(soon_s)
    while True:
        try:
            for swept in await client.hooks.sweep():
                log.info("%s was dropped: %s", swept.key, swept.why)
        except ClewError as error:
            log.warning("missed clean-ups could not be looked for: %s", error.code)
        except Exception as error:  # noqa: BLE001 - there is another day
            problems.log_unexpected(error, "missed clean-ups could not be looked for")
        await _tidy(client)
        await asyncio.sleep(SWEEP_S)


async def _tidy(client: Client) -> None:
    """What the settings retention.threads and retention.archives say."""
    try:
        await client.archives.tidy_if_due()
    except ClewError as error:
        log.warning("old threads and archives could not be cleaned: %s", error.code)
    except Exception as error:  # noqa: BLE001 - there is another day
        problems.log_unexpected(error, "old threads and archives could not be cleaned")
