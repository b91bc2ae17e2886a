"""Pins: our record of what an agent's session holds.

Rules
1. A pin says which turns its session has absorbed, in order, each with a digest of its text. It is valid only while
   that list is a prefix of what the agent may see of the thread (law 3).
2. A pin advances only on evidence. While an attempt runs, what the session is being shown is in `pending`. It moves to
   `absorbed` only on a success that the session's file confirms: our user line and the answer are in its active chain.
   What the file lacks is not absorbed, and the next turn sends it. After any other outcome, the next turn reads from
   the file what was absorbed (law 4).
3. Only one thread writes to a session. A pin of another thread may borrow it (`borrowed_at`): its next turn continues
   in a copy that ends with that message, and the copy gets a pin of its own. When `borrowed_at` is empty, it is not
   known where the copy would have to end, so the session cannot be copied.
4. States change by this table and in no other way; an illegal change raises and leaves the pin unchanged.

    state        may become
    provisional  good, poisoned, retired
    good         poisoned, retired
    poisoned     (nothing: it is permanent)
    retired      (nothing)
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from clew.core.history import History, Role, Turn, digest, text_digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.record import Record, replace


class PinState(StrEnum):
    PROVISIONAL = "provisional"  # we chose the id and stored it; no run has succeeded yet
    GOOD = "good"
    POISONED = "poisoned"  # every later turn would fail the same way
    RETIRED = "retired"


MOVES: dict[PinState, frozenset[PinState]] = {
    PinState.PROVISIONAL: frozenset({PinState.GOOD, PinState.POISONED, PinState.RETIRED}),
    PinState.GOOD: frozenset({PinState.POISONED, PinState.RETIRED}),
    PinState.POISONED: frozenset(),
    PinState.RETIRED: frozenset(),
}


class Runtime(Record):
    """Which program made a session. Another runtime cannot use the session. The version number does not count."""

    agent: str
    binary: str  # the path as found: symbolic links are not resolved, because an update may change their targets
    product: str  # from --version: a fork of the program has another name
    can_resume: bool
    config_dir: str  # where the agent keeps its sessions


class Absorbed(Record):
    """One turn that a session holds. Without a digest, it was left out of a transcript that was too long."""

    turn_id: TurnId
    digest: str | None

    @classmethod
    def of(cls, turn: Turn) -> Absorbed:
        return cls(turn.id, digest(turn))


class Pending(Record):
    """What the running attempt shows the session, until its outcome is known."""

    user_uuid: str  # the id of our user line, to find it in the session's file
    shown: tuple[Absorbed, ...]  # catch-up or transcript, then the prompt
    standing: str | None  # digest of the standing text that the session will know afterwards


class PartlyAbsorbed(Record):
    """An interrupted answer of which the session holds only the beginning."""

    turn_id: TurnId
    chars: int  # the length of that beginning
    digest: str  # the digest of that beginning

    @classmethod
    def of(cls, turn: Turn, chars: int) -> PartlyAbsorbed:
        return cls(turn.id, chars, text_digest(turn.text[:chars]))


class Mark(Record):
    """The state of a session's file when our last turn ended."""

    size_bytes: int
    last_entry: str | None
    digest: str | None = None  # the digest of those bytes; None: an older Clew wrote this mark
    stamp: str | None = None  # the file's identity and times: while they are the same, the file is unchanged


class Pin(Record):
    """Which session of which agent holds which turns of a thread."""

    id: PinId
    thread_id: ThreadId
    agent: str
    model: str  # "" until the agent has said which model its default is
    session_id: SessionId
    state: PinState
    work_dir: str
    runtime: Runtime
    absorbed: tuple[Absorbed, ...] = ()
    pending: Pending | None = None
    partly_absorbed: PartlyAbsorbed | None = None
    standing: str | None = None  # digest of the standing text that the session last saw
    mark: Mark | None = None
    resume_count: int = 0
    failures: int = 0  # unexplained failures in a row
    cost_total_usd: float = 0.0  # the whole session's cost, as the agent last reported it
    borrowed_at: str | None = None  # the session is another thread's: it may be copied up to this message (rule 3)
    created_at: float = 0.0
    used_at: float = 0.0


class IllegalMove(ValueError):
    """A pin cannot change from its state to the requested one."""


def move(pin: Pin, state: PinState) -> Pin:
    """The pin in its next state. Keeping the same state is always legal."""
    if state is pin.state:
        return pin
    if state not in MOVES[pin.state]:
        raise IllegalMove(f"{pin.state} pin cannot become {state}")
    return replace(pin, state=state)


def is_valid(pin: Pin, seen: Sequence[Turn]) -> bool:
    """Law 3: `seen` begins with everything that the session absorbed, unchanged and in order."""
    absorbed = pin.absorbed
    if len(absorbed) > len(seen):
        return False
    part = pin.partly_absorbed
    if part is not None and (len(absorbed) == len(seen) or PartlyAbsorbed.of(seen[len(absorbed)], part.chars) != part):
        return False
    return all(
        known.turn_id == turn.id and (known.digest is None or known.digest == digest(turn))
        for known, turn in zip(absorbed, seen, strict=False)
    )


class Observed(Record):
    """What the engine just read from a pinned session's file. All `None`: the agent keeps no file that we can read."""

    exists: bool | None = None
    mark: Mark | None = None
    holds_pending: bool | None = None  # our pending user line is in the active chain; None: unknown
    answer_text: str = ""  # what the agent said after that line, as far as the file holds it
    complete: bool = False  # the file shows that the model finished that answer
    continued_outside: bool = False  # the session holds a later prompt that is not ours
    model: str = ""  # the newest turn's, if the file names it
    continues_past_fork: bool | None = None  # a borrowed session has messages after the one that the copy ends with
    damaged: bool = False  # the bytes that the file had when our last turn ended have changed


NOTHING_OBSERVED = Observed()


def has_diverged(pin: Pin, observed: Observed) -> bool:
    """The session was continued outside Clew: both its size and its last entry differ from our mark.

    While the outcome of our own last attempt is unknown, the additional content may be ours. A borrowed session is
    owned by another thread, so it may grow.
    """
    if observed.continued_outside:
        return True
    if pin.borrowed_at is not None or (pin.pending is not None and observed.holds_pending is not False):
        return False
    ours, now = pin.mark, observed.mark
    if ours is None or now is None:
        return False
    return ours.size_bytes != now.size_bytes and ours.last_entry != now.last_entry


def is_unconfirmed_copy(pin: Pin) -> bool:
    """A copy that no run has confirmed yet: it may not hold everything that was to be copied."""
    return pin.state is PinState.PROVISIONAL and pin.mark is None and bool(pin.absorbed)


def reconcile(pin: Pin, observed: Observed, history: History) -> Pin:
    """The pin after an attempt without success: what the session really absorbed is read from its file.

    `pending` is kept when the file does not show it (the decision then says `unconfirmed`).
    """
    if pin.pending is None or not observed.exists or observed.holds_pending is None:
        return pin
    if observed.continued_outside or observed.damaged:
        return pin
    if not observed.holds_pending:
        if not pin.absorbed or is_unconfirmed_copy(pin):
            return pin  # the first turn never arrived: the session holds nothing of ours, or is an unconfirmed copy
        return replace(pin, pending=None)
    return absorb(pin, observed, _answer_after(pin.pending, history))


def absorb(pin: Pin, observed: Observed, answer: Turn | None) -> Pin:
    """The file holds the pending prompt: what was shown is absorbed, and as much of the answer as the file holds.

    An answer that the file holds in part is recorded as `partly_absorbed`. An answer that it lacks is not absorbed, so
    the next turn sends it. A file with text that the thread does not have leaves the pin unchanged.
    """
    assert pin.pending is not None  # the callers have checked
    moved = replace(
        pin,
        absorbed=pin.absorbed + pin.pending.shown,
        pending=None,
        standing=pin.pending.standing,
        partly_absorbed=None,
        mark=observed.mark,
    )
    if answer is not None and answer.text == observed.answer_text:
        return replace(moved, absorbed=(*moved.absorbed, Absorbed.of(answer)))
    if not observed.answer_text:
        return moved
    if answer is not None and answer.text.startswith(observed.answer_text):
        return replace(moved, partly_absorbed=PartlyAbsorbed.of(answer, len(observed.answer_text)))
    return pin


def ends_with(pin: Pin, turn: Turn) -> bool:
    """The turn is the last one that the session absorbed."""
    return bool(pin.absorbed) and pin.absorbed[-1] == Absorbed.of(turn)


def _answer_after(pending: Pending, history: History) -> Turn | None:
    """The interrupted answer that the thread kept for the pending prompt, if it kept one."""
    prompt = pending.shown[-1].turn_id
    for turn, following in pairwise(history):
        if turn.id == prompt:
            return following if following.role is Role.ASSISTANT else None
    return None
