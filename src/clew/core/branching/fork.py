"""Where a fork ends in its thread, and which part of a session belongs to both threads. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from clew.core.history import Absorbed, History, Role, Turn, digest
from clew.core.ids import TurnId
from clew.core.pins import Pin
from clew.core.record import replace


def rounds_in(history: Sequence[Turn]) -> int:
    """The number of rounds. A round is a user's turn with everything up to the next user's turn."""
    return sum(turn.role is Role.USER for turn in history)


def until_round(history: History, number: int) -> History:
    """The history up to and including that round; everything, if there are fewer rounds."""
    asked = [place for place, turn in enumerate(history) if turn.role is Role.USER]
    return history[: asked[number]] if number < len(asked) else history


def until_turn(history: History, turn_id: str) -> History:
    """The history up to and including that turn; if it is a user's turn, also its answer."""
    place = next(n for n, turn in enumerate(history) if turn.id == turn_id)
    if history[place].role is Role.USER:
        return until_round(history, rounds_in(history[: place + 1]))
    return history[: place + 1]


def held_of(pin: Pin, seen: Sequence[Turn]) -> int:
    """How many turns at the beginning of `seen` are absorbed by the session and unchanged since then."""
    count = 0
    for known, turn in zip(pin.absorbed, seen, strict=False):
        if known.turn_id != turn.id or known.digest not in (None, digest(turn)):
            break
        count += 1
    return count


def last_answer(held: Sequence[Turn], messages: Container[str]) -> int | None:
    """The index of the last turn with which a session can end: a complete answer that the session itself gave.

    An answer that another session gave was shown to this session in a transcript, so it has no message of its own here.
    An interrupted answer does not count, because the session may hold only its beginning.
    """
    for place in range(len(held) - 1, -1, -1):
        turn = held[place]
        if turn.role is Role.ASSISTANT and not turn.partial and turn.message_id in messages and turn.message_id:
            return place
    return None


def renewed(absorbed: Sequence[Absorbed], turns: Mapping[TurnId, Turn]) -> tuple[Absorbed, ...]:
    """What a session has absorbed, with the ids of the copied turns. `turns` maps an old id to the copy.

    If a turn was edited since, the digest remains that of the text which the session has seen.
    """
    return tuple(_renewed(known, turns[known.turn_id]) for known in absorbed)


def _renewed(known: Absorbed, turn: Turn) -> Absorbed:
    is_unchanged = known.digest == digest(replace(turn, id=known.turn_id))
    return Absorbed(turn.id, digest(turn) if is_unchanged else known.digest)
