"""What a run belongs to, and so whose cost it is."""

from __future__ import annotations

from typing import Any

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

    def to_json(self) -> dict[str, Any]:
        """The keys of a run's object on the command line and in the HTTP API."""
        return {"kind": self.kind, "belongs_to": None if self.item is None else self.item.as_dict()}
