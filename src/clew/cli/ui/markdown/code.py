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
CONTEXT_LINES = 200  # before a line, which say what it is: it may be in a text or a comment of several lines
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
        self._context = [*self._context, *lines]
        if len(self._context) > CONTEXT_LINES:
            del self._context[: -CONTEXT_LINES // 2]
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

        return Syntax("", self._language).lexer if self._language else None

    @cached_property
    def _theme(self) -> SyntaxTheme:
        from rich.syntax import Syntax

        return Syntax.get_theme(THEME)


def plain(line: str) -> list[Span]:
    return [(harmless(line), PLAIN)]
