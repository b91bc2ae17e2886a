"""Asks one prompt in thread "t" and exits. Tests run it as a process, and kill it.

With an earlier prompt, that is asked first in the same process, which keeps the agent; the fault is then one of the
second turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import clew
from clew.engine import faults


async def main(work_dir: str, prompt: str, model: str, earlier: str = "") -> None:
    environ = dict(os.environ)
    point = environ.pop("CLEW_FAULT", "") if earlier else ""
    async with clew.open(environ=environ, **{"warm.keys": bool(earlier)}) as client:
        thread = await client.thread("t", cwd=work_dir, model=model)
        if earlier:
            await (await thread.ask(earlier)).reply()
            assert await client.kept_agents()
            faults.install(lambda passed: os.kill(os.getpid(), signal.SIGKILL) if passed == point else None)
        reply = await (await thread.ask(prompt)).reply()
        print(json.dumps(reply.to_json()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
