"""Kills Clew at a named point of a turn, or its agent at an event."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import forkserver
from clew.api.client import Run
from clew.core.runs.events import Event, ToolStarted
from clew.testing.stage import CODEX_MODEL, MODEL, Stage

DRIVER = Path(__file__).parents[1] / "driver.py"
SLEEP = '!tool Bash {"command": "while true; do sleep 1; done"}'  # a plain long sleep is refused by the real CLI
TOUCH = '!tool Bash {"command": "touch made"}'


def ask_and_die(stage: Stage, prompt: str, point: str, agent: str = "claude", earlier: str = "") -> None:
    """Asks in thread "t". If that is a new one, a tool may run without a question only if the point is that it runs.

    `earlier`: this is asked before, and its agent is kept for the turn that dies.
    """
    permissions, model = "all" if point == "tool_started" else "ask", CODEX_MODEL if agent == "codex" else MODEL
    settings = {"CLEW_AGENT": agent, "CLEW_MODEL": model, "CLEW_PERMISSIONS": permissions}
    done = forkserver.run(
        str(stage.work), prompt, model, earlier, script=DRIVER, env={**stage.environ, **settings, "CLEW_FAULT": point}
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def words_for(point: str) -> str:
    return {"tool_started": f"\n{SLEEP}", "question_asked": f"\n{TOUCH}"}.get(point, "slowly")


class Killer:
    """Kills all processes of the agent when the given event comes."""

    def __init__(self, stage: Stage, when: type[Event]) -> None:
        self._stage = stage
        self._when = when
        self.killed = False

    async def watch(self, run: Run) -> None:
        async for event in run:
            if isinstance(event, self._when) and not self.killed:
                for _ in range(500):  # the process may not exist yet
                    found = self._stage.processes()
                    if found:
                        break
                    await asyncio.sleep(0.01)
                for pid in found[:1] if self._when is ToolStarted else found:
                    with contextlib.suppress(
                        ProcessLookupError
                    ):  # a helper process of the launcher that has ended by itself
                        os.kill(pid, signal.SIGKILL)
                self.killed = bool(found)
