"""One agent process: spawned in its own group, written to, read to the end, ended with all that it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence

from clew.engine.process.family import MARK, end_family, started_at
from clew.engine.process.framing import LineFramer, SkippedLine
from clew.engine.process.launching import Launched, launch
from clew.errors import AgentFailed, AgentMissing, UsageError

CHUNK = 256 * 1024
STDERR_CHARS = 8_000


class AgentProcess:
    """Reads lines (one that is too long is skipped), keeps the tail of stderr, closes stdin when told.

    Whoever spawns it must call `end`, also when cancelled: nothing that the process started may outlive it.
    """

    def __init__(self, launched: Launched, mark: str, environ: Mapping[str, str]) -> None:
        self._launched = launched
        self._mark = mark
        self._environ = environ
        self._stderr: deque[bytes] = deque()
        self._stderr_bytes = 0
        self._stderr_is_cut = False
        self._stderr_task = asyncio.create_task(self._drain_stderr())
        self._since = started_at(launched.top)
        self.started = started_at(launched.pid)

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

    @property
    def pid(self) -> int:
        return self._launched.pid

    @property
    def exit_status(self) -> int | None:
        return self._launched.exit_status

    async def send(self, line: bytes) -> None:
        """Writes a line. That the agent has exited is noticed by its end, not here."""
        stdin = self._launched.stdin
        if stdin.is_closing():
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(line)
            await stdin.drain()

    def close_stdin(self) -> None:
        self._launched.stdin.close()

    async def lines(self) -> AsyncIterator[bytes | SkippedLine]:
        """Every line of stdout to the end, with an unfinished last one."""
        framer = LineFramer()
        while chunk := await self._launched.stdout.read(CHUNK):
            for line in framer.feed(chunk):
                yield line
        if rest := framer.rest():
            yield rest

    async def wait(self) -> int:
        status = await self._launched.wait()
        # A tool's child may hold stderr open as long as it lives: what has come by now is enough. The task is not
        # awaited: `end` cancels it, and whoever awaited it would be cancelled with it.
        await asyncio.wait({self._stderr_task}, timeout=0.2)
        return status

    @property
    def stderr_tail(self) -> str:
        """Without secrets: it is stored, shown and logged."""
        text = b"".join(self._stderr).decode("utf-8", "replace")
        if self._stderr_is_cut:
            text = text.partition("\n")[2] or text  # the cut line may hold half a secret, which is not recognised
        return self.without_secrets(text)[-STDERR_CHARS:].strip()

    def without_secrets(self, text: str) -> str:
        """Without the values that the agent's environment holds, and without what looks like a secret."""
        if not text:
            return text
        from clew.core.secrets.redaction import blank, find_secrets, secret_values  # only needed for errors

        values = secret_values(self._environ.items(), os.path.lexists)
        return blank(text, find_secrets(text, values))[0]

    async def end(self, *, grace_s: float) -> None:
        """Ends the process and all that it started, orphans too. Safe to call when all have ended already."""
        try:
            root = self.pid if self.exit_status is None else None
            if not self._launched.is_alone:
                await end_family(self._mark, root, self._since, grace_s=grace_s)
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
    """Raises UsageError when a link was put in the place of the directory that was chosen: it may lead anywhere."""
    if os.path.realpath(path) != path or not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for odd names
        raise UsageError(f"{path} is no longer the same directory.", hint="Name the thread's directory with --cwd.")
