"""Whose placeholders a command's file has. In a module of its own, because every turn loads it."""

from __future__ import annotations

from enum import StrEnum


class FileSyntax(StrEnum):
    """Whose placeholders a file has."""

    CLAUDE = "claude"
    CODEX = "codex"
