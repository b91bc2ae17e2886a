"""The daemon's side of the fork server: starts it, starts it again if it ends, and knows what it does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clew.api.daemons import in_background

log = logging.getLogger("clew.server.resident")
RETRY_S = 5.0
END_S = 5.0  # how long a fork server without commands may take to end


class ForkServer:
    def __init__(self, home: Path) -> None:
        self.begun = 0  # commands so far
        self.commands = 0  # those that it carries out now
        self._is_listening = False
        self._home = home
        self._trouble = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While this is open, `clew` hands commands over. Those in progress at the end are finished without us."""
        task = asyncio.create_task(self._keep_running())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_running(self) -> None:
        while True:
            try:
                await self._run_once()
                log.warning("the resident has ended; it is started again")
            except OSError as error:
                log.warning("the resident cannot be started: %s", error)
            await asyncio.sleep(RETRY_S)

    async def _run_once(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            process = self._start(theirs.fileno())
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
            try:
                async for line in reader:
                    self._heard(*line.decode("utf-8", "replace").rstrip().partition(" ")[::2])
            finally:
                writer.close()
        finally:
            if not self._is_listening:
                process.kill()  # it has no command, and may still be loading modules
            await asyncio.to_thread(_wait, process, 0.0 if self.commands else END_S)
            self.commands, self._is_listening = 0, False

    def _heard(self, word: str, rest: str) -> None:
        if word == "commands":
            self.begun += int(rest) > self.commands
            self.commands = int(rest)
        elif word == "listening":
            self._is_listening = True
        elif word == "failed" and rest != self._trouble:
            self._trouble = rest
            log.warning("commands are not handed over to this daemon: %s", rest)

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        return subprocess.Popen(
            [sys.executable, *flags, "-m", "clew.cli.daemon.fork_server", str(descriptor)],
            env=in_background({**os.environ, "CLEW_HOME": str(self._home)}),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            start_new_session=True,  # Ctrl-C at the daemon's terminal is not meant for the commands
        )


def _wait(process: subprocess.Popen[bytes], most_s: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(most_s)
    if process.returncode is None:
        process.returncode = 0  # it ends when its commands have ended; nobody waits for it
