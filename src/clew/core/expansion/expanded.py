"""A prompt after its expansion. What expands prompts is only loaded for a prompt that may need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.core.record import Record

if TYPE_CHECKING:
    from clew.core.images import ImageContent


class Expanded(Record):
    """A prompt after its expansion."""

    text: str  # what is stored and sent
    typed: str | None = None  # what the user typed; None: it is the same
    allowed_tools: tuple[str, ...] = ()  # of a command's file: allowed in this run
    images: tuple[ImageContent, ...] = ()  # that it mentions


def may_stand_for_files(text: str) -> bool:
    """False for a prompt that has neither a mention, nor a command, nor a skill that it calls."""
    return "@" in text or text.startswith(("/", "$"))
