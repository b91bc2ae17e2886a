"""How much of another thread's session a forked thread may continue with, in a copy.

Rules
1. Only what the session's file shows is borrowed: it ends with an answer on the file's active chain, and there is no
   prompt before it that the pin does not know.
2. What the thread has after that answer is not in the copy; the next turn sends it as catch-up.
3. When it is not known where the session would have to be cut (the agent does not name its messages), the pin says so,
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

ID_MOST = 200
NOT_KNOWN = "?"  # instead of the digest of a standing text that is not known: the next turn sends the current one


class Loan(Record):
    """How much of a session another thread may begin with."""

    turns: int  # the first so many of those that the pin has absorbed
    message_id: str  # of the last one; "": the session cannot be cut there
    standing: str | None  # digest of the standing text that the session knew by then


def borrow(adapter: Adapter, pin: Pin, seen: Sequence[Turn]) -> Loan | None:
    """`seen` is what the agent may see of the new thread, by its old ids. None: nothing in common. Reads the file."""
    held = held_of(pin, seen)
    if pin.state not in (PinState.GOOD, PinState.PROVISIONAL):
        return None
    if not held:  # when its first turn was edited, the next turn is fresh for that reason, not because no pin exists
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
    """As an argument of a command: the session's file may have come from another machine."""
    return is_safe_argument(message_id) and len(message_id) <= ID_MOST


def _by_message(pin: Pin, held: Sequence[Turn], view: SessionView) -> tuple[int, int] | None:
    places = {entry.id: n for n, entry in enumerate(view.entries) if entry.role is Role.ASSISTANT}
    last = last_answer(held, places)
    if last is None:
        return None
    place = places[str(held[last].message_id)]
    asked = sum(entry.is_prompt for entry in view.entries[:place])
    return (last + 1, place) if asked <= sum(turn.role is Role.USER for turn in held[: last + 1]) else None


def _whole(pin: Pin, held: Sequence[Turn], view: SessionView) -> tuple[int, int] | None:
    """All of a session whose message ids we do not know: nothing was added to it, and it ends with our answer."""
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
