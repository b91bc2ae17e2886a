"""One agent process: spawned in its own group, written to, read to the end, ended with all it started."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence

from clew.engine import processes
from clew.engine.framing import LineFramer, Skipped
from clew.engine.launching import Launched, launch
from clew.errors import AgentFailed, AgentMissing, UsageError

CHUNK = 256 * 1024
STDERR_CHARS = 8_000


class AgentProcess:
    """Reads lines however long (one that is too long is skipped), keeps the tail of stderr, closes stdin when told.

    Whoever spawns it must call `end` in the end, also when cancelled: nothing it started may outlive it.
    """

    def __init__(self, launched: Launched, mark: str, environ: Mapping[str, str]) -> None:
        self._launched = launched
        self._mark = mark
        self._environ = environ
        self._stderr: deque[bytes] = deque()
        self._stderr_bytes = 0
        self._stderr_is_cut = False
        self._stderr_task = asyncio.create_task(self._drain_stderr())
        self._since = processes.started_at(launched.top)
        self.started = processes.started_at(launched.pid)

    @classmethod
    async def spawn(cls, argv: Sequence[str], *, cwd: str, environ: Mapping[str, str], mark: str) -> AgentProcess:
        try:
            launched = await launch(argv, cwd=cwd, environ={**environ, processes.MARK: mark})
        except FileNotFoundError as error:
            if not os.path.isdir(cwd):  # noqa: PTH112 - one stat, on the way out
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
        """Writes a line. An agent that has gone says so by its end, not here."""
        stdin = self._launched.stdin
        if stdin.is_closing():
            return
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(line)
            await stdin.drain()

    def close_stdin(self) -> None:
        self._launched.stdin.close()

    async def lines(self) -> AsyncIterator[bytes | Skipped]:
        """Every line of stdout, to its very end; an unfinished last one too."""
        framer = LineFramer()
        while chunk := await self._launched.stdout.read(CHUNK):
            for line in framer.feed(chunk):
                yield line
        if rest := framer.rest():
            yield rest

    async def wait(self) -> int:
        status = await self._launched.wait()
        # A tool's child may hold stderr open for as long as it lives: what has come by now is enough. Only looked at:
        # once the family was ended nobody reads it any more, and whoever awaited that would be cancelled along with it.
        await asyncio.wait({self._stderr_task}, timeout=0.2)
        return status

    @property
    def stderr_tail(self) -> str:
        """Without secrets: it is stored, shown and logged."""
        said = b"".join(self._stderr).decode("utf-8", "replace")
        if self._stderr_is_cut:
            said = said.partition("\n")[2] or said  # half a secret is not recognised
        return self.without_secrets(said)[-STDERR_CHARS:].strip()

    def without_secrets(self, text: str) -> str:
        """Without the values that the agent's environment holds, and without what looks like a secret."""
        if not text:
            return text
        from clew.core.redaction import blank, find_secrets, secret_values  # seldom: only of what went wrong

        values = secret_values(self._environ.items(), os.path.lexists)
        return blank(text, find_secrets(text, values))[0]

    async def end(self, *, grace_s: float) -> None:
        """Ends the whole family, the orphans too; safe to call when all is over already."""
        try:
            root = self.pid if self.exit_status is None else None
            if not self._launched.is_alone:
                await processes.end_family(self._mark, root, self._since, grace_s=grace_s)
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
    """It is still the directory that it was when it was chosen: a link put in its place may lead anywhere."""
    if os.path.realpath(path) != path or not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for odd names
        raise UsageError(f"{path} is not the directory any more that it was.", hint="Say where the thread is to go on.")
