"""Determines how much of another thread's session a forked thread may continue, in a copy.

Rules
1. Only what the session's file shows is borrowed. It ends with an answer on the file's active chain, and the pin knows
   every prompt before that answer.
2. Turns of the thread after that answer are not in the copy; the next turn sends them as catch-up.
3. If it is not known where the session would have to be cut (the agent does not name its messages), the pin says so,
   and the next turn is fresh.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.agents.adapter import Adapter, SessionView
from clew.core.branching.fork import held_of, last_answer
from clew.core.history import Role, Turn
from clew.core.pins import UNKNOWN_STANDING, Pin, PinState, SessionEnd
from clew.core.record import Record
from clew.core.runs.answer import join_messages
from clew.engine.sessions.observation import ends_in, file_of


class Loan(Record):
    """How much of a session another thread may start with."""

    turns: int  # how many of the turns that the pin has absorbed, from the first one
    message_id: str  # the message id of the last of them; "": the session cannot be cut there
    standing: str | None  # digest of the standing text that the session knew at that point


def borrow(adapter: Adapter, pin: Pin, seen: Sequence[Turn]) -> Loan | None:
    """Reads the session's file. `seen`: what the agent may see of the new thread, with the old thread's turn ids.

    None: nothing can be borrowed.
    """
    held = held_of(pin, seen)
    if pin.state not in (PinState.GOOD, PinState.PROVISIONAL):
        return None
    if not held:  # with a loan, the next turn is fresh because the first turn was edited, not for lack of a pin
        is_edited = pin.absorbed and seen and pin.absorbed[0].turn_id == seen[0].id
        return Loan(1, "", None) if is_edited else None
    path = file_of(adapter, pin)
    try:
        view = adapter.read_session(path) if path is not None else None
    except OSError:
        view = None
    if view is None or not view.entries:
        return None
    ends = ends_in(view)
    found = _by_message(seen[:held], ends) or _whole(pin, seen[:held], view, ends)
    if found is None:
        return Loan(held, "", None)
    turns, end = found
    return Loan(turns, end.end_id, UNKNOWN_STANDING if end.told_later else pin.standing)


def _by_message(held: Sequence[Turn], ends: Sequence[SessionEnd]) -> tuple[int, SessionEnd] | None:
    by_message = {message_id: end for end in ends for message_id in end.message_ids}
    last = last_answer(held, by_message)
    if last is None:
        return None
    end = by_message[str(held[last].message_id)]
    return (last + 1, end) if end.prompts <= sum(turn.role is Role.USER for turn in held[: last + 1]) else None


def _whole(
    pin: Pin, held: Sequence[Turn], view: SessionView, ends: Sequence[SessionEnd]
) -> tuple[int, SessionEnd] | None:
    """The whole session, if its message ids are not known: nothing was added to it, and it ends with our answer."""
    said: list[str] = []
    for entry in reversed(view.entries):
        if entry.role is not Role.ASSISTANT:
            break
        said.append(entry.text)
    is_all = pin.pending is None and pin.partly_absorbed is None and len(held) == len(pin.absorbed)
    is_there = pin.mark is not None and pin.mark.last_entry == view.last_entry
    if pin.borrowed_at is not None:
        is_there = bool(ends) and pin.borrowed_at in ends[-1].message_ids
    fits = held[-1].role is Role.ASSISTANT and not held[-1].partial and join_messages(reversed(said)) == held[-1].text
    is_end = bool(ends) and view.entries[-1].id in ends[-1].message_ids
    return (len(held), ends[-1]) if is_all and is_there and fits and is_end else None
