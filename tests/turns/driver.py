"""Asks one prompt in thread "t" and exits. Tests run it as a process, and kill it."""

from __future__ import annotations

import asyncio
import json
import sys

import clew


async def main(work_dir: str, prompt: str, model: str) -> None:
    async with clew.open() as client:
        thread = await client.thread("t", cwd=work_dir, model=model)
        reply = await (await thread.ask(prompt)).reply()
        print(json.dumps(reply.to_json()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
