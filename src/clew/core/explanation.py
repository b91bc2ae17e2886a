"""What a turn would do, without doing it: the decision in words, what would be sent, and the expected price."""

from __future__ import annotations

from enum import StrEnum

from clew.core.costs.forecast import Forecast
from clew.core.decision import ADOPT_HINT, MEANING, Decision, Fresh, Reason, Resume
from clew.core.images import Image
from clew.core.record import Record

# Shown where turns are dropped, or the session is rewound: that does not undo what they did.
FILES_STAY = "Files that these turns changed stay as they are."


class StandingNote(StrEnum):
    """What a turn says about the thread's standing text."""

    SENT = "sent"  # the session does not have one yet
    REPLACED = "replaced"  # the session has another one
    REMOVED = "removed"  # the session has one that no longer applies
    KNOWN = "known"  # the session has it: it is not sent


class Explanation(Record):
    """What asking a prompt would do now. Nothing is stored, and no agent is started.

    `expected` and `with_transcript` are estimates. They leave out the answer and what the agent does for it.
    """

    thread: str  # its name; of a new thread, the name that it would get
    new_thread: bool  # the thread does not exist yet
    agent: str
    model: str | None  # None: the agent's default, which is not known before its first run
    resumes: bool
    reason: str | None  # why it starts a fresh session, or why the session is rewound or copied
    words: str  # the decision as a sentence
    session_id: str | None  # the session that is resumed; None: a fresh one
    copies: bool  # the turn continues in a copy of the session, which stays as it is
    prompt: str | None  # the exact text that the agent would be sent; None: no prompt was given
    prompt_chars: int  # the length of what would be sent; without a prompt, of all but the prompt
    turns_sent: int  # turns in the prompt: as catch-up, or as the transcript of a fresh session
    turns_left_out: int  # earlier turns that did not fit; the prompt says so
    standing: str | None  # a StandingNote; None: there is no standing text
    transcript_chars: int  # the length of what a fresh session would be sent
    held_tokens: int | None  # what the session holds; None: a fresh one
    held_is_measured: bool  # the agent reported it; False: an estimate from the texts of its turns
    is_cached: bool  # what the session holds is expected in the cache
    expected: Forecast
    with_transcript: Forecast | None  # the whole transcript instead; None: the transcript is what would be sent
    waits_for: str | None  # the run that it would wait for, or IN_TERMINAL; the decision is made when it starts
    unfinished: str | None  # a run that a crash left: the next command ends it first, which may change the decision
    rewound_to: int | None = None  # the number of the last turn that the rewound session holds; None: it holds all
    outside_turns: int = 0  # turns that were made outside Clew: they come into the thread first
    images: tuple[Image, ...] = ()  # sent with the prompt; their price is not in the estimates
    rules: tuple[str, ...] = ()  # the files of the project's rules that the agent is shown


def decision_words(decision: Decision) -> str:
    if isinstance(decision, Fresh):
        adopt = ""
        if decision.reason is Reason.SESSION_DIVERGED and decision.skipped_session is not None:
            adopt = f" {ADOPT_HINT.format(session_id=decision.skipped_session)}"
        return f"Starts a fresh session: {MEANING[decision.reason]}.{adopt}"
    added = _added(decision)
    sends = f"sends {' and '.join(added)} with the new prompt" if added else "sends the new prompt alone"
    return f"{_continued(decision)} and {sends}."


def _continued(decision: Resume) -> str:
    if decision.rewind is not None:
        return f"Rewinds to turn {decision.rewind.number}: continues there in a copy of the session,"
    if decision.pin.borrowed_at is not None:
        return "Continues in a copy of the session that it was forked from,"
    if decision.copies:
        of = "another model's session" if decision.reason is Reason.NO_PIN else "an earlier session"
        return f"Continues in a copy of {of},"
    return "Resumes the session"


def outside_words(turns: int) -> str:
    """That turns were made outside Clew, and what happens to them."""
    made, they = ("1 turn was made", "it") if turns == 1 else (f"{turns:,} turns were made", "them")
    return f"{made} outside Clew: the next turn brings {they} in."


def _added(decision: Resume) -> list[str]:
    missed = len(decision.shown) - 1
    turns = "1 turn that it has not seen" if missed == 1 else f"{missed:,} turns that it has not seen"
    standing = {
        StandingNote.SENT: "the instructions",
        StandingNote.REPLACED: "the new instructions",
        StandingNote.REMOVED: "a note that the instructions no longer apply",
    }.get(standing_note(decision) or StandingNote.KNOWN)
    return [each for each in (turns if missed else None, standing) if each is not None]


def standing_note(decision: Decision) -> StandingNote | None:
    if isinstance(decision, Fresh):
        return StandingNote.SENT if decision.standing is not None else None
    before, now = decision.pin.standing, decision.standing
    if before == now:
        return StandingNote.KNOWN if now is not None else None
    if now is None:
        return StandingNote.REMOVED
    return StandingNote.SENT if before is None else StandingNote.REPLACED


def turns_of(decision: Decision) -> tuple[int, int]:
    """How many turns the prompt holds beside the new one, and how many were left out."""
    earlier = decision.shown[:-1]
    sent = sum(each.digest is not None for each in earlier)
    return sent, len(earlier) - sent
