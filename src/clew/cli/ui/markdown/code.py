"""The lines of a code block, with syntax colours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from clew.cli.ui.formatting import harmless
from clew.cli.ui.markdown.rows import PLAIN, Span

if TYPE_CHECKING:
    from rich.syntax import SyntaxTheme

THEME = "ansi_dark"  # the colours of the terminal itself
# The lines before a line say what it is: it may be in a text or a comment of several lines. From here on the context
# begins anew where a paragraph of the code begins that is not indented, and at the latest after MOST_LINES.
CONTEXT_LINES, MOST_LINES = 50, 200
LONGEST_LINE = 500  # characters. Longer ones, such as minified code, have no colours


class CodeLines:
    def __init__(self, language: str) -> None:
        self._language = language
        self._context: list[str] = []
        self._waiting: list[str] = []

    def add(self, line: str) -> None:
        self._waiting.append(line)

    def taken(self) -> list[list[Span]]:
        """The lines that were added since the last time. They are looked at together: the context is read once."""
        lines, self._waiting = self._waiting, []
        if not lines:
            return []
        if self._lexer is None or any(len(line) > LONGEST_LINE for line in lines):
            self._context.clear()
            return [plain(line) for line in lines]
        found = list(self._coloured([*self._context, *lines]))[len(self._context) :]
        self._context = _shortened([*self._context, *lines])
        return found

    def _coloured(self, lines: list[str]) -> Iterator[list[Span]]:
        line: list[Span] = []
        count = 0
        for kind, text in self._lexer.get_tokens("\n".join(lines)):
            shown = self._theme.get_style_for_token(kind)
            for place, part in enumerate(text.split("\n")):
                if place:
                    yield line
                    line, count = [], count + 1
                if part:
                    line.append((harmless(part), shown))
        if count < len(lines):
            yield line

    @cached_property
    def _lexer(self) -> Any:
        from rich.syntax import Syntax

        return Syntax("", self._language, tab_size=0).lexer if self._language else None

    @cached_property
    def _theme(self) -> SyntaxTheme:
        from rich.syntax import Syntax

        return Syntax.get_theme(THEME)


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= CONTEXT_LINES:
        return lines
    for place in range(len(lines) - 1, 0, -1):
        if lines[place][:1].strip() and not lines[place - 1].strip():
            return lines[place:]
    return lines if len(lines) <= MOST_LINES else lines[-CONTEXT_LINES:]


def plain(line: str) -> list[Span]:
    return [(harmless(line), PLAIN)]
