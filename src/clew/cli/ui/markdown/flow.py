"""Wraps styled words into rows. A row that is full leaves the flow; the one that is being filled can be looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from clew.cli.ui.markdown.rows import Row, Span, cells_of, merged, width_of

if TYPE_CHECKING:
    from rich.style import Style

LONGEST_WORD = 1_000  # characters. A longer one is broken
_PARTS = re.compile(r"\n|[ \t]+|[^ \t\n]+")
_CLOSING = "、。，．！？）」』】》：；"  # they do not begin a row
_JOINER = "\u200d"


class Flow:
    """`first` begins the first row, `rest` all others. `breaks`: a word that is too long for a row is cut; otherwise
    the terminal breaks it, and it can be copied as a whole."""

    def __init__(
        self, columns: Callable[[], int], first: Iterable[Span], rest: Iterable[Span], *, breaks: bool = False
    ) -> None:
        self._columns = columns
        self._begin, self._rest = list(first), list(rest)
        self._breaks = breaks
        self._row: list[Span] = []
        self._row_cells = 0
        self._word: list[Span] = []
        self._gap: Span | None = None  # the space before the word
        self._rows: list[Row] = []  # complete

    def preview(self, spans: Iterable[Span]) -> list[Row]:
        """The rows that are not complete, as they would be if the text ended with the spans."""
        saved = self._begin, [*self._row], self._row_cells, [*self._word], self._gap, self._rows
        self._rows = []
        self.add(spans)
        self.newline()
        rows = self._rows
        self._begin, self._row, self._row_cells, self._word, self._gap, self._rows = saved
        return rows

    def add(self, spans: Iterable[Span]) -> None:
        for text, shown in spans:
            for part in _PARTS.findall(text):
                if part == "\n":
                    self.newline()
                elif part[0] in " \t":
                    self._end_word()
                    self._gap = (" ", shown)
                else:
                    for piece in _pieces(part):
                        self._add_to_word(piece, shown)

    def newline(self) -> None:
        """Ends the row, if there is one."""
        self._end_word()
        self._gap = None
        if self._row:
            self._end_row()

    def taken(self) -> list[Row]:
        """The rows that are complete, once."""
        rows, self._rows = self._rows, []
        return rows

    def _add_to_word(self, piece: str, shown: Style) -> None:
        if self._word and _may_break(self._word[-1][0], piece):
            self._end_word()
        self._word.append((piece, shown))
        limit = max(1, self._room()) if self._breaks else LONGEST_WORD
        while sum(len(text) for text, _ in self._word) > limit:
            self._cut_word(limit)

    def _cut_word(self, limit: int) -> None:
        """Makes a row of the beginning of the word."""
        whole = self._word
        self._word, kept, left = [], [], limit
        for text, shown in whole:
            kept.append((text[:left], shown))
            if text[left:]:
                self._word.append((text[left:], shown))
            left = max(0, left - len(text))
        rest, self._word = self._word, [span for span in kept if span[0]]
        self._end_word()
        self._end_row()
        self._word = rest

    def _end_word(self) -> None:
        if not self._word:
            return
        cells = cells_of(self._word)
        if self._row and self._row_cells + (self._gap is not None) + cells > self._room():
            self._end_row()
        if self._row and self._gap is not None:
            self._row.append(self._gap)
            self._row_cells += 1
        self._row += self._word
        self._row_cells += cells
        self._word, self._gap = [], None

    def _end_row(self) -> None:
        self._rows.append(merged([*self._begin, *self._row]))
        self._begin, self._row, self._row_cells = self._rest, [], 0

    def _room(self) -> int:
        return self._columns() - cells_of(self._begin)


def _pieces(word: str) -> Iterator[str]:
    """A word is not broken, except where characters are as wide as two: they need no spaces between them."""
    if word.isascii():
        yield word
        return
    piece = ""
    for character in word:
        if piece and _may_break(piece, character):
            yield piece
            piece = ""
        piece += character
    yield piece


def _may_break(before: str, after: str) -> bool:
    if (before + after[:1]).isascii() or before[-1] == _JOINER or after[0] in _CLOSING or width_of(after[0]) == 0:
        return False
    last = next((each for each in reversed(before) if width_of(each)), " ")
    return width_of(after[0]) == 2 or width_of(last) == 2
