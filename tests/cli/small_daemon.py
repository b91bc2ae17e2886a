"""A small daemon: asks prompts that outlive it, prints the ids of their runs, and exits when the runs have ended."""

from __future__ import annotations

import asyncio
import sys

import clew


async def main(thread: str, *prompts: str) -> None:
    async with clew.open() as client:
        talk = await client.thread(thread, cwd=".")
        runs = [await talk.ask(prompt, lasting=True) for prompt in prompts]
        print(*(run.id for run in runs), flush=True)
        for run in runs:
            await run.reply()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
