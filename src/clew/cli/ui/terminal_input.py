"""Lines typed by the user: from stdin if that is a terminal, else from the terminal that controls the command.

Lines are read by the event loop itself (a terminal is readable when a line is complete), so nothing blocks, and a
question that is withdrawn simply stops reading.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import select
import sys
from collections.abc import Callable, Iterator
from typing import ClassVar

from clew.core.record import Record

CONTROLLING = "/dev/tty"
LINE_BYTES = 65_536
PASTE, PASTE_END = b"\x1b[200~", b"\x1b[201~"  # around a pasted text, if the terminal was asked for it
PASTE_PAUSE_S = 1.0  # between two parts of it
KEYS_WITHOUT_TEXT = r"\x1b\[[0-9;?]*[A-Za-z~]|[\x00-\x08\x0b-\x1f\x7f]"
LOCAL, CHARACTERS = 3, 6  # places in what termios.tcgetattr returns


class Lent(Record):
    """The terminal of the process that handed its command over to this one, which no terminal controls (ADR 62)."""

    terminal: int | None
    ask: Callable[[], None]  # called before something is read: the caller's job may be in the background


_lent: Lent | None = None


def lend(lent: Lent) -> None:
    """From now on, that is the terminal that controls the command."""
    global _lent
    _lent = lent


@contextlib.contextmanager
def pasting_in_marks() -> Iterator[None]:
    """What is pasted before the next prompt is one text there. Otherwise each of its lines could be sent as one."""
    if os.environ.get("TERM", "dumb") == "dumb":
        yield
        return
    from clew.cli.ui.safe_stream import unguarded

    stream = unguarded(sys.stdout)
    stream.write("\x1b[?2004h")
    stream.flush()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the terminal may be gone
            stream.write("\x1b[?2004l")
            stream.flush()


@contextlib.contextmanager
def keeping_typed_keys() -> Iterator[None]:
    """Ctrl-C does not discard what was typed before it."""
    import termios

    handle = sys.stdin.fileno()
    modes = termios.tcgetattr(handle)
    kept = list(modes)
    kept[LOCAL] |= termios.NOFLSH
    termios.tcsetattr(handle, termios.TCSADRAIN, kept)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(handle, termios.TCSADRAIN, modes)


class TerminalInput:
    _typed_ahead: ClassVar[list[str]] = []

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
            return cls(_controlling(), own=True)
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
            _ask_to_read()
            typed = os.read(self._handle, LINE_BYTES)
        finally:
            loop.remove_reader(self._handle)
        if not typed:
            raise EOFError
        return typed.replace(PASTE, b"").replace(PASTE_END, b"").decode("utf-8", "replace")

    def set_typed_ahead_aside(self) -> None:
        """What was typed before the question appeared is not an answer to it. A chat has it in its next prompt."""
        import termios

        _ask_to_read()
        with contextlib.suppress(OSError, termios.error):  # the terminal may be gone
            modes = termios.tcgetattr(self._handle)
            waiting = list(modes)
            waiting[LOCAL] &= ~termios.ICANON  # then a line that is not complete can be read, too
            waiting[CHARACTERS] = [*modes[CHARACTERS]]
            waiting[CHARACTERS][termios.VMIN], waiting[CHARACTERS][termios.VTIME] = 0, 0
            try:
                termios.tcsetattr(self._handle, termios.TCSANOW, waiting)
                self._typed_ahead.append(self._waiting_keys().decode("utf-8", "replace"))
            finally:
                termios.tcsetattr(self._handle, termios.TCSANOW, modes)

    def _waiting_keys(self) -> bytes:
        """A terminal holds some thousand bytes: more of a pasted text comes when these were read, up to its end."""
        typed = os.read(self._handle, LINE_BYTES)
        while typed.count(PASTE) > typed.count(PASTE_END) or select.select([self._handle], [], [], 0)[0]:
            is_ready = select.select([self._handle], [], [], PASTE_PAUSE_S)[0]
            more = os.read(self._handle, LINE_BYTES) if is_ready else b""
            if not more:
                break
            typed += more
        return typed

    @classmethod
    def take_typed_ahead(cls) -> str:
        typed = "".join(cls._typed_ahead).replace("\r", "\n")
        cls._typed_ahead.clear()
        return re.sub(KEYS_WITHOUT_TEXT, "", typed)


def _controlling() -> int:
    """A descriptor of the terminal that controls the command. Raises OSError if there is none."""
    if _lent is None:
        return os.open(CONTROLLING, os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    if _lent.terminal is None:
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    return os.dup(_lent.terminal)


def _ask_to_read() -> None:
    """The kernel suspends a background job that reads from its terminal, but only if the terminal controls it."""
    if _lent is not None:
        _lent.ask()
