"""The result of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clew.core.costs.usage import Usage
from clew.core.record import Record
from clew.core.runs.events import Event, Warned
from clew.core.runs.run import Run
from clew.errors import ClewError, UsageLimit
from clew.store.store import Store


class Reply(Record):
    """How a run ended. `error` is None when it was answered."""

    thread: str
    run: str
    agent: str
    model: str | None
    status: str
    text: str
    session_id: str | None
    session_resumed: bool
    reason: str | None  # why the session was fresh; of a resumed one, why it was rewound or copied
    fallback: bool
    usage: Usage
    cost_usd: float
    error: ClewError | None
    warnings: tuple[str, ...] = ()
    rewound_to: int | None = None  # the number of the turn to which the session was rewound

    def to_json(self) -> dict[str, Any]:
        """The object that `clew ask --json` prints."""
        error = None if self.error is None else error_json(self.error)
        return self.as_dict() | {"error": error, "warnings": list(self.warnings)}


def error_json(error: ClewError) -> dict[str, Any]:
    """The error as JSON. Only a usage limit has `resets_at`: epoch seconds, or null when the agent did not say."""
    body: dict[str, Any] = {"code": error.code, "message": error.message, "hint": error.hint}
    return body | ({"resets_at": error.resets_at} if isinstance(error, UsageLimit) else {})


def stored_reply(store: Store, run: Run) -> Reply:
    turn = store.turns.find(run.answer_turn_id) if run.answer_turn_id is not None else None
    name = store.threads.require_by_id(run.thread_id).name
    events = [each.event for each in store.events.steps(run.id)]
    return reply_of(run, name, turn.text if turn is not None else "", error_of_run(run), events)


def error_of_run(run: Run) -> ClewError | None:
    """Why a run that is over gave no answer, from what is stored. None: it answered."""
    from clew.engine.finish import failures

    return failures.error_of_run(run)


def reply_of(run: Run, thread: str, text: str, error: ClewError | None, events: Iterable[Event | None]) -> Reply:
    return Reply(
        thread=thread,
        run=run.id,
        agent=run.agent,
        model=run.model,
        status=run.status,
        text=text,
        session_id=run.session_id,
        session_resumed=run.session_resumed,
        reason=run.reason,
        fallback=run.fallback,
        usage=run.usage,
        cost_usd=run.cost_usd,
        error=error,
        warnings=tuple(event.message for event in events if isinstance(event, Warned)),
        rewound_to=run.rewound_to,
    )
