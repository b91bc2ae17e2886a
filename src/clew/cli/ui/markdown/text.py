"""A complete text as rendered Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.cli.ui.markdown.document import Document
from clew.cli.ui.markdown.drawing import columns_of
from clew.cli.ui.markdown.rows import painted
from clew.cli.ui.printing import has_colours

if TYPE_CHECKING:
    from typing import TextIO


def rendered(text: str, out: TextIO, *, indent: str = "") -> str:
    """The text as it is written to that terminal, without a newline at its end."""
    document = Document(lambda: columns_of(out) - len(indent))
    rows = [*document.feed(text.replace("\r\n", "\n")), *document.end()]
    colours = has_colours(out)
    return "\n".join(f"{indent}{painted(row, colours=colours)}" if row else "" for row in rows)
