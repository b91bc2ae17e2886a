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
    Outcome.OVERLOADED: KEPT,
    Outcome.NETWORK: KEPT,
    Outcome.OUR_LIMIT: KEPT,
    Outcome.CANCELLED: KEPT,
    Outcome.TIMED_OUT: KEPT,
    Outcome.KILLED: KEPT,
    Outcome.FAILED: KEPT,  # retired after the second in a row: see after
}

FAILURES_BEFORE_RETIREMENT = 2


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


def falls_back(outcome: Outcome, *, resumed: bool, tool_ran: bool) -> Reason | None:
    """Why the same run goes on with a fresh session after its first attempt, or None. Never after a tool has run."""
    reason = CONSEQUENCES[outcome].fallback
    if reason is None or tool_ran:
        return None
    if not resumed and outcome is not Outcome.OVERFLOW:
        return None  # it was fresh already; only a shorter transcript could make a difference
    return reason


def after(pin: Pin, outcome: Outcome) -> Pin:
    """The pin after an attempt that was not a success."""
    state = CONSEQUENCES[outcome].pin
    failures = pin.failures + 1 if outcome is Outcome.FAILED else 0
    if failures >= FAILURES_BEFORE_RETIREMENT:
        state = PinState.RETIRED
    moved = pin if state is None else move(pin, state)
    return replace(moved, failures=failures)
