"""Runs and their events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from clew.api.wire.failures import Failure
from clew.api.wire.questions import Question, question
from clew.api.wire.run_failures import failure_of
from clew.api.wire.shape import Doc, Money, Shape, Time
from clew.api.wire.usage import Usage
from clew.core.runs.run import LIVE

if TYPE_CHECKING:
    from clew.core.runs.run import Run as RunRecord
    from clew.core.runs.run import RunBelonging
    from clew.store.records import RunView, StoredEvent

Status = Literal["queued", "running", "waiting", "answered", "cancelled", "timed_out", "failed", "interrupted"]


class RunSummary(Shape):
    """The part of a run that is shown beside a turn."""

    id: str
    status: Status
    outside: Annotated[bool, Doc("It was made outside Clew, in the agent's own CLI, and brought in")]
    session_resumed: bool
    reason: Annotated[str | None, Doc("Why its session was fresh; of a resumed one, why it was rewound or copied")]
    rewound_to: Annotated[
        int | None, Doc("The number of the turn to which the session was rewound; null: it was not rewound")
    ]
    rewound_to_turn_id: str | None
    fallback: bool
    error: Annotated[Failure | None, Doc("Null if the run was answered, or has not ended")]
    resets_at: Annotated[Time | None, Doc("When the usage limit that ended it resets, if the agent said so")]
    stderr_tail: Annotated[str, Doc('The end of the agent\'s stderr; "" unless it failed')]
    usage: Usage
    cost_usd: Annotated[Money, Doc("As the agent reports it; 0 if the agent reports no cost")]
    estimate_usd: Annotated[Money | None, Doc("An estimate of what the whole transcript would have cost")]
    prompt_chars: int
    transcript_chars: int
    started_at: Time | None
    ended_at: Time | None


class HostItem(Shape):
    """A job, a review or a pair."""

    kind: Literal["job", "review", "pair"]
    id: str
    name: Annotated[str | None, Doc("Of a pair")]


class Run(RunSummary):
    """One try to get an agent's answer to a prompt."""

    thread_id: str
    kind: Annotated[str, Doc("Of its thread: chat, job, review, hook or pair")]
    belongs_to: Annotated[HostItem | None, Doc("The job, review or pair that it is part of, and whose cost it is")]
    agent: str
    model: str | None
    prompt: str
    typed: Annotated[str | None, Doc("What the user typed, if `prompt` is what it stood for")]
    prompt_turn_id: str
    answer_turn_id: str | None
    session_id: str | None
    outcome: str | None
    question: Annotated[Question | None, Doc("The first open question")]
    held: Annotated[bool, Doc("Queued; it starts only when it is sent, because the run before it was stopped")]
    cancel_requested: bool
    not_before: Annotated[
        Time | None, Doc("The earliest start of a run that is queued until a usage limit resets; else null")
    ]
    last_seq: Annotated[int, Doc("The number of its newest event")]
    created_at: Time


class RunList(Shape):
    items: list[Run]


class Event(Shape):
    seq: int
    at: Time
    kind: str
    body: dict[str, Any]


class EventList(Shape):
    items: list[Event]


def run_summary(record: RunRecord, stderr_tail: str) -> RunSummary:
    return RunSummary.of(record, **_computed(record, stderr_tail))


def run(view: RunView) -> Run:
    record, asked = view.run, view.question
    return Run.of(
        record,
        **_computed(record, view.stderr_tail),
        kind=view.belonging.kind,
        belongs_to=host_item(view.belonging),
        question=None if asked is None else question(asked, live=record.status in LIVE),
        held=record.asked.held,
        not_before=record.asked.not_before,
        last_seq=view.last_seq,
    )


def host_item(belonging: RunBelonging) -> HostItem | None:
    """The job, the review or the pair that a run is part of. None: the run is of a conversation with a person."""
    return None if belonging.item is None else HostItem.of(belonging.item)


def _computed(record: RunRecord, stderr_tail: str) -> dict[str, Any]:
    return {"error": failure_of(record), "stderr_tail": stderr_tail, "usage": Usage.of(record.usage)}


def event(stored: StoredEvent) -> Event:
    return Event.of(stored, body=dict(stored.body))
