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
from clew.core import prompts
from clew.core.branching.fork import held_of, last_answer
from clew.core.history import Role, Turn
from clew.core.pins import Pin, PinState
from clew.core.record import Record
from clew.core.runs.answer import join_messages
from clew.core.thread import is_safe_argument
from clew.engine.sessions.observation import file_of

MAX_ID_CHARS = 200
NOT_KNOWN = "?"  # in place of the digest of an unknown standing text: the next turn sends the current one


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
    found = _by_message(pin, seen[:held], view) or _whole(pin, seen[:held], view)
    if found is None or not _can_be_named(view.entries[found[1]].id):
        return Loan(held, "", None)
    turns, place = found
    sent_later = any(f"{prompts.STANDING}\n" in entry.text for entry in view.entries[place + 1 :] if entry.is_prompt)
    return Loan(turns, view.entries[place].id, NOT_KNOWN if sent_later else pin.standing)


def _can_be_named(message_id: str) -> bool:
    """Whether the id is safe as an argument of a command: the session's file may come from another machine."""
    return is_safe_argument(message_id) and len(message_id) <= MAX_ID_CHARS


def _by_message(pin: Pin, held: Sequence[Turn], view: SessionView) -> tuple[int, int] | None:
    places = {entry.id: n for n, entry in enumerate(view.entries) if entry.role is Role.ASSISTANT}
    last = last_answer(held, places)
    if last is None:
        return None
    place = places[str(held[last].message_id)]
    asked = sum(entry.is_prompt for entry in view.entries[:place])
    return (last + 1, place) if asked <= sum(turn.role is Role.USER for turn in held[: last + 1]) else None


def _whole(pin: Pin, held: Sequence[Turn], view: SessionView) -> tuple[int, int] | None:
    """The whole session, if its message ids are not known: nothing was added to it, and it ends with our answer."""
    said: list[str] = []
    for entry in reversed(view.entries):
        if entry.role is not Role.ASSISTANT:
            break
        said.append(entry.text)
    is_all = pin.pending is None and pin.partly_absorbed is None and len(held) == len(pin.absorbed)
    is_there = pin.mark is not None and pin.mark.last_entry == view.last_entry
    if pin.borrowed_at is not None:
        is_there = pin.borrowed_at == view.entries[-1].id
    ends = held[-1].role is Role.ASSISTANT and not held[-1].partial and join_messages(reversed(said)) == held[-1].text
    return (len(held), len(view.entries) - 1) if is_all and is_there and ends else None
