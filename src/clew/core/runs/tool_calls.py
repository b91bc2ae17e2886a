"""The tool calls of a run, and their states. Nothing else determines the state of a tool call.

state        when
running      the agent has called the tool, and there is no result yet
waiting      a question about the call is open: a person is asked, whichever tool it is
done         the tool returned
failed       the tool returned an error, does not exist, got a wrong input, or was stopped while it ran
declined     a person or a rule refused the call: the thread's permissions, or the agent's own rules and hooks
unfinished   the run has ended, and there was no result

The page has the same rules in TypeScript (`web/page/state/progress.ts`); `tests/core/tool_states.json` checks both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from clew.core.record import Record, replace
from clew.core.runs.events import (
    AttemptStarted,
    Event,
    QuestionAnswered,
    QuestionAsked,
    QuestionWithdrawn,
    RunEnded,
    ToolFinished,
    ToolStarted,
)


class ToolState(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"
    DECLINED = "declined"
    UNFINISHED = "unfinished"


OPEN = frozenset({ToolState.RUNNING, ToolState.WAITING})


class ToolCall(Record):
    """One call of a tool."""

    tool_id: str
    name: str
    input: Mapping[str, Any]
    state: ToolState


class ToolLog:
    """Feed it a run's events in order."""

    def __init__(self) -> None:
        self.calls: dict[str, ToolCall] = {}  # by id, in the order in which they started
        self._asked: dict[str, str] = {}  # by open question: the id of the call that it is about
        self._refused: set[str] = set()  # ids of calls that were refused

    def feed(self, event: Event | None) -> ToolCall | None:
        """Returns the call that this event ends, if it ends one."""
        match event:
            case ToolStarted():
                state = ToolState.WAITING if event.tool_id in self._asked.values() else ToolState.RUNNING
                self.calls[event.tool_id] = ToolCall(event.tool_id, event.name, event.input, state)
            case QuestionAsked():
                self._ask(event)
            case QuestionAnswered() | QuestionWithdrawn():
                self._settle(event)
            case ToolFinished() if event.tool_id in self.calls:
                return self._move(event.tool_id, self._end(event))
            case AttemptStarted() | RunEnded():
                for call in [call for call in self.calls.values() if call.state in OPEN]:
                    self._move(call.tool_id, ToolState.UNFINISHED)
        return None

    def _ask(self, event: QuestionAsked) -> None:
        tool_id = event.tool_id or self._alike(event)
        if tool_id is not None:
            self._asked[event.question_id] = tool_id
            self._move(tool_id, ToolState.WAITING)

    def _alike(self, event: QuestionAsked) -> str | None:
        """The running call with the same tool and input, for an agent that does not say which call it asks about."""
        for call in self.calls.values():
            if call.state is ToolState.RUNNING and call.name == event.tool and call.input == event.input:
                return call.tool_id
        return None

    def _settle(self, event: QuestionAnswered | QuestionWithdrawn) -> None:
        tool_id = self._asked.pop(event.question_id, None)
        if tool_id is None:
            return
        if isinstance(event, QuestionAnswered) and not event.allowed:
            self._refused.add(tool_id)
        self._move(tool_id, ToolState.RUNNING)

    def _end(self, event: ToolFinished) -> ToolState:
        if event.declined or (not event.ran and event.tool_id in self._refused):
            return ToolState.DECLINED
        return ToolState.FAILED if event.is_error or not event.ran else ToolState.DONE

    def _move(self, tool_id: str, state: ToolState) -> ToolCall | None:
        call = self.calls.get(tool_id)
        if call is not None and call.state in OPEN:
            self.calls[tool_id] = replace(call, state=state)
        return self.calls.get(tool_id)


def calls(events: Iterable[Event | None]) -> list[ToolCall]:
    """Every tool call, in the order in which they started."""
    log = ToolLog()
    for event in events:
        log.feed(event)
    return list(log.calls.values())
