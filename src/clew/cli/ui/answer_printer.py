"""The answer on stdout as it streams. In a pipe, exactly the text that the stored turn will hold."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TextIO

from clew.cli.ui.formatting import harmless
from clew.cli.ui.printing import shows_markdown
from clew.core.runs.answer import SEPARATOR

if TYPE_CHECKING:
    from clew.cli.ui.markdown.printer import MarkdownPrinter


def answer_printer(out: TextIO | None = None) -> AnswerPrinter | MarkdownPrinter:
    """Renders Markdown on a terminal; prints the text itself in a pipe, with --plain and on a simple terminal."""
    if shows_markdown(out or sys.stdout):
        from clew.cli.ui.markdown.printer import MarkdownPrinter

        return MarkdownPrinter(out)
    return AnswerPrinter(out)


class AnswerPrinter:
    """Prints pieces as they arrive and, of a whole message, the part that was not streamed."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._on_terminal = self._out.isatty()
        self._pieces: list[str] = []  # of the message that is being streamed
        self._printed = False  # some of this attempt's answer has been printed
        self._separator = ""  # to be printed before the next message
        self._last = "\n"

    def preload(self) -> None:
        """Nothing is needed to print a text as it is."""

    @property
    def at_line_start(self) -> bool:
        return self._last == "\n"

    def piece(self, text: str) -> None:
        self._write(text)
        self._pieces.append(text)

    def message(self, text: str) -> None:
        """Prints the part of a complete message that was not streamed."""
        streamed = "".join(self._pieces)
        self._pieces.clear()
        self._write(text.removeprefix(streamed))
        if self._printed:
            self._separator = SEPARATOR

    def start_over(self) -> bool:
        """Prepares for another attempt. True: text of the failed attempt was printed, and stays on the screen."""
        had_printed, self._printed = self._printed, False
        self._pieces.clear()
        self._separator = SEPARATOR if had_printed else ""
        return had_printed

    def withdraw(self) -> bool:
        """Drops the message that is being streamed. True: some of it was printed, and its line is ended."""
        if not self._pieces:
            return False
        self._pieces.clear()
        self.end()
        return True

    def break_line(self) -> bool:
        """On a terminal, begins a new line for a status line. The line break counts as part of the separator.

        True: a line break was needed.
        """
        if not self._on_terminal or self.at_line_start:
            return False
        self._put("\n")
        self._separator = self._separator.removeprefix("\n")
        return True

    def end(self) -> None:
        if not self.at_line_start:
            self._put("\n")

    def _write(self, text: str) -> None:
        if not text:
            return
        if self._separator:
            self._put(self._separator)
            self._separator = ""
        self._printed = True
        self._put(harmless(text) if self._on_terminal else text)

    def _put(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
        self._last = text[-1]
