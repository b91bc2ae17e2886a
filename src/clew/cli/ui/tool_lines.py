"""What the agent did with its tools: one line for each call, and the input of a call as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.cli.ui.formatting import harmless, one_line
from clew.cli.ui.state_labels import WAITING

if TYPE_CHECKING:
    from clew.core.runs.tool_calls import ToolCall

MAIN_FIELDS = ("command", "file_path", "path", "pattern", "url", "query", "description", "prompt")  # the best first
NAME_CHARS = 40
SUMMARY_CHARS = 70
MAX_LINES = 14
MAX_CHARS = 1_500


def tool_line(call: ToolCall) -> str:
    """`· Bash touch bar`, followed by the state of the call unless it is done."""
    summary = input_summary(call.input)
    words = [f"· {one_line(call.name, NAME_CHARS)}", *([summary] if summary else [])]
    state = WAITING if call.state == "waiting" else call.state.value
    return " ".join(words) + (f"  {state}" if call.state != "done" else "")


def as_object(call: ToolCall) -> dict[str, Any]:
    return {"name": call.name, "input": call.input, "status": call.state.value}


def input_summary(given: Mapping[str, Any]) -> str:
    """A tool's input on one line: its main field, or all of it as JSON if it has none."""
    key = main_field(given)
    if key is not None:
        return one_line(given[key], SUMMARY_CHARS)
    return one_line(json.dumps(given, ensure_ascii=False), SUMMARY_CHARS) if given else ""


def main_field(given: Mapping[str, Any]) -> str | None:
    return next((key for key in MAIN_FIELDS if isinstance(given.get(key), str) and given[key].strip()), None)


def input_text(given: Mapping[str, Any]) -> str:
    """A tool's whole input: one line for each field; a value of several lines is indented below its name."""
    parts = []
    for key, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = harmless(text)
        parts.append(f"{harmless(key)}: {text}" if "\n" not in text else f"{harmless(key)}:\n{indented(text)}")
    return "\n".join(parts) or "(no input)"


def shortened(text: str, max_lines: int = MAX_LINES, max_chars: int = MAX_CHARS) -> str:
    """At most that many lines and characters. A text that is cut says how much is missing."""
    lines = text.splitlines()
    kept = "\n".join(lines[:max_lines])[:max_chars]
    if len(kept) == len(text):
        return text
    return f"{kept}\n… {len(text) - len(kept):,} more characters"


def indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
