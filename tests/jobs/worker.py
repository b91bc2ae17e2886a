"""A worker as a process of its own, for tests that kill it."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

import clew


async def main(concurrency: int) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with clew.open() as client:
        await client.work(concurrency, stop)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
