"""Pins: our record of what an agent's session holds.

Rules
1. A pin says which turns its session has absorbed, in the session's order, each with a digest of its text. It is valid
   only while all of them stand, unchanged and in order, in what the agent may see of the thread, with nothing before
   them that the session lacks (law 3). Turns that were made outside Clew are the exception to the order: they are where
   their time is, and the thread may have continued meanwhile. What the session then lacks is sent to it.
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

from clew.core.history import Absorbed, History, LongHistory, Role, Turn, ids_of, outline_of, text_digest
from clew.core.ids import PinId, SessionId, ThreadId, TurnId
from clew.core.record import Record, replace
from clew.core.session import SessionState, SessionTurn

UNKNOWN_STANDING = "?"  # in place of the digest of an unknown standing text: the next turn sends the current one


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
    summarised: int = 0  # how many of the absorbed turns, from the first, the session holds only as its own summary
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
    """Law 3: everything that the session absorbed stands in `seen`, unchanged and in order."""
    return standing_count(pin, seen) == len(pin.absorbed) and _part_stands(pin, seen)


def standing_count(pin: Pin, seen: Sequence[Turn]) -> int:
    """How many of the absorbed turns, from the session's first, stand in `seen` (rule 1)."""
    outline = outline_of(seen)
    count = _common_prefix(pin.absorbed, outline)
    if count == len(pin.absorbed):
        return count
    places = {turn_id: place for place, turn_id in enumerate(ids_of(seen))}
    held = [False] * len(seen)
    filled, last, count = 0, -1, 0  # `filled`: how many turns of `seen` are held without a gap, from its first
    for number, known in enumerate(pin.absorbed, start=1):
        place = places.get(known.turn_id)
        if place is None or not _is_unchanged(known, outline[place]) or (place < last and not seen[place].outside):
            break
        held[place] = True
        if not seen[place].outside:
            last = place
        while filled < len(held) and held[filled]:
            filled += 1
        if filled > last:
            count = number
    return count


def _common_prefix(absorbed: Sequence[Absorbed], outline: Sequence[Absorbed]) -> int:
    count = 0
    for known, standing in zip(absorbed, outline, strict=False):
        if not _is_unchanged(known, standing):
            break
        count += 1
    return count


def _is_unchanged(known: Absorbed, standing: Absorbed) -> bool:
    """Whether the turn that stands in the thread is the one that was absorbed. One without a digest was not shown, so
    its text does not matter: what was absorbed is then the beginning of what stands, up to the digest."""
    return known == standing or (known.is_left_out and standing.startswith(known))


def _part_stands(pin: Pin, seen: Sequence[Turn]) -> bool:
    part = pin.partly_absorbed
    if part is None:
        return True
    turn = next((turn for turn in reversed(seen) if turn.id == part.turn_id), None)  # it is nearly always near the end
    return turn is not None and PartlyAbsorbed.of(turn, part.chars) == part


def missed(pin: Pin, seen: Sequence[Turn]) -> History:
    """The turns of `seen` that a session which stands there has not absorbed, or only in part."""
    count = len(pin.absorbed)
    if isinstance(seen, LongHistory) and _common_prefix(pin.absorbed, seen.outline) == count:
        return tuple(seen[count:])
    held = {known.turn_id for known in pin.absorbed}
    return tuple(seen[place] for place, turn_id in enumerate(ids_of(seen)) if turn_id not in held)


class SessionEnd(Record):
    """A place where a copy of a session can end: after the last line of a completed turn."""

    end_id: str  # the agent's own id of that place
    message_ids: frozenset[str]  # the ids of the turn's answer: one of them is the `message_id` of the thread's turn
    prompts: int  # how many prompts the session holds up to here
    told_later: bool = False  # the standing text was sent again after this place


class Observed(Record):
    """What the engine just read from a pinned session's file."""

    state: SessionState | None = None  # compared with our mark; None: the agent keeps no file that we can read
    mark: Mark | None = None
    holds_pending: bool | None = None  # our pending user line is in the active chain; None: unknown
    answer_text: str = ""  # what the agent said after that line, as far as the file holds it
    complete: bool = False  # the file shows that the model finished that answer
    end_id: str | None = None  # with which a copy can end after that answer
    before: tuple[SessionTurn, ...] = ()  # turns that were made outside Clew before our pending line …
    outside: tuple[SessionTurn, ...] = ()  # … and those after everything that is ours
    beside: tuple[SessionTurn, ...] = ()  # those that were made during our run, and that the session has lost by it
    is_displaced: bool = False  # our turn is in the file, but not on the chain: others continued from before it
    compacted: bool = False  # the agent has replaced earlier turns by a summary since our last turn
    summarised: int = 0  # how many prompts and answers of the turns that were made outside are in that summary
    model: str = ""  # the newest turn's, if the file names it
    cost_total_usd: float | None = None  # the session's running total, if the file names it
    cost_before_usd: float | None = None  # the total before the turns that were made outside Clew, likewise
    continues_past_fork: bool | None = None  # a borrowed session has messages after the one that the copy ends with
    ends: tuple[SessionEnd, ...] = ()  # where a copy can end, oldest first; read only for a rewind

    @property
    def exists(self) -> bool:
        return self.state not in (None, SessionState.GONE)

    @property
    def is_damaged(self) -> bool:
        return self.state is SessionState.DAMAGED


NOTHING_OBSERVED = Observed()
GREW = frozenset({SessionState.GREW, SessionState.COMPACTED})


def has_diverged(observed: Observed) -> bool:
    """The session is no longer ours to continue: it branched off, or holds turns that were not brought in."""
    return observed.state is SessionState.BRANCHED or bool(observed.before or observed.outside)


def is_unconfirmed_copy(pin: Pin) -> bool:
    """A copy that no run has confirmed yet: it may not hold everything that was to be copied."""
    return pin.state is PinState.PROVISIONAL and pin.mark is None and bool(pin.absorbed)


def reconcile(pin: Pin, observed: Observed, history: Sequence[Turn]) -> Pin:
    """The pin after an attempt without success: what the session really absorbed is read from its file.

    `pending` is kept when the file does not show it (the decision then says `unconfirmed`).
    """
    if pin.pending is None or not observed.exists or observed.holds_pending is None:
        return pin
    if observed.is_damaged or observed.state is SessionState.BRANCHED:
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


def _answer_after(pending: Pending, history: Sequence[Turn]) -> Turn | None:
    """The interrupted answer that the thread kept for the pending prompt, if it kept one."""
    prompt = pending.shown[-1].turn_id
    for turn, following in pairwise(history):
        if turn.id == prompt:
            return following if following.role is Role.ASSISTANT else None
    return None
