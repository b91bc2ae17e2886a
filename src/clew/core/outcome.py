"""How an attempt ended, and what follows from it.

`classify` takes what the engine did (stopped it or not) and what the adapter read (its diagnosis) and names the class.
`CONSEQUENCES` is the design's outcome table as data: what becomes of the pin, whether the same run falls back to a
fresh session. Never after a tool has run (law 6): work done twice is worse than no answer.
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
    BILLING = "billing"  # nothing left to pay with: no login helps, and no waiting
    WRONG_MODEL = "wrong_model"  # the model does not exist, or this account may not use it
    MEDIA_REMOVED = "media_removed"  # the agent took an image or document that was refused out of its session
    OVERLOADED = "overloaded"
    NETWORK = "network"
    OUR_LIMIT = "our_limit"  # turns or budget that we set
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"
    KILLED = "killed"  # the agent died, or we did
    FAILED = "failed"  # anything else


class Stop(StrEnum):
    """Why the engine ended an attempt itself."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"  # wall clock
    IDLE = "idle"  # nothing came for too long


class Diagnosis(Record):
    """What an adapter read from the end of a stream: by structure first, by prose second."""

    answered: bool  # a result line that is a real success
    outcome: Outcome | None = None  # the class it recognised, if it did
    message: str = ""  # the agent's own words, one line
    resets_at: float | None = None


class Consequence(Record):
    """One row of the table."""

    pin: PinState | None  # None: kept as it is
    fallback: Reason | None = None  # fresh in the same run, once and if no tool ran, for this reason


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
    Outcome.MEDIA_REMOVED: KEPT,  # retired after the second in a row: see after
    Outcome.OVERLOADED: KEPT,
    Outcome.NETWORK: KEPT,
    Outcome.OUR_LIMIT: KEPT,
    Outcome.CANCELLED: KEPT,
    Outcome.TIMED_OUT: KEPT,
    Outcome.KILLED: KEPT,
    Outcome.FAILED: KEPT,  # retired after the second in a row: see after
}

FAILURES_BEFORE_RETIREMENT = 2
COUNTED_AS_FAILURES = frozenset({Outcome.FAILED, Outcome.MEDIA_REMOVED})  # what another try in the session may fix


def classify(diagnosis: Diagnosis, *, stopped: Stop | None, exit_status: int | None) -> Outcome:
    """The class of an ended attempt. `stopped` is None when the answer had come before the stop could bite."""
    if stopped is Stop.CANCELLED:
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

    `can_shorten`: what a fresh session would be shown after an overflow is less than this one was shown.
    """
    reason = CONSEQUENCES[outcome].fallback
    if tool_ran:
        return None
    if not resumed and not (outcome is Outcome.OVERFLOW and can_shorten):
        return None  # it was fresh already, and would be asked the same again
    return reason


def after(pin: Pin, outcome: Outcome) -> Pin:
    """The pin after an attempt that was not a success."""
    state = CONSEQUENCES[outcome].pin
    failures = pin.failures + 1 if outcome in COUNTED_AS_FAILURES else 0
    if failures >= FAILURES_BEFORE_RETIREMENT:
        state = PinState.RETIRED
    moved = pin if state is None else move(pin, state)
    return replace(moved, failures=failures)
