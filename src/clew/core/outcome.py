"""How an attempt ended, and what follows from it.

`classify` takes what the engine did (whether it stopped the attempt) and what the adapter read (its diagnosis), and
returns the class. `CONSEQUENCES` is the design's outcome table as data: what happens to the pin, and whether the same
run falls back to a fresh session. It never falls back after a tool has run (law 6): work done twice is worse than no
answer.
"""

from __future__ import annotations

from enum import StrEnum

from clew.core.decision import Reason
from clew.core.pins import Pin, PinState, move
from clew.core.record import Record, replace


class Outcome(StrEnum):
    SUCCESS = "success"
    REJECTED = "rejected"  # the agent does not know the session
    POISONED = "poisoned"  # its history makes every request fail
    OVERFLOW = "overflow"  # the context is full
    USAGE_LIMIT = "usage_limit"
    AUTH = "auth"
    BILLING = "billing"  # the account has no credit: neither a login nor waiting helps
    WRONG_MODEL = "wrong_model"  # the model does not exist, or this account may not use it
    MEDIA_REMOVED = "media_removed"  # the agent removed a refused image or document from its session
    OVERLOADED = "overloaded"
    NETWORK = "network"
    OUR_LIMIT = "our_limit"  # a limit on turns or budget that we set
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    KILLED = "killed"  # the agent died, or we did
    FAILED = "failed"  # anything else


class StopReason(StrEnum):
    """Why the engine itself ended an attempt."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"  # wall clock
    IDLE = "idle"  # no output for too long


class Diagnosis(Record):
    """What an adapter read from the end of a stream: by its structure first, by its wording second."""

    answered: bool  # there was a result line, and it is a real success
    outcome: Outcome | None = None  # the class that the adapter recognised, if any
    message: str = ""  # the agent's own error text, one line
    resets_at: float | None = None


class Consequence(Record):
    """One row of the table."""

    pin: PinState | None  # the pin's next state; None: unchanged
    fallback: Reason | None = None  # the same run continues fresh for this reason, once and only if no tool ran


KEPT = Consequence(pin=None)

CONSEQUENCES: dict[Outcome, Consequence] = {
    Outcome.SUCCESS: Consequence(pin=PinState.GOOD),
    Outcome.REJECTED: Consequence(PinState.RETIRED, Reason.REJECTED),
    Outcome.POISONED: Consequence(PinState.POISONED, Reason.POISONED),
    Outcome.OVERFLOW: Consequence(PinState.RETIRED, Reason.OVERFLOW),
    Outcome.USAGE_LIMIT: KEPT,
    Outcome.AUTH: KEPT,
    Outcome.BILLING: KEPT,
    Outcome.WRONG_MODEL: KEPT,
    Outcome.MEDIA_REMOVED: KEPT,  # retired after the second in a row: see pin_after
    Outcome.OVERLOADED: KEPT,
    Outcome.NETWORK: KEPT,
    Outcome.OUR_LIMIT: KEPT,
    Outcome.CANCELLED: KEPT,
    Outcome.TIMED_OUT: KEPT,
    Outcome.KILLED: KEPT,
    Outcome.FAILED: KEPT,  # retired after the second in a row: see pin_after
}

FAILURES_BEFORE_RETIREMENT = 2
COUNTED_AS_FAILURES = frozenset({Outcome.FAILED, Outcome.MEDIA_REMOVED})  # a second try in the session may succeed


def classify(diagnosis: Diagnosis, *, stopped: StopReason | None, exit_status: int | None) -> Outcome:
    """The class of an ended attempt. `stopped` is None when the answer came before the stop took effect."""
    if stopped is StopReason.CANCELLED:
        return Outcome.CANCELLED
    if stopped is not None:
        return Outcome.TIMED_OUT
    if diagnosis.answered:
        return Outcome.SUCCESS
    if diagnosis.outcome is not None:
        return diagnosis.outcome
    if exit_status is not None and (exit_status < 0 or exit_status in (137, 143)):
        return Outcome.KILLED
    return Outcome.FAILED


def falls_back(outcome: Outcome, *, resumed: bool, tool_ran: bool, can_shorten: bool) -> Reason | None:
    """Why the same run continues with a fresh session after its first attempt, or None. Never after a tool has run.

    `can_shorten`: after an overflow, a fresh session would be shown less than this session was shown.
    """
    reason = CONSEQUENCES[outcome].fallback
    if tool_ran:
        return None
    if not resumed and not (outcome is Outcome.OVERFLOW and can_shorten):
        return None  # the attempt was fresh already: another one would be asked the same
    return reason


def pin_after(pin: Pin, outcome: Outcome) -> Pin:
    """The pin after an attempt that was not a success."""
    state = CONSEQUENCES[outcome].pin
    failures = pin.failures + 1 if outcome in COUNTED_AS_FAILURES else 0
    if failures >= FAILURES_BEFORE_RETIREMENT:
        state = PinState.RETIRED
    moved = pin if state is None else move(pin, state)
    return replace(moved, failures=failures)
