"""The work that an interrupted agent has already done, described for a session that does not know it.

The text of an interrupted run is in the thread's history, but its tool calls are only in its events. A resumed session
remembers them. A fresh session, perhaps on another machine, must be told, or it repeats them. The last message is
named, so that it is clear where the work stopped. Each call is one short line; when there are too many, the newest are
kept. What the calls contain is quoted and escaped like a turn's text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.core.jobs.job import ProgressMarker
from clew.core.prompts import escape
from clew.core.record import Record
from clew.core.runs.events import Event, ToolFinished, ToolStarted

LIMIT_CHARS = 6_000  # for all calls together
NAME_CHARS = 100
INPUT_CHARS = 400
OUTPUT_CHARS = 400
MESSAGE_CHARS = 400

NOTE = (
    "These calls of tools were made in the last turns of the conversation. What they did is done: do not make them "
    "again. Of one that was cut off, look what has come of it."
)


class Call(Record):
    """One use of a tool."""

    name: str
    input: Mapping[str, Any]
    output: str | None = None  # None: it had not returned when the run was interrupted
    failed: bool = False


def calls(events: Iterable[Event | None]) -> tuple[Call, ...]:
    """The calls of one run, in order, without those that never ran."""
    found: dict[str, Call | None] = {}
    for event in events:
        if isinstance(event, ToolStarted):
            found[event.tool_id] = Call(event.name, event.input)
        elif isinstance(event, ToolFinished) and (started := found.get(event.tool_id)) is not None:
            ended = Call(started.name, started.input, event.output, event.is_error)
            found[event.tool_id] = ended if event.ran else None
    return tuple(call for call in found.values() if call is not None)


def work_done(made: Sequence[Call], last: ProgressMarker | None) -> str | None:
    """The last message and the calls; None when there are neither."""
    listed = call_list(made)
    parts = [_last_message(last) if last is not None else None, f"{NOTE}\n\n{listed}" if listed else None]
    return "\n\n".join(part for part in parts if part) or None


def _last_message(last: ProgressMarker) -> str:
    """The last message: its number, as `clew jobs show` lists it, and the beginning and end of its text."""
    said = f": “{escape(_short(last.text, MESSAGE_CHARS))}”" if last.text.strip() else "."
    return f"The last whole message before the work was cut off was number {last.number}{said}"


def call_list(made: Sequence[Call], limit_chars: int = LIMIT_CHARS) -> str | None:
    """The calls as a list, or None when there are none."""
    lines: list[str] = []
    for call in reversed(made):
        line = _line(call)
        if sum(map(len, lines)) + len(line) > limit_chars:
            break
        lines.append(line)
    left_out = len(made) - len(lines)
    if left_out:
        lines.append(f"[{left_out:,} earlier {'call' if left_out == 1 else 'calls'} left out here.]")
    return "\n".join(reversed(lines)) or None


def _line(call: Call) -> str:
    given = _short(json.dumps(dict(call.input), ensure_ascii=False), INPUT_CHARS)
    what = f"- {_short(call.name, NAME_CHARS)} {given}"
    if call.output is None:
        return escape(f"{what}: cut off while it ran")
    end = "failed" if call.failed else "done"
    return escape(f"{what}: {end}, {_short(json.dumps(call.output, ensure_ascii=False), OUTPUT_CHARS)}")


def _short(text: str, limit: int) -> str:
    """On one line, without its middle if it is too long."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= limit else f"{line[: limit * 2 // 3]} … {line[-(limit // 3) :]}"
