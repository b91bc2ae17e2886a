"""The answer as it grows: pieces as they stream, whole messages as they are said.

The stored turn, the text a surface prints and the text read back from a session's file must agree to the letter, since
settling a cut-off run compares them. So the joining lives here, once.
"""

from __future__ import annotations

from collections.abc import Iterable

from clew.core.events import AttemptStarted, Event, MessageSaid, TextStreamed, TextWithdrawn

BETWEEN = "\n\n"


def joined(messages: Iterable[str]) -> str:
    return BETWEEN.join(text for text in messages if text)


class GrowingAnswer:
    """Feed it a run's events in order; `text` is what has been said so far."""

    def __init__(self) -> None:
        self._whole: list[str] = []
        self._pieces: list[str] = []
        self.message_id: str | None = None

    def feed(self, event: Event) -> None:
        if isinstance(event, TextStreamed):
            self._pieces.append(event.text)
        elif isinstance(event, MessageSaid):
            self._whole.append(event.text)
            self._pieces.clear()
            self.message_id = event.message_id or self.message_id
        elif isinstance(event, TextWithdrawn):
            self._pieces.clear()
        elif isinstance(event, AttemptStarted):
            self._whole.clear()
            self._pieces.clear()
            self.message_id = None

    @property
    def text(self) -> str:
        return joined((*self._whole, "".join(self._pieces)))
