"""A process of Clew that uses agents which a daemon keeps, or is that daemon. It prints a line of JSON for each step.

The tests start it with one argument, a JSON object:

    socket    the daemon's
    steps     spawn | ask TEXT | take | keep | key | serve | terminal PATH | wait
    agent     its command line, and a word that is in the last line of an answer
    die_at    the name of a point (`engine.faults`) where it kills itself
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from clew.core.runs.run import Owner
from clew.engine import faults
from clew.engine.process.agent import AgentProcess
from clew.engine.process.family import started_at
from clew.engine.warm.pool import WarmLimits, WarmPool
from clew.engine.warm.remote import RemoteLimits, RemotePool
from clew.engine.warm.server import PoolServer
from clew.engine.warm.session import WarmSession

VERSION = "1.0"
PATIENT = RemoteLimits(connect_s=60, keep_s=60, answer_s=60)  # the machine of a test may be busy


def this_process() -> Owner:
    return Owner("here", os.getpid(), started_at(os.getpid()) or 0.0)


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def ask(process: AgentProcess, text: str, end: str) -> str:
    await process.send(f"{text}\n".encode())
    async for line in process.lines():
        if isinstance(line, bytes) and end.encode() in line:
            return line.decode()
    return "no answer"


async def main(plan: dict[str, Any]) -> None:
    path = Path(plan["socket"])
    environ = plan.get("environ", {"PATH": os.environ["PATH"]})
    remote = RemotePool(path, VERSION, this_process(), environ, limits=PATIENT)
    process: AgentProcess | None = None
    server: PoolServer | None = None
    for step, *words in plan["steps"]:
        if step == "spawn":
            process = await AgentProcess.spawn(plan["argv"], cwd=plan["cwd"], environ=environ, mark=plan["mark"])
            say(pid=process.pid)
        elif step == "key":
            key = await remote.key()
            say(key=key is not None, owner=remote.owner.pid)
        elif step == "ask" and process is not None:
            process.begin_turn()
            say(answer=await ask(process, words[0], plan.get("end", "")))
        elif step == "take":
            process = await remote.take(WarmSession(**plan["session"]))
            say(pid=process and process.pid)
        elif step == "keep" and process is not None:
            await remote.keep(process, WarmSession(**plan["session"]))
            say(kept=[each.pid for each in await remote.kept()])
        elif step == "serve":
            server = PoolServer(WarmPool(this_process(), WarmLimits()), path, VERSION)
            await server.start()
            say(serves=os.getpid())
        elif step == "terminal":
            os.setsid()
            os.open(words[0], os.O_RDWR)  # which becomes the controlling terminal of the new session
        elif step == "wait":
            await asyncio.Event().wait()
    await remote.close()


def die(point: str) -> None:
    if point == plan.get("die_at"):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    plan = json.loads(sys.argv[1])
    faults.install(die)
    asyncio.run(main(plan))
