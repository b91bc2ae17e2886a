"""A worker process for tests that kill it: `worker.py CONCURRENCY [MACHINE | --hooks-only]`.

With a machine's name, the worker counts as running there: it and the others see only each other's heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys

import clew
from clew import config
from clew.api.client import Client
from clew.core.record import replace
from clew.engine.engine import Engine
from clew.engine.settings import EngineSettings
from clew.errors import StoreError
from clew.store.store import open_store
from clew.wiring import engine as wiring
from clew.wiring.worker import open_worker

SILENCE_S = 8.0  # instead of half a minute; long enough for a busy machine


HOOKS_ONLY = "--hooks-only"


async def main(concurrency: int, machine: str | None) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    if machine not in (None, HOOKS_ONLY):
        await work_elsewhere(concurrency, machine, stop)
        return
    async with clew.open() as client:
        await client.work(concurrency, stop, hooks_only=machine == HOOKS_ONLY)


async def work_elsewhere(concurrency: int, machine: str, stop: asyncio.Event) -> None:
    environ = dict(os.environ)
    settings, home = config.load(environ, None, {}), config.home(environ)
    here = wiring.runtime_context(environ)
    engine = Engine(
        open_store(settings.of("store") or home / wiring.STORE_FILE),
        wiring.Adapters(),
        EngineSettings(lease_s=SILENCE_S),
        replace(here, owner=replace(here.owner, host=machine)),
    )
    try:
        client = Client(engine, settings, home, await engine.recover())
        times = {"heartbeat_s": 1.0, "silence_s": SILENCE_S}
        await open_worker(engine, client.jobs, client.hooks, settings, home, machine, concurrency, **times).run(stop)
    finally:
        await engine.close()


if __name__ == "__main__":
    try:
        asyncio.run(main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
    except StoreError as error:
        print(error.message, file=sys.stderr)
        sys.exit(error.exit_code)
