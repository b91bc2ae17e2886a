"""How far an agent came and what it did with its tools, told to a session that does not know it.

A run that is cut off leaves words in the thread's history, and its tool calls only in its events. A session that goes
on by itself remembers them; a fresh one on another machine must be told, or it does them again. The last message is
named, so that it is clear where the work stopped. Calls are told in short, the newest first to be kept, each on a line
of its own; what they say is quoted and escaped like a turn's text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.core.events import Event, ToolFinished, ToolStarted
from clew.core.job import Marker
from clew.core.prompts import escape
from clew.core.record import Record

LIMIT_CHARS = 6_000  # of all calls together
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
    output: str | None = None  # None: it had not come back when the run was cut off
    failed: bool = False


def calls(events: Iterable[Event | None]) -> tuple[Call, ...]:
    """Of one run, in order; without those that never ran."""
    found: dict[str, Call | None] = {}
    for event in events:
        if isinstance(event, ToolStarted):
            found[event.tool_id] = Call(event.name, event.input)
        elif isinstance(event, ToolFinished) and (begun := found.get(event.tool_id)) is not None:
            ended = Call(begun.name, begun.input, event.output, event.is_error)
            found[event.tool_id] = ended if event.ran else None
    return tuple(call for call in found.values() if call is not None)


def work_done(made: Sequence[Call], last: Marker | None) -> str | None:
    """The last message and the calls; None when there is nothing to tell."""
    listed = told(made)
    parts = [_last_message(last) if last is not None else None, f"{NOTE}\n\n{listed}" if listed else None]
    return "\n\n".join(part for part in parts if part) or None


def _last_message(last: Marker) -> str:
    """By its number, as `clew jobs show` lists them, and the beginning and end of what it said."""
    said = f": “{escape(_short(last.text, MESSAGE_CHARS))}”" if last.text.strip() else "."
    return f"The last whole message before the work was cut off was number {last.number}{said}"


def told(made: Sequence[Call], limit_chars: int = LIMIT_CHARS) -> str | None:
    """The calls as a list, or None when there is nothing to tell."""
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
    """On one line, whatever ends a line."""
    line = " ".join(text.encode("utf-8", "replace").decode().split())
    return line if len(line) <= limit else f"{line[: limit * 2 // 3]} … {line[-(limit // 3) :]}"
