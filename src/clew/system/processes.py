"""Child processes that asyncio started."""

from __future__ import annotations

import asyncio
from typing import Any


async def ended(process: asyncio.subprocess.Process) -> None:
    """Waits for a process that was killed, after closing its pipes.

    `Process.wait` also waits until the pipes end, and asyncio stops reading a pipe while its buffered data is not used.
    """
    transport: Any = getattr(process, "_transport", None)  # asyncio has no public access to the pipes
    for number in (0, 1, 2) if transport is not None else ():
        pipe = transport.get_pipe_transport(number)
        if pipe is not None and not pipe.is_closing():
            pipe.close()
    await process.wait()
