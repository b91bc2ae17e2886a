"""A worker, or a reader, whose clock is wrong: `worker.py work|read OFFSET_S`.

In namespaces of its own (`unshare`) it counts as running on another machine: others see only its heartbeat.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

from clew import config
from clew.api.client import Client
from clew.core.record import replace
from clew.engine.engine import Engine
from clew.engine.settings import EngineSettings
from clew.store.store import open_store
from clew.wiring import engine as wiring
from clew.wiring.worker import open_worker

SILENCE_S = 10.0  # instead of half a minute
AT_ONCE = 2


async def main(what: str, offset_s: float) -> None:
    environ = dict(os.environ)
    settings, home = config.load(environ, None, {}), config.home(environ)
    here = replace(wiring.runtime_context(environ), clock=lambda: time.time() + offset_s)
    store = open_store(settings.of("store") or home / wiring.STORE_FILE)
    engine = Engine(store, wiring.Adapters(), EngineSettings(lease_s=SILENCE_S), here)
    try:
        client = Client(engine, settings, home, await engine.recover())
        if what == "read":
            await client.threads()
            return
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        name, times = f"{here.owner.host}/{here.owner.pid}", {"heartbeat_s": 1.0, "silence_s": SILENCE_S}
        await open_worker(engine, client.jobs, client.hooks, settings, home, name, AT_ONCE, **times).run(stop)
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
