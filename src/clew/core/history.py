"""The thread's own history: turns, and what an agent may see of them.

A turn is one message, the user's or an agent's. The history is a tuple of turns in order; archived turns (truncated, or
replaced by a retry) are not in it. Everything here is a pure function of that tuple.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum

from clew.core.ids import RunId, TurnId
from clew.core.record import Record


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"


class Visibility(StrEnum):
    """What an agent may see of the thread."""

    SHARED = "shared"  # everything: agents see each other's turns
    OWN = "own"  # only what follows the last answer of another agent


class Turn(Record):
    """One message of a thread."""

    id: TurnId
    role: Role
    text: str
    agent: str | None = None  # who answered; for a user turn, who was asked
    model: str | None = None
    partial: bool = False  # the answer was cut off: stopped, timed out, killed
    message_id: str | None = None  # the agent's own id of the answer's last entry, for a later rewind
    run_id: RunId | None = None
    revision: int = 0  # how often it was edited
    created_at: float = 0.0
    outside: bool = False  # it was made without Clew, in the agent's own CLI, and brought in from the session
    typed: str | None = None  # what the user typed, if `text` is what it stood for; only for display

    @property
    def shown(self) -> str:
        """The text for a person."""
        return self.text if self.typed is None else self.typed


History = tuple[Turn, ...]


def visible(history: Sequence[Turn], agent: str, visibility: Visibility) -> History:
    """The part of the history that `agent` may see."""
    if visibility is Visibility.SHARED:
        return tuple(history)
    start = 0
    for index, turn in enumerate(history):
        if turn.role is Role.ASSISTANT and turn.agent != agent:
            start = index + 1
    return tuple(history[start:])


def digest(turn: Turn) -> str:
    """A digest that changes exactly when a model would be shown something else for this turn.

    The id and the role are part of it, so that it also reveals an id that was reused for another text, and an edit that
    swaps two turns.
    """
    return text_digest(f"{turn.id}\0{turn.role.value}\0{turn.text}")


def text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
