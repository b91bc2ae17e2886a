"""What the agent did with its tools: one line each, as they finish and afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.cli.output import one_line

if TYPE_CHECKING:
    from clew.core.tool_calls import ToolCall

TELLING = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")
NAME_CHARS = 40
TOOL_CHARS = 70


def line(call: ToolCall) -> str:
    """`· Bash touch bar`, and what went wrong, if something did."""
    about = told(call.input)
    words = [f"· {one_line(call.name, NAME_CHARS)}", *([about] if about else [])]
    return " ".join(words) + (f"  {_state(call)}" if call.state != "done" else "")


def _state(call: ToolCall) -> str:
    from clew.cli.states import WAITING

    return WAITING if call.state == "waiting" else call.state.value


def as_object(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "input": call.input, "status": call.state.value}


def told(given: Mapping[str, Any]) -> str:
    """A tool's input in a few words: what it is about, or all of it when that is not known."""
    key = telling(given)
    if key is not None:
        return one_line(given[key], TOOL_CHARS)
    return one_line(json.dumps(given, ensure_ascii=False), TOOL_CHARS) if given else ""


def telling(given: Mapping[str, Any]) -> str | None:
    """The field that says most."""
    return next((key for key in TELLING if isinstance(given.get(key), str) and given[key].strip()), None)
