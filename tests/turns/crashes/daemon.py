"""Asks prompts in thread "t" as a daemon does, prints a line when the first runs and all are stored, and stays."""

from __future__ import annotations

import asyncio
import signal
import sys

import clew


async def main(work_dir: str, model: str, *prompts: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with clew.open() as client:
        thread = await client.thread("t", cwd=work_dir, model=model)
        first = await thread.ask(prompts[0], lasting=True)
        async for event in first:
            if isinstance(event, clew.SessionStarted):
                break
        for prompt in prompts[1:]:
            await thread.ask(prompt, lasting=True)
        print("stored", flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
