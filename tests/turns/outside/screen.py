"""What a terminal shows: text and control sequences in, lines out. Enough of xterm for the TUIs of the agents.

A TUI redraws only what has changed, so the text of its output is not the text on the screen: of a word, it may write
two letters, because the others are there already.
"""

from __future__ import annotations

import re
from typing import Final

from rich.cells import cell_len

ROWS: Final = 40
COLUMNS: Final = 120

_PIECE: Final = re.compile(
    r"\x1b\[(?P<arguments>[0-9;:?<>=!$]*) ?(?P<command>[@-~])"
    r"|\x1b[\]P_^X].*?(?:\x07|\x1b\\)"  # a title, a link, a query
    r"|\x1b[()*+#%]."
    r"|\x1b(?P<escape>[^\[\]P_^X()*+#%])"
    r"|(?P<character>[^\x1b])",
    re.DOTALL,
)


class Screen:
    """A screen without colours. Lines that scroll out at its top are in `history`."""

    def __init__(self, columns: int = COLUMNS, rows: int = ROWS) -> None:
        self._columns, self._rows = columns, rows
        self.history: list[str] = []
        self._lines = [self._blank() for _ in range(rows)]
        self._row = self._column = 0
        self._top, self._bottom = 0, rows  # the region that scrolls
        self._saved = (0, 0)
        self._rest = ""  # the beginning of a sequence that is not complete yet

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._lines).rstrip()

    @property
    def everything(self) -> str:
        """The screen with what has scrolled out of it."""
        return "\n".join([*self.history, self.text]).rstrip()

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._rows, self._columns

    @property
    def cursor(self) -> tuple[int, int]:
        """Its row and column, as a terminal reports them: the first is 1."""
        return self._row + 1, min(self._column, self._columns - 1) + 1

    def resize(self, columns: int, rows: int) -> None:
        """As terminals do it that break lines which have become too long. The cursor is in the last line with text."""
        lines = self._lines[: self._row + 1]
        self._columns, self._rows = columns, rows
        self._top, self._bottom = 0, rows
        broken = [
            line[start : start + columns]
            for line in lines
            for start in range(0, max(1, len("".join(line).rstrip())), columns)
        ]
        self.history += ["".join(line).rstrip() for line in broken[:-rows]]
        kept = [[*line, *self._blank()][:columns] for line in broken[-rows:]]
        self._lines = [*kept, *(self._blank() for _ in range(rows - len(kept)))]
        self._row, self._column = len(kept) - 1, len("".join(kept[-1]).rstrip())

    def _blank(self) -> list[str]:
        return [" "] * self._columns

    def write(self, text: str) -> None:
        text, at = self._rest + text, 0
        while at < len(text) and (piece := _PIECE.match(text, at)) is not None:
            at = piece.end()
            if piece["character"] is not None:
                self._put(piece["character"])
            elif piece["command"] is not None:
                self._obey(piece["command"], piece["arguments"])
            elif piece["escape"] is not None:
                self._escape(piece["escape"])
        self._rest = text[at:]

    def _put(self, character: str) -> None:
        match character:
            case "\r":
                self._column = 0
            case "\n":
                self._down()
            case "\b":
                self._column = max(0, self._column - 1)
            case "\t":
                self._column = min((self._column // 8 + 1) * 8, self._columns - 1)
            case _ if character >= " ":
                self._put_cells(character, cell_len(character))

    def _put_cells(self, character: str, cells: int) -> None:
        if not cells:  # it joins the character before it
            self._lines[self._row][max(0, self._column - 1)] += character
            return
        if self._column + cells > self._columns:
            self._column = 0
            self._down()
        self._lines[self._row][self._column : self._column + cells] = [character, *[""] * (cells - 1)]
        self._column += cells

    def _down(self) -> None:
        if self._row == self._bottom - 1:
            self._scroll(1)
        else:
            self._row = min(self._row + 1, self._rows - 1)

    def _scroll(self, lines: int, top: int | None = None) -> None:
        top = self._top if top is None else top
        for _ in range(abs(lines)):
            if lines > 0 and top == 0:
                self.history.append("".join(self._lines[0]).rstrip())
            del self._lines[top if lines > 0 else self._bottom - 1]
            self._lines.insert(self._bottom - 1 if lines > 0 else top, self._blank())

    def _escape(self, command: str) -> None:
        match command:
            case "M" if self._row == self._top:
                self._scroll(-1)
            case "M":
                self._row = max(0, self._row - 1)
            case "7":
                self._saved = (self._row, self._column)
            case "8":
                self._row, self._column = self._saved

    def _obey(self, command: str, arguments: str) -> None:
        if arguments[:1] in ("?", "<", ">", "=", "!"):
            return  # a mode of the terminal
        numbers = [int(each) if each.isdigit() else 0 for each in arguments.split(";")]
        count = numbers[0] or 1
        match command:
            case "H" | "f":
                self._row, self._column = count - 1, (numbers[1] or 1) - 1 if len(numbers) > 1 else 0
            case "A" | "F":
                self._row -= count
            case "B" | "E":
                self._row += count
            case "C":
                self._column += count
            case "D":
                self._column -= count
            case "G":
                self._column = count - 1
            case "d":
                self._row = count - 1
            case "r":
                self._top = count - 1
                self._bottom = numbers[1] if len(numbers) > 1 and numbers[1] else self._rows
                self._row = self._column = 0
            case _:
                self._change(command, numbers[0], count)
        if command in "EF":
            self._column = 0
        self._row = min(max(0, self._row), self._rows - 1)
        self._column = min(max(0, self._column), self._columns)

    def _change(self, command: str, which: int, count: int) -> None:
        """The commands that erase, insert or move text. Colours and the rest are ignored."""
        match command:
            case "J":
                before, after = range(self._row), range(self._row + 1, self._rows)
                for row in {0: [*after], 1: [*before]}.get(which, [*before, *after]):
                    self._lines[row] = self._blank()
                self._erase(which)
            case "K":
                self._erase(which)
            case "X":
                self._wipe(self._column, self._column + count)
            case "P":
                line = self._lines[self._row]
                del line[self._column : self._column + count]
                line.extend(" " * (self._columns - len(line)))
            case "@":
                line = self._lines[self._row]
                line[self._column : self._column] = " " * count
                del line[self._columns :]
            case "L" | "M":
                self._scroll(-count if command == "L" else count, self._row)
            case "S" | "T":
                self._scroll(count if command == "S" else -count)

    def _erase(self, which: int) -> None:
        start, end = {0: (self._column, self._columns), 1: (0, self._column + 1)}.get(which, (0, self._columns))
        self._wipe(start, end)

    def _wipe(self, start: int, end: int) -> None:
        for column in range(start, min(end, self._columns)):
            self._lines[self._row][column] = " "
