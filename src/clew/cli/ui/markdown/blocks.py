"""The blocks that hold text: a paragraph or a heading, and a block of code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from clew.cli.ui.markdown.code import CodeLines
from clew.cli.ui.markdown.flow import Flow
from clew.cli.ui.markdown.passage import Passage, spans_of
from clew.cli.ui.markdown.rows import Row, Span

if TYPE_CHECKING:
    from rich.style import Style


class Text:
    """A paragraph, or a heading."""

    def __init__(
        self,
        columns: Callable[[], int],
        first: list[Span],
        rest: list[Span],
        shown: Style,
        *,
        is_heading: bool = False,
    ) -> None:
        self.is_heading = is_heading
        self._shown = shown
        self._flow = Flow(columns, first, rest)
        self._passage = Passage()

    def add(self, text: str) -> None:
        self._show(self._passage.feed(text))

    def end_line(self) -> None:
        """A newline in a paragraph begins a row, as it does in the comments of code forges."""
        self.add("\n")

    def end(self) -> None:
        """All of the text is in rows. If more is added, it begins in a new one."""
        self._show(self._passage.end())
        self._flow.newline()

    def taken(self) -> list[Row]:
        return self._flow.taken()

    def preview(self) -> list[Row]:
        source = self._passage.closed()
        return self._flow.preview(spans_of(source, self._shown) if source else [(self._passage.rest, self._shown)])

    def _show(self, segments: Iterator[str]) -> None:
        for segment in segments:
            self._flow.add(spans_of(segment, self._shown))


class Code:
    """A fenced block of code. `mark`: the run of characters that began it, and ends it."""

    def __init__(self, about: str, mark: str, indent: int) -> None:
        self.mark, self.indent = mark, indent
        self._lines = CodeLines(about.split(" ")[0].strip("{}."))

    def is_ended_by(self, line: str) -> bool:
        words = line.strip()
        return len(words) >= len(self.mark) and words == self.mark[0] * len(words)

    def may_be_ended_by(self, line: str) -> bool:
        """The line is the beginning of one that ends the block."""
        words = line.strip()
        return words == self.mark[0] * len(words)

    def add(self, line: str) -> None:
        self._lines.add(line)

    def taken(self) -> list[list[Span]]:
        return self._lines.taken()
