"""A table: columns that fit the terminal, with cells that are wrapped by words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.cli.ui.markdown.flow import Flow
from clew.cli.ui.markdown.passage import spans_of
from clew.cli.ui.markdown.rows import PLAIN, Row, Span, cells_of, style

if TYPE_CHECKING:
    from rich.style import Style

MEASURED_ROWS = 30  # the widths of the columns come from these. Further rows are printed as they come
LEAST_CELLS = 8  # the width to which a column may be narrowed
BETWEEN = " │ "

_BAR = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r"<br ?/?>")  # the only way to have two lines in a cell
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")


def is_row(line: str) -> bool:
    return line.lstrip().startswith("|")


def is_rule(head: str, line: str) -> bool:
    """True for `| --- | ---: |` below the head of a table."""
    return _RULE.fullmatch(line) is not None and len(_split(line)) == len(_split(head))


class Table:
    def __init__(self, head: str, rule: str, columns: int) -> None:
        self._columns = columns  # of the terminal that the table may use
        self._rows = [_cells(head, style("bold"))]
        self._ends = [cell.strip().endswith(":") for cell in _split(rule)]  # these columns are aligned at their end
        self._starts = [cell.strip().startswith(":") for cell in _split(rule)]
        self._widths: list[int] | None = None  # once they do not change any more
        self._printed = 0  # rows
        self._drawn: list[Row] | None = None

    def add(self, line: str) -> None:
        row, count = _cells(line, PLAIN), len(self._rows[0])
        for cell in row[count:]:  # more cells than the table has columns
            row[count - 1] += [(" | ", PLAIN), *cell]
        self._rows.append(row[:count])
        self._drawn = None
        if len(self._rows) > MEASURED_ROWS:
            self.fix()

    def fix(self) -> None:
        """From now on the widths do not change, so the rows can be printed."""
        if self._widths is None:
            self._widths = self._measured()

    def taken(self) -> list[Row]:
        """The rows that will not change any more, once."""
        if self._widths is None:
            return []
        rows = self._lines(self._widths, self._printed)
        self._printed = 1
        self._rows = self._rows[:1]  # the head names the cells if the columns do not fit
        return rows

    def preview(self) -> list[Row]:
        """The rows that were not taken, as they would look if the table ended here."""
        if self._drawn is None:
            self._drawn = self._lines(self._widths or self._measured(), self._printed)
        return self._drawn

    def _measured(self) -> list[int]:
        """The widths of the columns; none: they do not fit side by side."""
        count = len(self._rows[0])
        widths = [max(cells_of(row[place]) for row in self._rows if place < len(row)) for place in range(count)]
        room = self._columns - len(BETWEEN) * (count - 1)
        least = [min(width, LEAST_CELLS) for width in widths]
        if sum(least) > room:
            return []
        while sum(widths) > room:
            widest = max((place for place in range(count) if widths[place] > least[place]), key=widths.__getitem__)
            widths[widest] -= 1
        return widths

    def _lines(self, widths: Sequence[int], begin: int) -> list[Row]:
        lines: list[Row] = []
        for number, row in enumerate(self._rows[begin:], begin):
            if not widths:
                lines += self._record(row) if number else []
                continue
            lines += self._side_by_side(row, widths)
            if number == 0:
                lines.append((("─┼─".join("─" * width for width in widths), style("dim")),))
        if not widths and len(self._rows) == 1 and not begin:
            lines += self._record(self._rows[0])
        return lines

    def _side_by_side(self, row: Sequence[list[Span]], widths: Sequence[int]) -> list[Row]:
        cells = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=False)]
        lines = []
        for number in range(max((len(cell) for cell in cells), default=0)):
            line: list[Span] = []
            for place, width in enumerate(widths):
                shown = cells[place][number] if place < len(cells) and number < len(cells[place]) else ()
                left = width - cells_of(shown)
                before = (left // 2 if self._starts[place] else left) if self._ends[place] else 0
                line += [(BETWEEN, style("dim"))] if place else []
                line += [(" " * before, PLAIN), *shown, (" " * (left - before), PLAIN)]
            lines.append(_without_end(line))
        return lines

    def _record(self, row: Sequence[list[Span]]) -> list[Row]:
        """The cells below each other, each with the head of its column."""
        lines: list[Row] = []
        for place, cell in enumerate(row):
            head = self._rows[0][place] if place < len(self._rows[0]) and row is not self._rows[0] else []
            flow = Flow(lambda: self._columns, [], [("  ", PLAIN)], breaks=True)
            flow.add([*head, *([(": ", PLAIN)] if head else []), *cell])
            flow.newline()
            lines += flow.taken()
        return [*lines, ()]


def _split(line: str) -> list[str]:
    words = line.strip().removeprefix("|")
    if words.endswith("|") and not words.endswith("\\|"):
        words = words[:-1]
    return _BAR.split(words)


def _cells(line: str, shown: Style) -> list[list[Span]]:
    return [spans_of(_BREAK.sub("\n", cell.strip().replace("\\|", "|")), shown) for cell in _split(line)]


def _wrapped(cell: list[Span], width: int) -> list[Row]:
    flow = Flow(lambda: width, [], [], breaks=True)
    flow.add(cell)
    flow.newline()
    return flow.taken()


def _without_end(line: list[Span]) -> Row:
    """Without the spaces at its end."""
    while line and not line[-1][0].strip():
        line.pop()
    return tuple(line)
