"""Previews: what the next turn will do, and what a change of a turn would do to the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile

from clew.core.decision import MEANING, Decision, Fresh, Reason, Resume
from clew.core.explanation import FILES_STAY, decision_words
from clew.core.history import History, Role, Turn
from clew.core.record import Record, replace
from clew.core.runs.options import NO_OPTIONS, TurnOptions
from clew.core.thread import Thread
from clew.engine.engine import Engine
from clew.engine.planning.preview import NextTurn
from clew.engine.request import TurnRequest
from clew.store.tables.turns import no_such_turn

KEEPS_SESSION = "The session has not seen this turn as it is: it is kept, and the next turn sends the new text."
RESUMES = "The session is kept: the next turn resumes it."
COPIES = "The next turn continues in a copy of another session that still stands."
STARTS_FRESH = "the next turn starts a fresh session with the whole transcript."
NOTHING_BEFORE = f"Nothing before this turn is left to continue from: {STARTS_FRESH}"
CANNOT_REWIND = f"The session cannot be rewound to before this turn: {STARTS_FRESH}"
NOTHING_LEFT = "Nothing is left to continue from: the next turn starts a fresh session."
NO_SESSION = "The thread has no session that this could affect."
WITHOUT_SESSION = frozenset({Reason.NO_PIN, Reason.POISONED, Reason.DISABLED, Reason.UNSUPPORTED})
CHANGED = frozenset({Reason.HISTORY_CHANGED, Reason.UNCONFIRMED, Reason.FORCED_FRESH})


class Preview(Record):
    """A preview of the thread's next turn, if its own agent is asked."""

    resumes: bool
    reason: str | None  # why it does not resume, or why the session is rewound or copied
    words: str
    after_change: Mapping[str, str] | None = None  # what an edit, a truncate or a retry of a turn would do
    rewound_to: int | None = None  # the number of the last turn that the rewound session holds; None: it holds all
    outside_turns: int = 0  # turns that were made outside Clew, and are not in the thread yet


def preview_of(next_turn: NextTurn) -> Preview:
    decision = next_turn.decision
    words = decision_words(decision)
    if next_turn.is_compacted:
        words = f"{words} {COMPACTED}"
    rewind = decision.rewind if isinstance(decision, Resume) else None
    return Preview(
        isinstance(decision, Resume),
        decision.reason,
        words,
        rewound_to=rewind.number if rewind is not None else None,
        outside_turns=next_turn.outside_turns,
    )


COMPACTED = "The session was compacted outside Clew: it holds the earlier turns only as a summary."


async def after_change(engine: Engine, thread: Thread, turn: Turn) -> dict[str, str]:
    """What an edit, a truncate and (of a user's turn) a retry would do, in words for the user."""
    history = await engine.store.call(lambda store: store.turns.history(thread.id))
    place = next((n for n, known in enumerate(history) if known.id == turn.id), None)
    if place is None:  # the turn was archived after the caller had read it
        raise no_such_turn(turn.id)

    async def session(change: Callable[[History], History], archived: int = 0) -> str:
        request = TurnRequest(thread, "?", standing=thread.standing)
        return session_words((await engine.preview(request, change)).decision, before=place, archived=archived)

    edited = await session(lambda now: tuple(_edited(each) if each.id == turn.id else each for each in now))
    dropped = len(history) - place
    truncated = await session(lambda now: tuple(takewhile(lambda each: each.id != turn.id, now)), dropped)
    said = {
        "edit": f"The old text is kept and later turns stay. {edited}",
        "truncate": f"Archives {_turns(dropped)}. {truncated}",
    }
    if turn.role is Role.USER:
        asked = await engine.preview(retry_request(thread, turn, NO_OPTIONS))
        said["retry"] = _retried(asked.decision, before=place, later=dropped - 1)
    return said


def _edited(turn: Turn) -> Turn:
    return replace(turn, text=f"{turn.text}\0")


def session_words(decision: Decision, *, before: int | None = None, archived: int = 0) -> str:
    """What a change that was just made, or is about to be made, does to the session; and that files stay.

    `before`: how many turns the thread has before the changed one. `archived`: how many turns a truncate archives.
    """
    words = _session(decision, before, archived)
    is_rewound = isinstance(decision, Resume) and decision.rewind is not None
    return f"{words} {FILES_STAY}" if archived or is_rewound else words


def _session(decision: Decision, before: int | None, archived: int) -> str:
    if isinstance(decision, Fresh):
        if decision.reason in WITHOUT_SESSION:
            return NO_SESSION
        if decision.reason is Reason.FIRST_TURN:
            return NOTHING_LEFT
        if decision.reason in CHANGED:
            return NOTHING_BEFORE if before == 0 else CANNOT_REWIND
        return f"The next turn starts a fresh session in any case: {MEANING[decision.reason]}."
    if decision.rewind is not None:
        later = len(decision.shown) - 1
        after = f", and sends the {_turns(later)} after it" if later else ""
        return f"The session rewinds to turn {decision.rewind.number}: the next turn continues from there{after}."
    if decision.copies:
        return COPIES
    return KEEPS_SESSION if len(decision.shown) > 1 and not archived else RESUMES


def _retried(decision: Decision, *, before: int, later: int) -> str:
    """`before`, `later`: how many turns the thread has before the prompt and after it."""
    words = [_where(decision, before)]
    if later:
        words += [f"The {_turns(later)} after this prompt {'is' if later == 1 else 'are'} archived.", FILES_STAY]
    return " ".join(words)


def _where(decision: Decision, before: int) -> str:
    if isinstance(decision, Fresh):
        return f"Asks this again in a fresh session{' with the transcript up to here' if before else ''}."
    if decision.rewind is not None:
        return f"Asks this again. A copy of the session continues from turn {decision.rewind.number}."
    return "Asks this again in the session, which has not seen it."


def retry_request(thread: Thread, turn: Turn, options: TurnOptions) -> TurnRequest:
    """The request to ask a user's turn again, of the agent and model that were asked before if none are named."""
    agent = options.agent or turn.agent or thread.agent
    model = options.model or (turn.model if turn.agent == agent else None)
    options = replace(options, agent=agent, model=model)
    return TurnRequest(thread, turn.text, options, typed=turn.typed, standing=thread.standing, retry_of=turn.id)


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"
