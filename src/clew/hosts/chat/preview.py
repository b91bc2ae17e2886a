"""Previews: what the next turn will do, and what a change of a turn would do to the session."""

from __future__ import annotations

from collections.abc import Mapping

from clew.core.decision import Decision, Resume, candidate
from clew.core.explanation import decision_words
from clew.core.history import History, Role, Turn, visible
from clew.core.pins import PinState, is_valid
from clew.core.record import Record, replace
from clew.core.thread import Thread
from clew.store.store import Store
from clew.store.tables.turns import no_such_turn

KEEPS_SESSION = "The session has not seen this turn as it is: it is kept, and the next turn sends the new text."
STARTS_FRESH = "The session holds this turn as it was: the next turn starts a fresh session with the whole transcript."
NO_SESSION = "The thread has no session that this could affect."


class Preview(Record):
    """A preview of the thread's next turn, if its own agent is asked."""

    resumes: bool
    reason: str | None  # why it does not resume
    words: str
    after_change: Mapping[str, str] | None = None  # what an edit, a truncate or a retry of a turn would do


def preview_of(decision: Decision) -> Preview:
    return Preview(isinstance(decision, Resume), decision.reason, decision_words(decision))


def after_change(store: Store, thread: Thread, turn: Turn) -> dict[str, str]:
    """What an edit, a truncate and (of a user's turn) a retry would do, in words for the user."""
    history = store.turns.history(thread.id)
    place = next((n for n, known in enumerate(history) if known.id == turn.id), None)
    if place is None:  # the turn was archived after the caller had read it
        raise no_such_turn(turn.id)
    edited = (*history[:place], replace(turn, text=f"{turn.text}\0"), *history[place + 1 :])
    said = {
        "edit": f"The old text is kept and later turns stay. {_session(store, thread, edited)}",
        "truncate": f"Archives {_turns(len(history) - place)}. {_session(store, thread, history[:place])}",
    }
    if turn.role is Role.USER:
        later = len(history) - place - 1
        archived = f"; {_turns(later)} after it {'is' if later == 1 else 'are'} archived" if later else ""
        said["retry"] = f"Asks this again in a fresh session with the transcript up to here{archived}."
    return said


def session_stands(store: Store, thread: Thread, history: History) -> bool | None:
    """Whether everything that the thread's session was sent is in that history. None: no session could be resumed."""
    pin = candidate(store.pins.of_thread(thread.id, retired=False), thread.agent, thread.model or "")
    if pin is None or pin.state is PinState.POISONED:
        return None
    given = pin.absorbed + (pin.pending.shown if pin.pending is not None else ())
    return is_valid(replace(pin, absorbed=given), visible(history, thread.agent, thread.visibility))


def _session(store: Store, thread: Thread, history: History) -> str:
    said = {None: NO_SESSION, True: KEEPS_SESSION, False: STARTS_FRESH}
    return said[session_stands(store, thread, history)]


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"
