"""A daemon's pool in the test's own process, and processes of Clew that take agents from it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from clew.core.runs.run import Owner
from clew.engine.process.agent import AgentProcess
from clew.engine.process.family import end_family, family, started_at
from clew.engine.warm.pool import WarmLimits, WarmPool
from clew.engine.warm.remote import RemoteLimits, RemotePool
from clew.engine.warm.server import PoolServer
from clew.engine.warm.session import WarmSession

SCRIPT = Path(__file__).with_name("process_of_clew.py")
VERSION = "1.0"
ENVIRON = {"PATH": os.environ["PATH"]}
SESSION = WarmSession("thread", "session", "launch", "/dev/null", 0, "leaf")
ANSWERS = 'while read -r line; do echo "answer to $line"; done'  # and exits when its input ends
STAYS = f"{ANSWERS}; exec sleep 600"  # although its input has ended


class ProcessOfClew:
    """`process_of_clew.py` in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def said(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            line = await self._process.stdout.readline()
        return json.loads(line) if line else {}

    async def ended(self) -> int:
        async with asyncio.timeout(60):
            return await self._process.wait()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
        await self.ended()


class House:
    """One daemon, its clients, and the agents of one thread."""

    def __init__(self, folder: Path, sockets: Path, leaving: AsyncExitStack) -> None:
        self.folder = folder
        self.mark = str(folder)
        self.path = sockets / "pool"
        self.ended: list[str] = []  # the marks of agents that the pool has ended
        self.owner = Owner("here", os.getpid(), started_at(os.getpid()) or 0.0)
        self.pool = WarmPool(self.owner, WarmLimits(grace_s=0.1))
        self.pool.when_ended(self.ended.append)
        self._leaving = leaving

    async def serve(self, version: str = VERSION) -> PoolServer:
        server = PoolServer(self.pool, self.path, version)
        await server.start()
        self._leaving.push_async_callback(self.pool.close)
        self._leaving.push_async_callback(server.close)
        return server

    def remote(self, **limits: float) -> RemotePool:
        """A client in this process."""
        owner = Owner("elsewhere", 1, 1.0)
        patient = RemoteLimits(**{"connect_s": 60, "keep_s": 60, "answer_s": 60, "grace_s": 0.1, **limits})
        remote = RemotePool(self.path, VERSION, owner, ENVIRON, limits=patient)
        remote.when_ended(self.ended.append)
        self._leaving.push_async_callback(remote.close)
        return remote

    async def spawn(self, script: str = ANSWERS, mark: str | None = None) -> AgentProcess:
        argv = ["/bin/sh", "-c", script]
        process = await AgentProcess.spawn(argv, cwd=str(self.folder), environ=ENVIRON, mark=mark or self.mark)
        self._leaving.push_async_callback(end_family, process.mark, grace_s=0)
        return process

    async def start(
        self, *steps: list[str], script: str = ANSWERS, through: Sequence[str] = (), **plan: Any
    ) -> ProcessOfClew:
        """`through`: a program that becomes the process."""
        plan = {
            "socket": str(self.path),
            "steps": steps,
            "argv": ["/bin/sh", "-c", script],
            "cwd": str(self.folder),
            "mark": self.mark,
            "session": SESSION.as_dict(),
            **plan,
        }
        started = ProcessOfClew(
            await asyncio.create_subprocess_exec(
                *through, sys.executable, str(SCRIPT), json.dumps(plan), stdout=asyncio.subprocess.PIPE
            )
        )
        self._leaving.push_async_callback(end_family, plan["mark"], grace_s=0)
        self._leaving.push_async_callback(started.kill)
        return started

    async def gone(self) -> None:
        """Waits until nothing of the thread's agents runs. Nobody ends them here."""
        async with asyncio.timeout(60):
            while family(self.mark):
                await asyncio.sleep(0.02)

    async def holds(self, held: bool) -> None:
        async with asyncio.timeout(60):
            while await self.pool.holds(SESSION.thread_id) is not held:
                await asyncio.sleep(0.02)


async def answer(process: AgentProcess, said: str) -> bytes:
    await process.send(f"{said}\n".encode())
    return await next_line(process)


async def next_line(process: AgentProcess) -> bytes:
    async with asyncio.timeout(60):
        async for line in process.lines():
            assert isinstance(line, bytes)
            return line
    raise AssertionError("the output has ended")
