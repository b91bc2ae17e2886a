"""Pins: our record of what an agent's session holds.

Rules
1. A pin says which turns its session has absorbed, in order, each with a digest of its text. It is valid only while
   that list is a prefix of what the agent may see of the thread (law 3).
2. A pin is never advanced by hope. While an attempt runs, what it is being shown stands in `pending`; only a success
   that the session's file bears out moves it into `absorbed`: our user line and the answer are in its active chain.
   What the file lacks is not absorbed, and the next turn brings it along. After anything else the file decides, at the
   next turn (law 4).
3. A session has one thread that writes into it. A pin of another thread may borrow it (`borrowed_at`): the next turn
   goes on in a copy that ends with that message, and the copy gets a pin of its own. Empty: where it would have to be
   cut is not known, so it cannot be copied.
4. States move by this table and no other way; an illegal move raises and changes nothing.

    state        may become
    provisional  good, poisoned, retired
    good         poisoned, retired
    poisoned     (nothing: for ever)
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
    PROVISIONAL = "provisional"  # the id is ours and stored; no success yet
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
    """Who made a session: a session of one runtime means nothing to another. The version does not count."""

    agent: str
    binary: str  # the path as found, links not followed: an updater may repoint one
    product: str  # from --version: a fork calls itself something else
    can_resume: bool
    config_dir: str  # where the agent keeps its sessions


class Absorbed(Record):
    """One turn that a session holds. No digest: it was left out of a transcript that was too long."""

    turn_id: TurnId
    digest: str | None

    @classmethod
    def of(cls, turn: Turn) -> Absorbed:
        return cls(turn.id, digest(turn))


class Pending(Record):
    """What an attempt is showing the session, until its outcome is known."""

    user_uuid: str  # of our user line, to find it in the session's file
    shown: tuple[Absorbed, ...]  # catch-up or transcript, then the prompt
    standing: str | None  # digest of the standing text, as the session will know it afterwards


class HeldBack(Record):
    """A cut-off answer of which the session has only the beginning."""

    turn_id: TurnId
    chars: int  # so many of them
    digest: str  # and of those

    @classmethod
    def of(cls, turn: Turn, chars: int) -> HeldBack:
        return cls(turn.id, chars, text_digest(turn.text[:chars]))


class Mark(Record):
    """A session's file as we last left it."""

    size_bytes: int
    last_entry: str | None
    digest: str | None = None  # of those bytes; None: an older Clew left it
    stamp: str | None = None  # the file's identity and times: while they are the same, nobody has written into it


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
    held_back: HeldBack | None = None
    standing: str | None = None  # digest of the standing text that the session saw last
    mark: Mark | None = None
    resume_count: int = 0
    failures: int = 0  # unexplained ones in a row
    cost_total_usd: float = 0.0  # as the agent last reported it for the whole session
    borrowed_at: str | None = None  # another thread's session: up to this message of it may be copied (rule 3)
    created_at: float = 0.0
    used_at: float = 0.0


class IllegalMove(ValueError):
    """A pin was told to go where its state does not lead."""


def move(pin: Pin, state: PinState) -> Pin:
    """The pin in its next state. Staying is always legal."""
    if state is pin.state:
        return pin
    if state not in MOVES[pin.state]:
        raise IllegalMove(f"{pin.state} pin cannot become {state}")
    return replace(pin, state=state)


def stands(pin: Pin, seen: Sequence[Turn]) -> bool:
    """Law 3: all that the session absorbed still stands, unchanged and in order, at the start of what is seen."""
    held = pin.absorbed
    if len(held) > len(seen):
        return False
    part = pin.held_back
    if part is not None and (len(held) == len(seen) or HeldBack.of(seen[len(held)], part.chars) != part):
        return False
    return all(
        known.turn_id == turn.id and (known.digest is None or known.digest == digest(turn))
        for known, turn in zip(held, seen, strict=False)
    )


class Observed(Record):
    """What the engine saw of a pinned session's file just now. All `None`: the agent keeps no file we can read."""

    exists: bool | None = None
    mark: Mark | None = None
    holds_pending: bool | None = None  # our pending user line is in the active chain; None: cannot tell
    said: str = ""  # what the agent said after that line, as far as the file has it
    complete: bool = False  # and that the model had come to its end
    went_on: bool = False  # somebody else's prompt stands after ours
    model: str = ""  # the newest turn's, where the file tells
    beyond: bool | None = None  # of a borrowed session: more was said after the message that ours ends with
    damaged: bool = False  # what stood in it when we left it does not stand there any more


NOTHING_OBSERVED = Observed()


def has_diverged(pin: Pin, observed: Observed) -> bool:
    """Somebody went on in the session without us: both its size and its last entry differ from where we left it.

    While the outcome of our own last attempt is open, what the file has more may be ours. Of a borrowed session
    another thread is the owner: it may grow.
    """
    if observed.went_on:
        return True
    if pin.borrowed_at is not None or (pin.pending is not None and observed.holds_pending is not False):
        return False
    ours, now = pin.mark, observed.mark
    if ours is None or now is None:
        return False
    return ours.size_bytes != now.size_bytes and ours.last_entry != now.last_entry


def is_unproven(pin: Pin) -> bool:
    """A copy that nothing has borne out yet: what it was to hold may not all have got there."""
    return pin.state is PinState.PROVISIONAL and pin.mark is None and bool(pin.absorbed)


def settle(pin: Pin, observed: Observed, history: History) -> Pin:
    """After an attempt that did not end well: take from the file what the session really absorbed.

    Leaves `pending` in place when the file does not tell (the decision then says `unconfirmed`).
    """
    if pin.pending is None or not observed.exists or observed.holds_pending is None:
        return pin
    if observed.went_on or observed.damaged:
        return pin
    if not observed.holds_pending:
        if not pin.absorbed or is_unproven(pin):
            return pin  # a first turn that never arrived: nothing in there is ours, or not all of it
        return replace(pin, pending=None)
    return absorb(pin, observed, _answer_after(pin.pending, history))


def absorb(pin: Pin, observed: Observed, answer: Turn | None) -> Pin:
    """The file holds the pending prompt: what it was shown is absorbed, and of the answer what the file has.

    An answer of which the file has a part is remembered as `held_back`; one that it lacks is simply not absorbed, so
    that the next turn brings it along. A file with words that the thread does not have leaves the pin as it is.
    """
    assert pin.pending is not None  # the callers have looked
    settled = replace(
        pin,
        absorbed=pin.absorbed + pin.pending.shown,
        pending=None,
        standing=pin.pending.standing,
        held_back=None,
        mark=observed.mark,
    )
    if answer is not None and answer.text == observed.said:
        return replace(settled, absorbed=(*settled.absorbed, Absorbed.of(answer)))
    if not observed.said:
        return settled
    if answer is not None and answer.text.startswith(observed.said):
        return replace(settled, held_back=HeldBack.of(answer, len(observed.said)))
    return pin


def holds(pin: Pin, turn: Turn) -> bool:
    """The turn is the last that the session absorbed."""
    return bool(pin.absorbed) and pin.absorbed[-1] == Absorbed.of(turn)


def _answer_after(pending: Pending, history: History) -> Turn | None:
    """The cut-off answer that the thread kept for the pending prompt, if it kept one."""
    prompt = pending.shown[-1].turn_id
    for turn, following in pairwise(history):
        if turn.id == prompt:
            return following if following.role is Role.ASSISTANT else None
    return None
