"""Lines typed by the user: from stdin if that is a terminal, else from the terminal that controls the command.

Lines are read by the event loop itself (a terminal is readable when a line is complete), so nothing blocks, and a
question that is withdrawn simply stops reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

CONTROLLING = "/dev/tty"
LINE_BYTES = 65_536


class TerminalInput:
    def __init__(self, handle: int, *, own: bool) -> None:
        self._handle = handle
        self._own = own  # opened by this object, which then closes it

    @classmethod
    def find(cls) -> TerminalInput | None:
        """The user's terminal; None: there is none. `git diff | clew ask` has one, although stdin is a pipe."""
        if not sys.stderr.isatty():
            return None
        if sys.stdin is not None and sys.stdin.isatty():
            return cls(sys.stdin.fileno(), own=False)
        try:
            return cls(os.open(CONTROLLING, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC), own=True)
        except OSError:
            return None

    @classmethod
    def is_there(cls) -> bool:
        """Whether there is a terminal, and so a person to ask."""
        found = cls.find()
        if found is not None:
            found.close()
        return found is not None

    def close(self) -> None:
        if self._own:
            os.close(self._handle)

    async def read_line(self) -> str:
        """The next line that is typed. Raises EOFError at the end of input."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._handle, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
            typed = os.read(self._handle, LINE_BYTES)
        finally:
            loop.remove_reader(self._handle)
        if not typed:
            raise EOFError
        return typed.decode("utf-8", "replace")

    def discard_typed_ahead(self) -> None:
        """Discards keys that were pressed before the question appeared: they are not an answer to it."""
        with contextlib.suppress(ImportError, OSError):
            import termios

            termios.tcflush(self._handle, termios.TCIFLUSH)
