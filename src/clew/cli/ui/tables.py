"""Plain tables: complete in a pipe, fitted to the width of a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from clew.cli.ui.formatting import harmless

TYPED_BACK = ("ID", "NAME", "PAIR", "RUN", "THREAD", "KEY", "QID", "SETTING")  # never cut: the user types them back
PATHS = ("DIRECTORY", "REPOSITORY", "WORK TREE", "FILE", "FROM", "PROJECT")  # cut at their beginning
MIN_CELLS = 12  # the least width of a column that may be cut


def columns(header: Sequence[str], rows: Iterable[Sequence[str]], *, optional: Sequence[str] = ()) -> str:
    """The rows as lines. `optional`: the columns that are left out on a narrow terminal, in this order."""
    table = [list(header), *([_in_line(cell) for cell in row] for row in rows)]
    room = _room()
    widths = [max(map(cells, column)) for column in zip(*table, strict=True)]
    if room is not None:
        for heading in optional:
            if _taken(_least(table[0], widths)) <= room:
                break
            place = table[0].index(heading)
            table = [row[:place] + row[place + 1 :] for row in table]
            del widths[place]
        widths = _narrowed(table[0], widths, room)
        backwards = [heading in PATHS for heading in table[0]]
        table = [[cut(*cell) for cell in zip(row, widths, backwards, strict=True)] for row in table]
    lines = (
        "  ".join(cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)) for row in table
    )
    return "\n".join(line.rstrip() for line in lines)


def _in_line(cell: str) -> str:
    """Keeps a row on one line, whatever its cells contain."""
    return harmless(cell).replace("\n", "␊").replace("\t", "␉")


def _room() -> int | None:
    if not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def _taken(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _least(header: Sequence[str], widths: Sequence[int]) -> list[int]:
    """The least width of each column. A column whose values the user types back is not cut."""
    return [
        width if heading in TYPED_BACK else min(width, max(len(heading), MIN_CELLS))
        for heading, width in zip(header, widths, strict=True)
    ]


def _narrowed(header: Sequence[str], widths: Sequence[int], room: int) -> list[int]:
    """The widths that fit into `room`: the widest column is cut first."""
    least, found = _least(header, widths), list(widths)
    while _taken(found) > room and found != least:
        widest = max((place for place, width in enumerate(found) if width > least[place]), key=found.__getitem__)
        found[widest] -= 1
    return found


def cut(text: str, width: int, backwards: bool = False) -> str:
    """The text, cut to `width` cells. `backwards`: keeps the end of the text, for a path."""
    if cells(text) <= width:
        return text
    kept = text[::-1] if backwards else text
    while cells(kept) > width - 1:
        kept = kept[:-1]
    return f"…{kept[::-1]}" if backwards else f"{kept}…"


def cells(text: str) -> int:
    """The width of the text on a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)
