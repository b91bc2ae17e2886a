"""The answer of a run, built from pieces as they stream and whole messages as they are complete.

The stored turn, the text that a surface prints and the text read back from a session's file must be identical, because
they are compared after an interrupted run (`pins.reconcile`). So messages are joined only here.
"""

from __future__ import annotations

from collections.abc import Iterable

from clew.core.runs.events import AttemptStarted, Event, MessageSaid, TextStreamed, TextWithdrawn

SEPARATOR = "\n\n"


def join_messages(messages: Iterable[str]) -> str:
    return SEPARATOR.join(text for text in messages if text)


class AnswerBuilder:
    """Feed it a run's events in order; `text` is the answer so far."""

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
        return join_messages((*self._whole, "".join(self._pieces)))
