"""The daemon as a worker: it carries out jobs beside answering, and looks after hooks and old threads once a day.

It begins when the daemon answers and ends after the last answer is out: what is under way is handed back, for the next
daemon or another worker to go on with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from clew.client import Client
from clew.errors import ClewError
from clew.server import problems
from clew.server.problems import log

WITH_RULES = 2  # jobs at once, when nothing is said and there are rules for hooks
AGAIN_S = 30.0  # after the queue could not be had
SWEEP_SOON_S = 120.0  # after the start: a daemon that is started every morning sweeps too
SWEEP_S = 86_400.0


def jobs_at_once(client: Client) -> int:
    """The setting serve.work; 0: that is left to `clew work`."""
    given: int | None = client.settings.of("serve.work")
    if given is not None:
        return given
    return WITH_RULES if client.hooks.settings.rules else 0


@asynccontextmanager
async def working(client: Client, most: int, *, sweep_soon_s: float = SWEEP_SOON_S) -> AsyncIterator[None]:
    """As long as this is open, jobs are carried out, `most` at once, and missed clean-ups are made up for."""
    stop = asyncio.Event()
    sweeping = asyncio.create_task(_sweep(client, sweep_soon_s))
    work = asyncio.create_task(_work(client, most, stop)) if most else None
    try:
        yield
    finally:
        stop.set()
        sweeping.cancel()
        await asyncio.gather(*filter(None, (sweeping, work)), return_exceptions=True)


async def _work(client: Client, most: int, stop: asyncio.Event) -> None:
    """Trouble with the queue is no end: the page works meanwhile, and events are kept."""
    while not stop.is_set():
        try:
            await client.work(most, stop)
        except ClewError as error:
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
