"""The one stream through which text reaches the terminal.

Views make what others wrote harmless where they print it. This stream is for what they miss: it lets colours through,
and shows every other control character as a visible one. So nothing that Clew prints can move the cursor, set the title
of the window or write to the clipboard. What draws on purpose, the status line for example, takes the stream below it.
"""

from __future__ import annotations

import re
from typing import Any, TextIO

from clew.cli.ui.formatting import CONTROL_CHARACTERS, symbol

# Bold, dim, italic, underlined, inverse, struck and their ends, and the sixteen colours of text. Not among them are
# those that can hide text: invisible, and colours of the background.
_COLOUR = "(?:0|[1-4]|7|9|2[2-79]|3[0-79]|9[0-7])"
_COLOURS = rf"\x1b\[{_COLOUR}?(?:;{_COLOUR})*m"


class SafeStream:
    """Stands for a text stream whose output is a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream
        self._pattern = re.compile(rf"({_COLOURS})|{CONTROL_CHARACTERS}")

    def write(self, text: str) -> int:
        self.unguarded.write(self._pattern.sub(lambda found: found[1] or symbol(found[0]), text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guarded(stream: TextIO) -> TextIO:
    """The stream, through which only colours reach a terminal."""
    return SafeStream(stream) if stream.isatty() else stream  # type: ignore[return-value]


def unguarded(stream: TextIO) -> TextIO:
    """The stream below: for what draws on the terminal, and makes its texts harmless itself."""
    found: TextIO = getattr(stream, "unguarded", stream)
    return found
