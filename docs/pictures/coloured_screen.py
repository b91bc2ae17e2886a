"""A terminal's screen with its colours, as an image. Colours are what the control sequences `ESC [ … m` say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from typing import Self

from turns.outside.screen import Screen

INK, PAPER = "#d8dee9", "#1e222a"
DIM = 0.6  # the opacity of dimmed text
PALETTE = (
    *("#3b4252", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d8dee9"),
    *("#6b7280", "#ff7b86", "#b5e890", "#ffd58a", "#82c4ff", "#dd9bf0", "#7fd6e0", "#ffffff"),
)
CELL_WIDTH, LINE_HEIGHT, FONT_SIZE, EDGE = 8.4, 19, 14, 14
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"  # what the reader's machine has


@dataclass(frozen=True)
class Style:
    ink: str = INK
    paper: str | None = None
    bold: bool = False
    dim: bool = False
    italic: bool = False
    underlined: bool = False
    inverse: bool = False


PLAIN = Style()


class Cell(str):
    """A character with its style."""

    style = PLAIN

    @classmethod
    def of(cls, character: str, style: Style) -> Self:
        cell = cls(character)
        cell.style = style
        return cell


class ColouredScreen(Screen):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(columns, rows)
        self._style = PLAIN

    def _put(self, character: str) -> None:
        super()._put(character)
        if character >= " ":
            self._lines[self._row][self._column - 1] = Cell.of(character, self._style)

    def _obey(self, command: str, arguments: str) -> None:
        if command == "m" and arguments[:1] not in ("?", ">"):
            self._style = styled(self._style, [int(each or 0) for each in arguments.replace(":", ";").split(";")])
        else:
            super()._obey(command, arguments)

    def svg_lines(self) -> list[str]:
        """The lines of the screen: each one a piece of SVG, empty where nothing is shown."""
        return ["".join(_pieces(line, number)) for number, line in enumerate(self._lines)]


def styled(style: Style, codes: Sequence[int]) -> Style:
    left = list(codes)
    while left:
        match left.pop(0):
            case 0:
                style = PLAIN
            case 1:
                style = replace(style, bold=True)
            case 2:
                style = replace(style, dim=True)
            case 3:
                style = replace(style, italic=True)
            case 4:
                style = replace(style, underlined=True)
            case 7:
                style = replace(style, inverse=True)
            case 22:
                style = replace(style, bold=False, dim=False)
            case 23:
                style = replace(style, italic=False)
            case 24:
                style = replace(style, underlined=False)
            case 27:
                style = replace(style, inverse=False)
            case 38 | 48 as code:
                colour = _extended(left)
                style = replace(style, ink=colour) if code == 38 else replace(style, paper=colour)
            case 39:
                style = replace(style, ink=INK)
            case 49:
                style = replace(style, paper=None)
            case code if 30 <= code <= 37 or 90 <= code <= 97:
                style = replace(style, ink=PALETTE[code - 30 if code < 90 else code - 82])
            case code if 40 <= code <= 47 or 100 <= code <= 107:
                style = replace(style, paper=PALETTE[code - 40 if code < 100 else code - 92])
    return style


def _extended(left: list[int]) -> str:
    """The colour of `38;5;N` or `38;2;R;G;B`, without the first number."""
    kind = left.pop(0)
    if kind == 2:
        red, green, blue = left.pop(0), left.pop(0), left.pop(0)
        return f"#{red:02x}{green:02x}{blue:02x}"
    number = left.pop(0)
    if number < 16:
        return PALETTE[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    steps = (0, 95, 135, 175, 215, 255)
    red, green, blue = (steps[(number - 16) // by % 6] for by in (36, 6, 1))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _pieces(line: Sequence[str], number: int) -> Iterator[str]:
    """A text for each stretch of one style, on its own place: so the grid holds in any font."""
    top = EDGE + number * LINE_HEIGHT
    column = 0
    for style, cells in groupby(line, lambda cell: getattr(cell, "style", PLAIN)):
        text = "".join(cells)
        start, column = column, column + len(text)
        ink, paper = (style.paper or PAPER, style.ink) if style.inverse else (style.ink, style.paper)
        if paper is not None:
            yield f'<rect x="{_x(start)}" y="{top}" width="{len(text) * CELL_WIDTH:g}" height="{LINE_HEIGHT}" '
            yield f'fill="{paper}"/>'
        if text.strip():
            lead = len(text) - len(text.lstrip())
            shown = text.strip()
            attributes = [f'fill="{ink}"'] if ink != INK else []
            attributes += ['font-weight="bold"'] if style.bold else []
            attributes += [f'opacity="{DIM}"'] if style.dim else []
            attributes += ['font-style="italic"'] if style.italic else []
            attributes += ['text-decoration="underline"'] if style.underlined else []
            place = f'x="{_x(start + lead)}" y="{top + FONT_SIZE}" textLength="{len(shown) * CELL_WIDTH:g}"'
            yield f"<text {' '.join([place, *attributes])}>{escape(shown)}</text>"


def _x(column: int) -> str:
    return f"{EDGE + column * CELL_WIDTH:g}"
