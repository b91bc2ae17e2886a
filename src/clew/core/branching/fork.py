"""Where a thread is cut when another one begins there, and how much of a session both have in common. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from clew.core.history import History, Role, Turn, digest
from clew.core.ids import TurnId
from clew.core.pins import Absorbed, Pin
from clew.core.record import replace


def rounds_in(history: Sequence[Turn]) -> int:
    """A round is a user's turn, and all that follows it until the next."""
    return sum(turn.role is Role.USER for turn in history)


def until_round(history: History, number: int) -> History:
    """Up to that round and with it; all of it when there are not so many."""
    asked = [place for place, turn in enumerate(history) if turn.role is Role.USER]
    return history[: asked[number]] if number < len(asked) else history


def until_turn(history: History, turn_id: str) -> History:
    """Up to that turn and with it; of a user's turn, with its answer."""
    place = next(n for n, turn in enumerate(history) if turn.id == turn_id)
    if history[place].role is Role.USER:
        return until_round(history, rounds_in(history[: place + 1]))
    return history[: place + 1]


def held_of(pin: Pin, seen: Sequence[Turn]) -> int:
    """How many of the turns, from the first on, the session was given just as they are now."""
    count = 0
    for known, turn in zip(pin.absorbed, seen, strict=False):
        if known.turn_id != turn.id or known.digest not in (None, digest(turn)):
            break
        count += 1
    return count


def last_answer(held: Sequence[Turn], messages: Container[str]) -> int | None:
    """The last turn with which a session can end: a whole answer that the session itself gave.

    What it was only told of (another session's answer, in a transcript) has no message in it. Of a cut-off answer it
    may have but the beginning.
    """
    for place in range(len(held) - 1, -1, -1):
        turn = held[place]
        if turn.role is Role.ASSISTANT and not turn.partial and turn.message_id in messages and turn.message_id:
            return place
    return None


def renewed(absorbed: Sequence[Absorbed], turns: Mapping[TurnId, Turn]) -> tuple[Absorbed, ...]:
    """What a session holds, told by the copies of its turns: by the old id, the new turn.

    Of a turn that was edited since, the digest stays that of the text which the session knows.
    """
    return tuple(_renewed(known, turns[known.turn_id]) for known in absorbed)


def _renewed(known: Absorbed, turn: Turn) -> Absorbed:
    is_as_known = known.digest == digest(replace(turn, id=known.turn_id))
    return Absorbed(turn.id, digest(turn) if is_as_known else known.digest)
