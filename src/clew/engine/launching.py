"""Starting an agent: below a launcher of its own where there can be one (see launcher.py), else directly."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew.engine import processes

_SCRIPT = Path(__file__).with_name("launcher.py")


class Launched:
    """An agent that runs. `process` holds its pipes; `pid` is the agent's own."""

    def __init__(self, process: asyncio.subprocess.Process, pid: int, ended: asyncio.Task[int]) -> None:
        self.process = process
        self.pid = pid
        self._ended = ended

    @property
    def exit_status(self) -> int | None:
        return self._ended.result() if self._ended.done() and not self._ended.cancelled() else None

    async def wait(self) -> int:
        """For the agent's own end: what it started may go on."""
        return await asyncio.shield(self._ended)

    async def gone(self) -> None:
        """Until nothing is left of it, nor of what it started."""
        await self.process.wait()
        await self.wait()


async def launch(argv: Sequence[str], *, cwd: str, environ: Mapping[str, str]) -> Launched:
    """Raises OSError when it cannot be started. Cancelled, nothing of it is left."""
    if not is_possible():
        process = await _spawn(argv, cwd, environ, ())
        return Launched(process, process.pid, asyncio.create_task(_returned(process)))
    read, write = os.pipe()
    reports = asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reports), os.fdopen(read, "rb", 0)
    )
    word, number = "", "0"
    try:
        try:
            script = [sys.executable, "-I", "-S", str(_SCRIPT), str(write), *argv]
            process = await _spawn(script, cwd, environ, (write,))
        finally:
            os.close(write)
        word, _, number = (await reports.readline()).decode().partition(" ")
    finally:
        if word != "started":
            await processes.end_family(environ.get(processes.MARK, ""), grace_s=0)
            pipe.close()
    if word != "started":
        close(process)
        await process.wait()
        code = int(number) if word == "failed" else 0
        raise OSError(code, os.strerror(code) if code else "its launcher was ended")
    return Launched(process, int(number), asyncio.create_task(_ended(reports, process)))


async def _ended(reports: asyncio.StreamReader, process: asyncio.subprocess.Process) -> int:
    said = (await reports.readline()).decode().split()
    return int(said[1]) if said else await _returned(process)  # the launcher was killed, and the agent with it


async def _returned(process: asyncio.subprocess.Process) -> int:
    """Its exit status. `Process.wait` would wait for all that hold its output open, too."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio has no event for it alone
        await asyncio.sleep(processes.POLL_S)
    return process.returncode


async def _spawn(
    argv: Sequence[str], cwd: str, environ: Mapping[str, str], held: Sequence[int]
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=dict(environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=tuple(held),
        start_new_session=True,
    )


def close(process: asyncio.subprocess.Process) -> None:
    """Its pipes, or they wait for the garbage collector."""
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


def is_possible() -> bool:
    """On Linux, where this program is a Python that can be started once more."""
    name = Path(sys.executable or "").name
    return sys.platform == "linux" and name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
