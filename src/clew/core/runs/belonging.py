"""What a run belongs to, and so whose cost it is."""

from __future__ import annotations

from clew.core.record import Record


class HostItem(Record):
    """A job, a review or a pair."""

    kind: str  # "job", "review" or "pair"
    id: str
    name: str | None = None  # of a pair


class RunBelonging(Record):
    """The thread of a run, and the job, the review or the pair that the run is part of."""

    thread: str  # its name
    kind: str  # of the thread: "chat", "job", "review", "hook", "pair"
    item: HostItem | None = None  # None: a conversation with a person
