"""What the agent did with its tools: one line each, as they finish and afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from clew.cli.output import one_line
from clew.core.events import Event, QuestionAnswered, QuestionAsked, ToolFinished, ToolStarted
from clew.core.record import Record, replace

TELLING = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
NAME_CHARS = 40
TOOL_CHARS = 70

DONE = "done"
FAILED = "failed"
DECLINED = "declined"
UNFINISHED = "unfinished"


class ToolCall(Record):
    """One use of a tool, and what came of it."""

    tool_id: str
    name: str
    input: Mapping[str, Any]
    status: str

    def __str__(self) -> str:
        """`· Bash touch bar`, and what went wrong, if something did."""
        about = told(self.input)
        words = [f"· {one_line(self.name, NAME_CHARS)}", *([about] if about else [])]
        return " ".join(words) + (f"  {self.status}" if self.status != DONE else "")

    def as_object(self) -> dict[str, Any]:
        return {"name": self.name, "input": self.input, "status": self.status}


class ToolLog:
    """Feed it a run's events in order."""

    def __init__(self) -> None:
        self.calls: dict[str, ToolCall] = {}  # by id, in the order in which they began
        self._asked: dict[str, str] = {}  # questions that are open: which tool each is about
        self._declined: Counter[str] = Counter()  # by tool: those that have not been seen to end yet

    def feed(self, event: Event | None) -> ToolCall | None:
        """The call that this event is the end of."""
        match event:
            case ToolStarted():
                self.calls[event.tool_id] = ToolCall(event.tool_id, event.name, event.input, UNFINISHED)
            case QuestionAsked():
                self._asked[event.question_id] = event.tool
            case QuestionAnswered(allowed=False):
                self._declined[self._asked.pop(event.question_id, "")] += 1
            case ToolFinished() if event.tool_id in self.calls:
                call = self.calls[event.tool_id]
                self.calls[event.tool_id] = replace(call, status=self._status(call.name, event))
                return self.calls[event.tool_id]
        return None

    def _status(self, name: str, event: ToolFinished) -> str:
        if not event.ran and self._declined[name]:
            self._declined[name] -= 1
            return DECLINED
        return FAILED if event.is_error or not event.ran else DONE


def calls(events: Iterable[Event | None]) -> list[ToolCall]:
    """Every use of a tool, in the order in which they began."""
    log = ToolLog()
    for event in events:
        log.feed(event)
    return list(log.calls.values())


def told(given: Mapping[str, Any]) -> str:
    """A tool's input in a few words: what it is about, or all of it when that is not known."""
    key = telling(given)
    if key is not None:
        return one_line(given[key], TOOL_CHARS)
    return one_line(json.dumps(given, ensure_ascii=False), TOOL_CHARS) if given else ""


def telling(given: Mapping[str, Any]) -> str | None:
    """The field that says most."""
    return next((key for key in TELLING if isinstance(given.get(key), str) and given[key].strip()), None)
