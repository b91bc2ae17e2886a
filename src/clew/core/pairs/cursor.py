"""A place in the events of a pair: a follower that reconnects gives the last one that it has seen."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from clew.core.pairs.pair import PairEvent
from clew.core.record import Record
from clew.errors import UsageError

# The steps of a round, in their order.
OPENED, INSTRUCTING, ORDERED, WORKING, WORKED, ENDED = range(6)
AFTER_RUN = 2**62  # more than any run's events


class PairCursor(NamedTuple):
    """Cursors are ordered as the events are. The first event is after `BEGINNING`."""

    round: int = 0
    step: int = 0
    run: int = 0  # of this part in this round, from 1; 0: the event is not a run's
    seq: int = 0  # the number of the event within its run

    def __str__(self) -> str:
        """`3.1.2.17`; `parse` reads it."""
        return ".".join(str(number) for number in self)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises UsageError."""
        if not re.fullmatch(r"\d{1,18}(\.\d{1,18}){3}", text, re.ASCII):
            raise UsageError(
                f"{text[:100]!r} is not a place in the events of a pair.", hint="Give one such as 3.1.2.17."
            )
        return cls(*(int(number) for number in text.split(".")))


BEGINNING = PairCursor()
AT_END = PairCursor(AFTER_RUN)  # after every event: a follower from here on only waits for the end


class FollowedEvent(Record):
    """An event of a pair that any process runs, as the store has it."""

    cursor: PairCursor
    event: PairEvent
