"""An agent's process, ended while something that escaped it still holds its error output open."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from clew.engine.agent_process import AgentProcess

# It leaves its family: another session, no mark in its environment, and a parent that has gone.
ESCAPES = "(env -i setsid sh -c 'echo $$ > {pid}; exec sleep 60' </dev/null >/dev/null &); exec sleep 600"


async def test_its_status_is_told_after_its_family_was_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    argv = ["/bin/sh", "-c", ESCAPES.format(pid=pid)]
    process = await AgentProcess.spawn(argv, cwd=str(tmp_path), environ={"PATH": os.environ["PATH"]}, mark="m")
    async with asyncio.timeout(60):
        while not pid.exists() or not pid.read_text().strip():
            await asyncio.sleep(0.02)
    try:
        await process.end(grace_s=5)
        async with asyncio.timeout(30):
            assert await process.wait() == -signal.SIGTERM
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
