"""One agent process: spawned in its own process group, written to, read, and ended with all its children.

Some agents answer one prompt after another in one process. Such a process may be kept between two turns
(`engine/warm`): what it has written is read to the end of its turn, and what it writes later is left unread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from clew.engine.process.family import MARK, descendants, end_family, is_stopped, rss_bytes, started_at
from clew.engine.process.framing import LineFramer, SkippedLine
from clew.engine.process.launched import Launched, attach
from clew.engine.process.launching import launch
from clew.errors import AgentFailed, AgentMissing, UsageError

if TYPE_CHECKING:
    from clew.engine.process.handing import AgentInTransit

CHUNK = 256 * 1024
STDERR_CHARS = 8_000


class AgentProcess:
    """An agent's process, its input and its output.

    The caller that spawns it must call `end`, even when cancelled: nothing that the process started may outlive it.
    """

    def __init__(self, launched: Launched, mark: str, environ: Mapping[str, str]) -> None:
        self._launched = launched
        self.mark = mark  # the id of the attempt that spawned it: all processes of its family carry it
        self._environ = environ
        self.has_answered = False  # it has completed a turn, so it is not starting any more
        self._framer = LineFramer()
        self._unread: deque[bytes | SkippedLine] = deque()
        self._stderr: deque[bytes] = deque()
        self._stderr_bytes = 0
        self._stderr_is_cut = False
        self._stderr_task = asyncio.create_task(self._drain_stderr())
        self._since = started_at(launched.top)
        self.started = started_at(launched.pid)
        self.is_handed_over = False

    @classmethod
    async def spawn(cls, argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], mark: str) -> AgentProcess:
        try:
            launched = await launch(argv, cwd=cwd, environ={**environ, MARK: mark})
        except FileNotFoundError as error:
            if not os.path.isdir(cwd):  # noqa: PTH112 - one stat, before an error is raised
                raise AgentFailed(f"The work directory {cwd} is gone.", hint="Name another with --cwd.") from error
            raise AgentMissing(f"{argv[0]} is gone.", hint="Run clew doctor.") from error
        except OSError as error:
            raise AgentFailed(f"{argv[0]} cannot be started: {error.strerror}.", hint="Run clew doctor.") from error
        return cls(launched, mark, environ)

    @classmethod
    async def from_handed(cls, transit: AgentInTransit, environ: Mapping[str, str]) -> AgentProcess:
        """The process that was handed over. `environ`: an environment equal to its own, or nothing if it is not asked
        for errors here. The pipes are this object's now; they are closed if this fails or is cancelled."""
        launched, _ = await attach(transit.stdin, transit.reading)
        launched.watch_reports(transit.agent.pid, transit.agent.top)
        process = cls(launched, transit.agent.mark, environ)
        process.started, process._since = transit.agent.started, transit.agent.top_started
        process.has_answered = transit.agent.has_answered
        return process

    @property
    def pid(self) -> int:
        return self._launched.pid

    @property
    def exit_status(self) -> int | None:
        return self._launched.exit_status

    async def send(self, line: bytes) -> None:
        """Writes a line. If the agent has exited, nothing happens: its exit is noticed elsewhere."""
        stdin = self._launched.stdin
        if stdin.is_closing():
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(line)
            await stdin.drain()

    def close_stdin(self) -> None:
        self._launched.stdin.close()

    async def lines(self) -> AsyncIterator[bytes | SkippedLine]:
        """Every line of stdout, including an unfinished last one. A line that is too long is skipped.

        A reader may leave before the end: the next one continues with the next line.
        """
        while True:
            while self._unread:
                yield self._unread.popleft()
            chunk = await self._launched.stdout.read(CHUNK)
            if not chunk:
                break
            self._unread.extend(self._framer.feed(chunk))
        if rest := self._framer.rest():
            yield rest

    async def wait(self) -> int:
        status = await self._launched.wait()
        # A child process of a tool may hold stderr open while it lives: what was read by now is enough. The task is not
        # awaited, because `end` cancels the task, which would raise CancelledError here.
        await asyncio.wait({self._stderr_task}, timeout=0.2)
        return status

    @property
    def stderr_tail(self) -> str:
        """The end of stderr, without secrets, because it is stored, shown and logged."""
        text = b"".join(self._stderr).decode("utf-8", "replace")
        if self._stderr_is_cut:
            text = text.partition("\n")[2] or text  # the cut line may hold half a secret, which would not be recognised
        return self.without_secrets(text)[-STDERR_CHARS:].strip()

    def without_secrets(self, text: str) -> str:
        """The text without secret values of the agent's environment, and without what looks like a secret."""
        if not text:
            return text
        from clew.core.secrets.redaction import blank, find_secrets, secret_values  # loaded only for errors

        values = secret_values(self._environ.items(), os.path.lexists)
        return blank(text, find_secrets(text, values))[0]

    # Between two turns

    def begin_turn(self) -> None:
        """Forgets the stderr of earlier turns."""
        self._stderr.clear()
        self._stderr_bytes, self._stderr_is_cut = 0, False

    @property
    def is_quiet(self) -> bool:
        """Whether the process runs, and has written nothing that was not read. A suspended process does not run."""
        return (
            self.exit_status is None
            and not self._unread
            and self._framer.is_empty
            and not self._launched.has_unread
            and not is_stopped(self.pid, self.started)
        )

    async def stirs(self) -> None:
        """Waits until the process writes something or closes its output, which it must not do between two turns."""
        while not self._unread:
            chunk = await self._launched.stdout.read(CHUNK)
            self._unread.append(chunk)

    @property
    def has_tools_left(self) -> bool:
        """Whether a process that a tool has started still runs. An agent's tools run in sessions of their own; its own
        helpers, for example MCP servers, run in the agent's."""
        return any(each.session != self.pid for each in descendants(self._launched.top) if each.pid != self.pid)

    @property
    def rss_bytes(self) -> int:
        """The memory that the agent and its helpers hold now."""
        return sum(rss_bytes(each.pid) for each in descendants(self._launched.top))

    def hand_over(self) -> AgentInTransit | None:
        """Stops reading here, so that another process of Clew can go on. None: it cannot be handed over, because it is
        not quiet, or because it was started without the launcher; then it is this object's still.

        Whoever gets the result must make an AgentProcess of it or close it. This object is of no more use.
        """
        if not self.is_quiet or self.started is None or self._since is None or self.is_handed_over:
            return None
        from clew.engine.process.handing import AgentInTransit, HandedAgent  # loaded only if agents are handed over

        descriptors = self._launched.release()
        if descriptors is None:
            return None
        self.is_handed_over = True
        self._stderr_task.cancel()
        return AgentInTransit(
            HandedAgent(self.mark, self.pid, self.started, self._launched.top, self._since, self.has_answered),
            descriptors,
        )

    async def retire(self, *, grace_s: float) -> None:
        """Ends a process that waits for a prompt: it exits by itself when its input ends, or it is ended."""
        if self.is_handed_over:
            return
        self.close_stdin()
        if not is_stopped(self.pid, self.started):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await self._launched.wait()
        await self.end(grace_s=0)

    async def end(self, *, grace_s: float, at_once: bool = False) -> None:
        """Ends the process and everything that it started, including orphans. It may be called again.

        One that was handed over is not ended: it belongs to another process of Clew. `at_once`: the agent is killed,
        before it writes another line anywhere.
        """
        if self.is_handed_over:
            return
        try:
            root = self.pid if self.exit_status is None else None
            if not self._launched.is_alone:
                await end_family(self.mark, root, self._since, grace_s=grace_s, orphaned=at_once)
            await self._launched.gone()
        finally:
            self._stderr_task.cancel()
            self._launched.close()

    async def _drain_stderr(self) -> None:
        while chunk := await self._launched.stderr.read(CHUNK):
            self._stderr.append(chunk[-STDERR_CHARS * 4 :])
            self._stderr_bytes += len(self._stderr[-1])
            self._stderr_is_cut |= len(chunk) > STDERR_CHARS * 4
            while self._stderr_bytes - len(self._stderr[0]) > STDERR_CHARS * 4:
                self._stderr_bytes -= len(self._stderr.popleft())
                self._stderr_is_cut = True


def check_work_dir(path: str) -> None:
    """Raises UsageError if the directory is gone, or if a part of its path is now a symbolic link."""
    if os.path.realpath(path) != path or not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for odd names
        raise UsageError(f"{path} is no longer the same directory.", hint="Name the thread's directory with --cwd.")
