"""A program on a pseudo-terminal: a test types on it, and waits for what it shows."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from turns.outside.screen import COLUMNS, ROWS, Screen

TIMEOUT_S: Final = 60.0
ESCAPE, ENTER, CTRL_C, CTRL_U = "\x1b", "\r", "\x03", "\x15"
UP, LEFT = "\x1b[A", "\x1b[D"

# What a program asks its terminal: where the cursor is, and what it can do.
_WHERE, _WHAT = "\x1b[6n", "\x1b[c"


class Terminal:
    """The program reads from it and writes to it. A thread keeps the screen up to date until the program ends."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        cwd: Path,
        *,
        columns: int = COLUMNS,
        rows: int = ROWS,
        screen: Screen | None = None,
    ) -> None:
        self._screen = screen or Screen(columns, rows)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *self._screen.size, 0, 0))
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        self.process = self._start(command, env={"TERM": "xterm-256color", **environ}, cwd=cwd, **streams)
        os.close(slave)
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(command, start_new_session=True, preexec_fn=_own_terminal, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kills the program if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(TIMEOUT_S)
        os.close(self._master)

    @property
    def text(self) -> str:
        with self._changed:
            return self._screen.text

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def type_all(self, text: str) -> None:
        """A terminal takes no more than it can hold until the program reads."""
        left = text.encode()
        while left:
            left = left[os.write(self._master, left[:1000]) :]

    def press(self, key: str, then: str | Callable[[str], bool]) -> None:
        """Presses a key in a dialog, and waits until the screen matches the pattern. A dialog may be on the screen a
        moment before it takes keys: if nothing happens within a second, the key is pressed again, as a person does."""
        for _ in range(int(TIMEOUT_S)):
            self.type(key)
            if self._waits(then, 1.0):
                return
        raise AssertionError(f"{then!r} did not come; the terminal shows:\n{self.text}")

    def wait_for(self, wanted: str | Callable[[str], bool]) -> None:
        """Waits until the screen matches the pattern, or until the function says so of its text."""
        if not self._waits(wanted, TIMEOUT_S):
            raise AssertionError(f"{wanted!r} did not come; the terminal shows:\n{self.text}")

    def _waits(self, wanted: str | Callable[[str], bool], timeout_s: float) -> bool:
        is_there = wanted if callable(wanted) else lambda text: re.search(wanted, text) is not None
        with self._changed:
            return self._changed.wait_for(lambda: is_there(self._screen.text), timeout_s)

    def ended(self) -> int:
        """Waits for the end of the program, and returns its exit code."""
        return self.process.wait(TIMEOUT_S)

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            piece = b""
            with contextlib.suppress(OSError):  # Linux raises it when the other end is closed
                piece = os.read(self._master, 65_536)
            if not piece:
                return
            text = decoder.decode(piece)
            with self._changed:
                self._show(text)
                self._changed.notify_all()

    def _show(self, text: str) -> None:
        before, where, after = text.partition(_WHERE)
        self._screen.write(before)
        if _WHAT in before:
            self.type("\x1b[?62;c")
        if where:
            self.type("\x1b[{};{}R".format(*self._screen.cursor))
            self._show(after)


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
