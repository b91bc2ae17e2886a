"""A running agent as this process sees it: our ends of its pipes, and what its parent reports of its end."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
from collections.abc import Sequence

from clew.system.forks import closed_in_forks


class Launched:
    """A running agent and its pipes. `pid` is the agent's; `top` is its parent's, or `pid` if it has no such parent."""

    def __init__(
        self,
        stdin: asyncio.StreamWriter,
        stdout: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
        transports: Sequence[asyncio.BaseTransport],
        reports: asyncio.StreamReader | None = None,
    ) -> None:
        """`reports`: what the agent's parent says; None: the agent has no parent of its own."""
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.pid = self.top = 0
        self.is_alone = False  # the agent has ended, and so has everything that it started
        self._transports = transports
        self._reports = reports
        self._ended: asyncio.Task[int]
        self._gone: asyncio.Task[None] | None

    def watch(self, ended: asyncio.Task[int], gone: asyncio.Task[None] | None = None) -> None:
        """`gone` ends with the agent's parent; None: the agent has no parent of its own."""
        self._ended, self._gone = ended, gone

    def watch_reports(self, pid: int, top: int) -> None:
        """The agent has started, and its parent reports its end."""
        assert self._reports is not None
        self.pid, self.top = pid, top
        ended = asyncio.create_task(_ended(self, self._reports))
        self.watch(ended, asyncio.create_task(_parent_ended(ended, self._reports)))

    @property
    def exit_status(self) -> int | None:
        return self._ended.result() if self._ended.done() and not self._ended.cancelled() else None

    async def wait(self) -> int:
        """Waits for the end of the agent itself: processes that it started may still run."""
        return await asyncio.shield(self._ended)

    async def gone(self) -> None:
        """Waits until the agent and everything below its parent have ended."""
        await self.wait()
        if self._gone is not None:
            await asyncio.shield(self._gone)

    @property
    def has_unread(self) -> bool:
        """Whether output was read from the pipe that nobody has used yet, or the output has ended."""
        return _holds(self.stdout)

    def release(self) -> list[int] | None:
        """Stops reading and watching here, and returns duplicates of our ends of the pipes, in the order of `attach`.

        The agent notices nothing, and nothing is lost: what it writes from now on stays in the pipes. None: this cannot
        be done, and nothing has changed. It is done in one step of the event loop, so nothing can be read meanwhile.
        """
        if self._reports is None or self.has_unread or _holds(self._reports) or self._ended.done():
            return None
        if self.stdin.is_closing() or self.stdin.transport.get_write_buffer_size():
            return None
        if any(each.is_closing() for each in self._transports):  # the agent has closed its stderr
            return None
        ours = [self.stdin.get_extra_info("socket"), *(each.get_extra_info("pipe") for each in self._transports)]
        duplicates: list[int] = []
        try:
            for each in ours:
                duplicates.append(os.dup(each.fileno()))
        except OSError:  # this process has too many open files
            for descriptor in duplicates:
                os.close(descriptor)
            return None
        self._ended.cancel()
        self.close()
        return duplicates

    def close(self) -> None:
        """Closes the pipes now, without waiting for the garbage collector."""
        self.stdin.close()
        for transport in self._transports:
            transport.close()


async def attach(stdin: socket.socket, reading: Sequence[io.FileIO]) -> tuple[Launched, asyncio.StreamReader]:
    """Begins to write to an agent's input, and to read its output, its errors and the reports of its parent.

    Takes the files over: if this fails or is cancelled, they are closed.
    """
    readers, transports = list[asyncio.StreamReader](), list[asyncio.BaseTransport]()
    try:
        for file in reading:
            reader, transport = await _reader(closed_in_forks(file))
            readers.append(reader)
            transports.append(transport)
        _, writer = await asyncio.open_connection(sock=closed_in_forks(stdin))
    except BaseException:
        for transport in transports:
            transport.close()
        stdin.close()
        for file in reading[len(transports) :]:
            file.close()
        raise
    stdout, stderr, reports = readers
    return Launched(writer, stdout, stderr, transports, reports), reports


async def _reader(file: io.FileIO) -> tuple[asyncio.StreamReader, asyncio.BaseTransport]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    return reader, transport


def _holds(reader: asyncio.StreamReader) -> bool:
    """Whether the reader has bytes that nobody has used, or has come to the end."""
    return bool(getattr(reader, "_buffer", b"")) or reader.at_eof()  # asyncio has no public access to it


async def _ended(launched: Launched, reports: asyncio.StreamReader) -> int:
    said = (await reports.readline()).decode().split()
    if not said:
        return -signal.SIGKILL  # the agent's parent was killed, and the agent with it
    launched.is_alone = said[2] == "alone"
    return int(said[1])


async def _parent_ended(ended: asyncio.Task[int], reports: asyncio.StreamReader) -> None:
    await asyncio.shield(ended)
    await reports.read()
