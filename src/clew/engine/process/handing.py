"""An agent on its way from one process of Clew to another.

An agent survives the process of Clew that started it, because its parent was forked by the launcher (launcher.py). So
only the descriptors of its pipes have to be passed on, with what tells the agent's process from all others. Whoever
holds them can read and write; what the agent writes meanwhile stays in its pipes.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import stat
from collections.abc import Sequence

from clew.core.record import Record
from clew.engine.process.family import is_parent_of_agent, started_at
from clew.system.forks import closed_in_forks

PIPES = 4  # the agent's input, its output, its errors, and the reports of its parent


class HandedAgent(Record):
    """The agent's process and its parent, each with its start time: pids are used again."""

    mark: str
    pid: int
    started: float
    top: int
    top_started: float
    has_answered: bool = True  # it has completed a turn

    @property
    def is_running(self) -> bool:
        """Whether these are, seen from this process, an agent and its parent that carries the mark. A process in
        another container sees other pids."""
        return started_at(self.pid) == self.started and is_parent_of_agent(
            self.top, self.top_started, self.pid, self.mark
        )


class AgentInTransit:
    """An agent that nobody reads now, and our ends of its pipes.

    Its holder passes the descriptors on and closes it, or makes an `AgentProcess` of it. When the last holder closes
    it, the agent's input ends.
    """

    def __init__(self, agent: HandedAgent, descriptors: Sequence[int]) -> None:
        """Takes the descriptors over, and closes them if they are not the pipes of an agent. Then it raises OSError."""
        self.agent = agent
        self._files: list[socket.socket | io.FileIO] = []
        left = list(descriptors)
        try:
            _check(left)
            self.stdin = socket.socket(fileno=left[0])
            self._files.append(closed_in_forks(self.stdin))
            del left[0]
            self.reading: list[io.FileIO] = []
            while left:
                file = io.FileIO(left[0], "rb")
                del left[0]
                self.reading.append(file)
                self._files.append(closed_in_forks(file))
        except BaseException:
            for descriptor in left:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self.close()
            raise

    @property
    def descriptors(self) -> list[int]:
        return [file.fileno() for file in self._files]

    def close(self) -> None:
        for file in self._files:
            file.close()


def _check(descriptors: Sequence[int]) -> None:
    modes = [os.fstat(each).st_mode for each in descriptors]
    if len(modes) != PIPES or not stat.S_ISSOCK(modes[0]) or not all(map(stat.S_ISFIFO, modes[1:])):
        raise OSError("these are not the pipes of an agent")
