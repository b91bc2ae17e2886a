"""Rows on a terminal: those that stay, and the tail below them, which is drawn again when it changes.

The cursor is left at the end of the tail. A tail that only grows is not erased: what is new is written after it. Only
lines of the tail are ever erased, and never more of it than fits on the screen.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from rich.control import Control
from rich.segment import ControlType

from clew.cli.ui.markdown.rows import Row, height_of, painted, text_of
from clew.cli.ui.printing import has_colours
from clew.cli.ui.safe_stream import unguarded

if TYPE_CHECKING:
    from typing import TextIO

COLUMNS, LINES = 80, 24  # if the terminal does not say
MARGIN = 1  # columns that stay empty: terminals differ in what they do at the end of a full line
ABOVE = 2  # lines of the screen that the tail leaves


class Drawing:
    def __init__(self, out: TextIO) -> None:
        self._out = unguarded(out)
        self._colours = has_colours(out)
        self._tail: list[Row] = []
        self._heights: list[int] = []  # of its rows, when they were drawn

    @property
    def at_line_start(self) -> bool:
        return not self._tail

    def columns(self) -> int:
        return columns_of(self._out)

    def show(self, rows: Sequence[Row], tail: Sequence[Row] = ()) -> None:
        """Draws the rows where the tail was, and the new tail below them."""
        columns, lines = _size(self._out)
        kept = _last(tail, columns, max(1, lines - ABOVE))
        wanted = [*rows, *kept]
        old, same = self._tail, _in_common(self._tail, wanted)
        if kept and same == len(wanted):
            same -= 1  # the cursor belongs at the end of this row
        if same == len(old):
            text = "\n" if old and wanted[same:] else ""
        elif same == len(old) - 1 and wanted[same:] and _continues(old[same], wanted[same]):
            text = self._painted(_added(old[same], wanted[same]))
            same += 1
            text += "\n" if wanted[same:] else ""
        else:
            heights = zip(self._heights[same:], old[same:], strict=True)
            text = _erased(sum(min(height, height_of(text_of(row), columns)) for height, row in heights))
        text += "\n".join(self._painted(row) for row in wanted[same:])
        if not kept and (wanted[same:] or (wanted and len(old) <= same)):
            text += "\n"
        self._tail, self._heights = kept, [height_of(text_of(row), columns) for row in kept]
        if text:
            self._out.write(text)
            self._out.flush()

    def _painted(self, row: Row) -> str:
        return painted(row, colours=self._colours)


def columns_of(out: TextIO) -> int:
    """How many columns a row may take."""
    return max(1, _size(out)[0] - MARGIN)


def _size(out: TextIO) -> tuple[int, int]:
    try:
        size = os.get_terminal_size(out.fileno())
    except (OSError, ValueError):
        return COLUMNS, LINES
    return size.columns or COLUMNS, size.lines or LINES


def _erased(lines: int) -> str:
    """Erases the last lines, and moves the cursor to the beginning of the first of them."""
    erase = (ControlType.ERASE_IN_LINE, 2)
    return str(Control(ControlType.CARRIAGE_RETURN, erase, *[(ControlType.CURSOR_UP, 1), erase] * (lines - 1)))


def _in_common(old: Sequence[Row], new: Sequence[Row]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))


def _continues(old: Row, new: Row) -> bool:
    """True if the new row is the old one with more at its end."""
    if not old:
        return True
    last = len(old) - 1
    return (
        len(new) > last
        and old[:last] == new[:last]
        and old[last][1] == new[last][1]
        and new[last][0].startswith(old[last][0])
    )


def _added(old: Row, new: Row) -> Row:
    if not old:
        return new
    last = len(old) - 1
    return ((new[last][0][len(old[last][0]) :], new[last][1]), *new[last + 1 :])


def _last(rows: Sequence[Row], columns: int, lines: int) -> list[Row]:
    """The last of the rows, as many as fit into so many lines."""
    kept: list[Row] = []
    for row in reversed(rows):
        lines -= height_of(text_of(row), columns)
        if lines < 0:
            break
        kept.insert(0, row)
    if rows and not kept:  # a row that is higher than the screen
        text = text_of(rows[-1])
        kept.append((("…" + text[-max(1, (lines + height_of(text, columns)) * columns // 2) :], rows[-1][0][1]),))
    return kept
