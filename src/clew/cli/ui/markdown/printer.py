"""The answer as rendered Markdown, while it streams. It has the methods of AnswerPrinter.

What draws it is imported with the first text. `preload` imports it before that, in another thread, while the agent
starts.
"""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from clew.cli.ui.markdown.document import Document
    from clew.cli.ui.markdown.drawing import Drawing


class MarkdownPrinter:
    """Each message is a text of its own: code that one does not close does not swallow the next."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._document: Document | None = None  # the message that is being printed
        self._pieces: list[str] = []  # of it, if it is being streamed
        self._printed = False  # some of this attempt's answer has been printed
        self._any = False  # something has been printed
        self._held = ""  # a carriage return, which may be half of a line break

    def preload(self) -> None:
        from clew.cli.ui.markdown import document, drawing, passage  # noqa: F401

        passage.spans_of("*text*")

    @property
    def at_line_start(self) -> bool:
        return self._document is None or self._drawing.at_line_start

    def piece(self, text: str) -> None:
        self._show(text)
        self._pieces.append(text)

    def message(self, text: str) -> None:
        """Prints the part of a complete message that was not streamed."""
        streamed = "".join(self._pieces)
        self._pieces.clear()
        self._show(text.removeprefix(streamed))
        self._finish()

    def start_over(self) -> bool:
        """Prepares for another attempt. True: text of the failed attempt was printed, and stays on the screen."""
        self._finish()
        self._pieces.clear()
        had_printed, self._printed = self._printed, False
        return had_printed

    def withdraw(self) -> bool:
        """Drops the message that is being streamed. True: some of it was printed, and its line is ended."""
        if not self._pieces:
            return False
        self._pieces.clear()
        self._finish()
        return True

    def break_line(self) -> bool:
        """Begins a new line for a status line. True: a line break was needed."""
        if self._document is None or self._drawing.at_line_start:
            return False
        self._drawing.show(self._document.break_off())
        return True

    def end(self) -> None:
        self._finish()

    @cached_property
    def _drawing(self) -> Drawing:
        from clew.cli.ui.markdown.drawing import Drawing

        return Drawing(self._out)

    def _show(self, text: str) -> None:
        text, self._held = self._held + text, ""
        if text.endswith("\r"):
            text, self._held = text[:-1], "\r"
        if not text:
            return
        if self._document is None:
            from clew.cli.ui.markdown.document import Document

            self._document = Document(self._drawing.columns, after_text=self._any)
        rows = self._document.feed(text.replace("\r\n", "\n"))
        tail = self._document.tail()
        self._printed = self._printed or bool(rows or tail)
        self._drawing.show(rows, tail)

    def _finish(self) -> None:
        """Ends the text. The next one is a text of its own."""
        held, self._held = self._held, ""
        document, self._document = self._document, None
        if document is None:
            return
        rows = [*document.feed(held), *document.end()]
        self._printed = self._printed or bool(rows)
        self._any = self._any or self._printed
        self._drawing.show(rows)
