"""The blocks of a text that grows, as rows: those that are finished, and how the rest looks so far."""

from __future__ import annotations

import re
from collections.abc import Callable

from clew.cli.ui.formatting import harmless
from clew.cli.ui.markdown.blocks import Code, Text
from clew.cli.ui.markdown.code import plain
from clew.cli.ui.markdown.lines import (
    MAX_LINE,
    Container,
    Opening,
    opening,
    within_quotes,
    without_indent,
)
from clew.cli.ui.markdown.rows import PLAIN, Row, Span, cells_of, merged, style
from clew.cli.ui.markdown.table import Table, is_row, is_rule

LEAST_COLUMNS = 20  # a terminal that is narrower breaks the rows itself
RULE_CELLS = 40
BULLET, BAR, LINE = "•", "│", "─"
HEADINGS = {"#": "bold underline", "##": "bold"}  # deeper ones are bold and italic

_PARTS = re.compile(r"[^\n]+|\n")


class Document:
    """One text. `columns` says how wide the terminal is now; `after_text`: it follows another text on the screen."""

    def __init__(self, columns: Callable[[], int], *, after_text: bool = False) -> None:
        self._columns = columns
        self._rows: list[Row] = []  # finished
        self._any = after_text  # there were rows
        self._blank: Row | None = () if after_text else None  # an empty line before the next row
        self._containers: list[Container] = []
        self._new: list[Container] = []  # those of them whose marker is not drawn yet
        self._leaf: Text | Code | Table | None = None
        self._head: str | None = None  # a line that is the head of a table if the next one is its rule
        self._line = ""  # the line that has come so far, unless it goes straight into a paragraph
        self._is_rest = False  # the beginning of this line has gone into a row
        self._in_line = False  # what comes belongs to the paragraph

    def feed(self, text: str) -> list[Row]:
        """The rows that are finished now."""
        for part in _PARTS.findall(harmless(text)):
            if part == "\n":
                self._end_line()
            elif self._in_line:
                self._paragraph().add(part)
            else:
                self._begin(part)
        return self._taken()

    def tail(self) -> list[Row]:
        """What follows the finished rows, as it would look if the text ended here."""
        rows: list[Row] = []
        if isinstance(self._leaf, Table):
            rows = [(*self._prefix(), *row) for row in self._leaf.preview()]
        elif isinstance(self._leaf, Text):
            rows = self._leaf.preview()
        for line in (self._head, self._line):
            rows += self._preview(line) if line else []
        return [self._blank, *rows] if rows and self._blank is not None else rows

    def break_off(self) -> list[Row]:
        """All rows so far. What comes next begins in a new one, wherever the text was cut."""
        if self._head is not None:
            self._end_head()
        line, self._line = self._line, ""
        if line.strip() and isinstance(self._leaf, Code) and not self._leaf.is_ended_by(line):
            self._code_line(line)
            self._is_rest = True
        elif line.strip():
            self._complete(line, whole=False)
        if isinstance(self._leaf, Text):
            self._leaf.end()
        elif isinstance(self._leaf, Table):
            self._leaf.fix()
        return self._taken()

    def end(self) -> list[Row]:
        """The rest of the rows."""
        if self._line or self._in_line:
            self._end_line()
        if self._head is not None:
            self._end_head()
        self._close_leaf()
        return self._taken()

    # Lines

    def _begin(self, part: str) -> None:
        """Some of a line whose kind may not be known yet."""
        while part:
            room = MAX_LINE - len(self._line)
            self._line += part[:room]
            part = part[room:]
            if isinstance(self._leaf, Code):
                if len(self._line) == MAX_LINE:
                    self._code_line(self._line)
                    self._line, self._is_rest = "", True
                continue
            if self._head is not None and len(self._line) < MAX_LINE and _may_be_rule(self._line):
                return
            found = opening(self._line, self._containers, in_text=self._in_text, final=len(self._line) == MAX_LINE)
            if found is not None and (found.kind == "text" or (found.kind == "heading" and found.text)):
                self._open(found)
                self._line, self._in_line = "", True
                self._paragraph().add(part)
                return

    def _end_line(self) -> None:
        line, self._line = self._line, ""
        if self._in_line:
            self._in_line = False
            self._paragraph().end_line()
            if self._paragraph().is_heading:
                self._close_leaf()
        elif self._is_rest and not line:
            pass
        elif line.strip() or isinstance(self._leaf, Code):
            self._complete(line, whole=True)
        else:
            self._empty_line()
        self._is_rest = False

    def _empty_line(self) -> None:
        if self._head is not None:
            self._end_head()
        self._close_leaf()
        for place, container in enumerate(self._containers):
            if container.is_quote:
                self._leave(place)
                break
        self._separate()

    def _complete(self, line: str, *, whole: bool) -> None:
        """A line that was kept until now. `whole` False: more of it may come."""
        if isinstance(self._leaf, Code):
            code = line if self._is_rest else within_quotes(line, self._containers)
            if code is not None and (self._is_rest or not self._leaf.is_ended_by(code)):
                self._code_line(code)
                return
            self._close_leaf()
            if code is not None:
                return
            if not line.strip():
                self._empty_line()
                return
        found = opening(line, self._containers, in_text=self._in_text, final=True)
        assert found is not None
        inside = found.matched == len(self._containers) and not found.containers
        if self._head is not None:
            if inside and is_rule(self._head, found.text):
                self._table(found.text)
                return
            self._end_head()
            found = opening(line, self._containers, in_text=self._in_text, final=True)
            assert found is not None
        if isinstance(self._leaf, Table) and inside and is_row(found.text):
            self._leaf.add(found.text)
            return
        if inside and found.kind == "text" and not found.text:  # an empty line in a quote
            self._close_leaf()
            self._separate()
            return
        self._open(found)
        self._in_line = found.kind in ("text", "heading")
        if self._in_line and whole:
            self._end_line()

    @property
    def _in_text(self) -> bool:
        return (isinstance(self._leaf, Text) and not self._leaf.is_heading) or self._head is not None

    # Blocks

    def _open(self, found: Opening) -> None:
        """Begins, or continues, what the line says."""
        if self._head is not None:
            self._end_head()
        if found.kind == "text" and self._in_text and not found.containers:  # even if it is not indented as far
            self._paragraph().add(found.text)
            return
        self._close_leaf()
        self._leave(found.matched)
        for container in found.containers:
            self._containers.append(container)
            self._new.append(container)
        match found.kind:
            case "text":
                self._leaf = Text(self._columns_left, *self._prefixes(), PLAIN)
                self._leaf.add(found.text)
            case "heading":
                self._separate()
                shown = style(HEADINGS.get(found.mark, "bold italic"))
                self._leaf = Text(self._columns_left, *self._prefixes(), shown, is_heading=True)
                self._leaf.add(found.text)
            case "rule":
                self._put([(LINE * self._rule_cells(), style("dim"))])
            case "fence":
                self._leaf = Code(found.text, found.mark, found.indent)
                label = f"{LINE * 3} {harmless(found.text)} " if found.text else ""
                self._put([(label + LINE * max(3, self._rule_cells() - cells_of([(label, PLAIN)])), style("dim"))])
            case "code":
                self._put(plain(found.text))
            case "table":
                self._head = found.text

    def _leave(self, matched: int) -> None:
        """Closes the containers that the line is not in."""
        del self._containers[matched:]
        self._new.clear()

    def _end_head(self) -> None:
        """The line is not the head of a table."""
        head, self._head = self._head or "", None
        self._leaf = Text(self._columns_left, *self._prefixes(), PLAIN)
        self._leaf.add(head)
        self._leaf.end_line()

    def _table(self, rule: str) -> None:
        head, self._head = self._head or "", None
        self._separate()
        self._leaf = Table(head, rule, self._columns_left() - cells_of(self._prefix()))

    def _code_line(self, line: str) -> None:
        assert isinstance(self._leaf, Code)
        self._leaf.add(line if self._is_rest else without_indent(line, self._leaf.indent))

    def _close_leaf(self) -> None:
        leaf = self._leaf
        if isinstance(leaf, Text):
            leaf.end()
        elif isinstance(leaf, Table):
            leaf.fix()
        self._collect()
        self._leaf = None
        if isinstance(leaf, Code):
            self._put([(LINE * self._rule_cells(), style("dim"))])
        if isinstance(leaf, Table):
            self._separate()

    def _paragraph(self) -> Text:
        assert isinstance(self._leaf, Text)
        return self._leaf

    # Rows

    def _taken(self) -> list[Row]:
        self._collect()
        rows, self._rows = self._rows, []
        return rows

    def _collect(self) -> None:
        """Takes the rows that the block has finished."""
        leaf = self._leaf
        if isinstance(leaf, Text):
            for row in leaf.taken():
                self._put_row(row)
        elif isinstance(leaf, Table):
            for row in leaf.taken():
                self._put(list(row))
        elif isinstance(leaf, Code):
            for line in leaf.taken():
                self._put(line)

    def _put(self, spans: list[Span]) -> None:
        """A row with what the containers put before it."""
        self._put_row(merged([*self._prefix(), *spans]))
        self._new.clear()

    def _put_row(self, row: Row) -> None:
        if self._blank is not None:
            self._rows.append(self._blank)
        self._rows.append(row)
        self._blank, self._any = None, True

    def _separate(self) -> None:
        """There is an empty line before the next row. It has the bars of the quotes that it is in."""
        if self._any and self._blank is None and not self._new:
            self._blank = tuple(span for span in self._prefix() if span[0].strip()) or ()

    def _prefixes(self) -> tuple[list[Span], list[Span]]:
        """What is before the first row of a paragraph, and before its other rows. The markers count as drawn."""
        first = self._prefix()
        self._new.clear()
        return first, self._prefix()

    def _prefix(self) -> list[Span]:
        spans: list[Span] = []
        for container in self._containers:
            is_new = any(container is each for each in self._new)
            if container.is_quote:
                spans.append((f"{BAR} ", style("dim")))
                continue
            marker = BULLET if container.marker in "-+*" else container.marker
            spans.append((f"{marker} " if is_new else " " * (len(marker) + 1), style("cyan") if is_new else PLAIN))
        while spans and cells_of(spans) > self._columns_left() // 2:
            del spans[0]  # too deep for this terminal
        return spans

    def _columns_left(self) -> int:
        return max(LEAST_COLUMNS, self._columns())

    def _rule_cells(self) -> int:
        return max(3, min(RULE_CELLS, self._columns() - cells_of(self._prefix())))

    def _preview(self, line: str) -> list[Row]:
        """A line whose kind is not known. Markers are not shown before it is."""
        if isinstance(self._leaf, Code):
            code = line if self._is_rest else within_quotes(line, self._containers)
            shown = code if code is not None and not self._leaf.may_be_ended_by(code) else ""
            return [(*self._prefix(), *plain(without_indent(shown, self._leaf.indent)))] if shown else []
        if not line.lstrip(" >").startswith("|"):
            return []
        return [(*self._prefix(), (line.strip()[: self._columns_left() - cells_of(self._prefix())], PLAIN))]


def _may_be_rule(line: str) -> bool:
    return not line.strip("|:- \t>")
