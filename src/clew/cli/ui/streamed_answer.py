"""The answer on stdout as it streams: to the letter what the stored turn will hold."""

from __future__ import annotations

import sys
from typing import TextIO

from clew.cli.output import harmless
from clew.core.answer import BETWEEN


class StreamedAnswer:
    """Prints pieces as they come, and of a whole message what had not been streamed."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._on_terminal = self._out.isatty()
        self._pieces: list[str] = []  # of the message that is being said
        self._said = False  # something of this attempt's answer is out already
        self._owed = ""  # what stands between the last message and the next
        self._last = "\n"

    @property
    def at_line_start(self) -> bool:
        return self._last == "\n"

    def piece(self, text: str) -> None:
        self._write(text)
        self._pieces.append(text)

    def message(self, text: str) -> None:
        """A whole message. Whatever of it was not streamed is printed now."""
        streamed = "".join(self._pieces)
        self._pieces.clear()
        self._write(text.removeprefix(streamed))
        if self._said:
            self._owed = BETWEEN

    def start_over(self) -> bool:
        """Another attempt begins. True: some of the failed one's words are out, and cannot be taken back."""
        was_said, self._said = self._said, False
        self._pieces.clear()
        self._owed = BETWEEN if was_said else ""
        return was_said

    def withdraw(self) -> bool:
        """The message that is being said does not count. True: some of it is out; what comes next begins a line."""
        if not self._pieces:
            return False
        self._pieces.clear()
        self.end()
        return True

    def break_line(self) -> bool:
        """On a terminal: room for a status line below what was said. The break is a part of what is owed anyway.

        True: there had to be one.
        """
        if not self._on_terminal or self.at_line_start:
            return False
        self._put("\n")
        self._owed = self._owed.removeprefix("\n")
        return True

    def end(self) -> None:
        if not self.at_line_start:
            self._put("\n")

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._owed:
            self._put(self._owed)
            self._owed = ""
        self._said = True
        self._put(harmless(text) if self._on_terminal else text)

    def _put(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._last = text[-1]
