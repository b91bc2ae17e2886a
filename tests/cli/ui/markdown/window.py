"""A terminal in this process: what is written to it is on its screen."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios

from clew.cli.ui.markdown.printer import MarkdownPrinter
from turns.outside.screen import Screen


class Window(io.StringIO):
    encoding = "utf-8"

    def __init__(self, columns: int = 60, rows: int = 24) -> None:
        super().__init__()
        self.screen = Screen(columns, rows)
        self._master, self._slave = pty.openpty()
        self.resize(columns, rows)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(columns, rows)
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._slave

    def write(self, text: str) -> int:
        self.screen.write(text.replace("\n", "\r\n"))
        return super().write(text)

    def close(self) -> None:
        if not self.closed:
            os.close(self._master)
            os.close(self._slave)
        super().close()

    @property
    def shown(self) -> str:
        return self.screen.everything


def printed(*pieces: str, columns: int = 60, rows: int = 24) -> Window:
    """The window after a message of these pieces."""
    window = Window(columns, rows)
    printer = MarkdownPrinter(window)
    for piece in pieces:
        printer.piece(piece)
    printer.message("".join(pieces))
    return window
