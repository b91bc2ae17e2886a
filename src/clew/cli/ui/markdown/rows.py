"""Rows of styled text: what is drawn, and how many lines of the terminal it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style

Span = tuple[str, Style]  # the text has no control characters but tabs
Row = tuple[Span, ...]

PLAIN = Style.null()
TAB_CELLS = 8


@lru_cache(maxsize=64)
def style(definition: str) -> Style:
    return Style.parse(definition)


@lru_cache(maxsize=256)
def combined(one: Style, other: Style) -> Style:
    return one + other


def merged(spans: Iterable[Span]) -> Row:
    """Neighbours of one style are one span."""
    found: list[Span] = []
    for text, shown in spans:
        if found and found[-1][1] == shown:
            found[-1] = (found[-1][0] + text, shown)
        elif text:
            found.append((text, shown))
    return tuple(found)


def text_of(spans: Iterable[Span]) -> str:
    return "".join(text for text, _ in spans)


def painted(spans: Sequence[Span], *, colours: bool) -> str:
    """The spans as they are written to a terminal. rich makes the colour codes."""
    if not colours:
        return text_of(spans)
    return "".join(style.render(text, color_system=ColorSystem.STANDARD) for text, style in spans if text)


def cells_of(spans: Iterable[Span]) -> int:
    return width_of(text_of(spans))


def width_of(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def height_of(text: str, columns: int) -> int:
    """How many lines the text takes on a terminal, which breaks a row that is longer than the terminal is wide."""
    if text.isascii() and "\t" not in text:
        return max(1, -(-len(text) // columns))
    lines, column = 1, 0
    for character in text:
        taken = TAB_CELLS - column % TAB_CELLS if character == "\t" else width_of(character)
        if character == "\t":
            column = min(column + taken, columns - 1)  # a tab does not leave its line
        elif column + taken > columns:
            lines, column = lines + 1, taken
        else:
            column += taken
    return lines
