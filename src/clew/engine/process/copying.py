"""Makes a copy of a session by a dialog with a process of the agent (see `CopyDialog`)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from clew.agents.adapter import CopyDialog
from clew.engine.faults import passed
from clew.engine.process.agent import AgentProcess
from clew.errors import AgentFailed

TIMEOUT_S = 30.0
EXIT_S = 2.0  # how long the process may take to exit by itself, so that it closes its files
GRACE_S = 1.0


async def make_copy(
    dialog: CopyDialog, *, cwd: str, environ: Mapping[str, str], mark: str, timeout_s: float = TIMEOUT_S
) -> str:
    """The id of the copy. Raises AgentFailed if there is none.

    The process and everything that it started are ended before this returns or raises, also if it is cancelled.
    """
    process = await AgentProcess.spawn(dialog.argv, cwd=cwd, environ=environ, mark=mark)
    try:
        passed("copy_started")
        try:
            async with asyncio.timeout(timeout_s):
                await _talk_while_it_runs(dialog, process)
        except TimeoutError:
            raise AgentFailed(f"The agent did not copy the session within {timeout_s:.0f} s.") from None
        process.close_stdin()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_S):
                await process.wait()
    finally:
        await process.end(grace_s=GRACE_S)
    if dialog.session_id is None:
        why = process.without_secrets(dialog.error) or "it ended without an answer"
        raise AgentFailed(
            f"The agent could not copy the session: {why}.",
            exit_status=process.exit_status,
            stderr_tail=process.stderr_tail,
        )
    passed("copy_made")
    return dialog.session_id


async def unless_stopped(
    copying: Coroutine[Any, Any, str], must_stop: Callable[[], Awaitable[bool]], poll_s: float
) -> str | None:
    """What `copying` returns or raises. None: it had to stop before, and everything that it started has ended."""
    task = asyncio.create_task(copying)
    try:
        while not (await asyncio.wait({task}, timeout=poll_s))[0]:
            if await must_stop():
                return None
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _talk_while_it_runs(dialog: CopyDialog, process: AgentProcess) -> None:
    """Also ends when the process does: something that it started may hold its output open."""
    talking, exiting = asyncio.create_task(_talk(dialog, process)), asyncio.create_task(process.wait())
    try:
        await asyncio.wait({talking, exiting}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({talking}, timeout=EXIT_S)
    finally:
        for task in (talking, exiting):
            task.cancel()
        await asyncio.gather(talking, exiting, return_exceptions=True)
    if not talking.cancelled():
        talking.result()


async def _talk(dialog: CopyDialog, process: AgentProcess) -> None:
    """Until the dialog is over, or the process closes its output."""
    for line in dialog.begin():
        await process.send(line)
    async for received in process.lines():
        for line in dialog.feed(received) if isinstance(received, bytes) else ():
            await process.send(line)
        if dialog.session_id is not None or dialog.error:
            return
