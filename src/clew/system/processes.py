"""Child processes of asyncio."""

from __future__ import annotations

import asyncio
from typing import Any


async def ended(process: asyncio.subprocess.Process) -> None:
    """Waits for a process that was killed, and closes its pipes first.

    `Process.wait` also waits until its pipes end, and asyncio stops reading a pipe when nobody takes what it has read.
    """
    transport: Any = getattr(process, "_transport", None)  # asyncio has no public way to the pipes
    for number in (0, 1, 2) if transport is not None else ():
        pipe = transport.get_pipe_transport(number)
        if pipe is not None and not pipe.is_closing():
            pipe.close()
    await process.wait()
