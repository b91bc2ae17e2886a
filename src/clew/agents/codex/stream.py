"""Codex's output lines as events.

`codex exec --json` prints `thread.started` with the session's id, `turn.started`, items that start and complete, and
`turn.completed` or `turn.failed`. A message arrives complete, not in pieces. Unknown types give no event: the CLI adds
new ones in every version.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from clew.agents.adapter import OUTPUT_CHARS, LaunchProfile, StreamResult
from clew.agents.codex.diagnosis import diagnose
from clew.agents.codex.tokens import usage_from
from clew.agents.json_lines import decode
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.runs.events import AgentRetried, Event, MessageSaid, SessionStarted, ToolFinished, ToolStarted, Warned

_RETRY = re.compile(r"Reconnecting\.\.\.\s*(?:(\d+)/\d+)?[^(]*(?:\((.*)\))?", re.DOTALL)
_DONE = ("completed", "success")
_DECLINED = "declined"


class CodexReader:
    """Reads the output of one process."""

    heard = can_stay = is_idle = False  # a process answers one prompt and exits

    def __init__(self, launch: LaunchProfile) -> None:
        self.finished = False
        self._launch = launch
        self._thread: str | None = None
        self._open_tools: set[str] = set()
        self._ran = False
        self._warned: set[str] = set()  # Codex prints some errors twice
        self._total: Usage | None = None
        self._failed = False
        self._said = ""  # its last text about a failure

    @property
    def tool_ran(self) -> bool:
        """A tool without a result may still be running."""
        return self._ran or bool(self._open_tools)

    def feed(self, line: bytes) -> list[Event]:
        value = decode(line)
        read = _READERS.get(str(value.get("type"))) if value is not None else None
        if value is None or read is None:
            return []
        try:
            return read(self, value)
        except (KeyError, TypeError, ValueError, AttributeError):
            return []  # a known type with the fields of a later version

    def skip(self, head: bytes) -> None:
        """There is nothing to do: Codex's stdin was closed after the prompt, so it exits by itself."""

    def result(self, *, resumed: bool, exit_status: int | None, stderr: str) -> StreamResult:
        diagnosis = diagnose(
            wanted=(self._launch.fork_of or self._launch.session_id) if resumed else None,
            forked=self._launch.fork_of is not None,
            thread=self._thread,
            completed=self._total is not None and not self._failed,
            said=self._said,
            stderr=stderr,
            now=time.time(),
        )
        return StreamResult(diagnosis, NO_USAGE, usage_total=self._total)

    def _thread_started(self, value: dict[str, Any]) -> list[Event]:
        self._thread = str(value["thread_id"])
        return [SessionStarted(self._thread, "")]

    def _item_started(self, value: dict[str, Any]) -> list[Event]:
        item = value["item"]
        if item.get("type") not in _TOOLS:
            return []
        tool_id = str(item["id"])
        self._open_tools.add(tool_id)
        name, about = _TOOLS[item["type"]](item)
        return [ToolStarted(tool_id, name, about)]

    def _item_completed(self, value: dict[str, Any]) -> list[Event]:
        item = value["item"]
        match item.get("type"):
            case "agent_message" if item.get("text"):
                return [MessageSaid(str(item["text"]))]
            case "error" if item.get("message") not in self._warned:
                self._warned.add(item["message"])
                return [Warned("agent", str(item["message"])[:OUTPUT_CHARS])]
            case kind if kind in _TOOLS:
                return self._tool_ended(item)
        return []

    def _tool_ended(self, item: Mapping[str, Any]) -> list[Event]:
        tool_id = str(item["id"])
        started = [] if tool_id in self._open_tools else self._item_started({"item": item})
        self._open_tools.discard(tool_id)
        status = str(item.get("status") or "completed")
        declined = status == _DECLINED
        self._ran = self._ran or not declined
        failed = status not in _DONE or bool(item.get("exit_code"))
        return [*started, ToolFinished(tool_id, failed, _output(item)[:OUTPUT_CHARS], not declined, declined)]

    def _turn_completed(self, value: dict[str, Any]) -> list[Event]:
        self._total = usage_from(value.get("usage"))
        self.finished = True
        return []

    def _turn_failed(self, value: dict[str, Any]) -> list[Event]:
        self._failed = self.finished = True
        self._said = str(value["error"].get("message") or "") or self._said
        return []

    def _error(self, value: dict[str, Any]) -> list[Event]:
        message = str(value.get("message") or "")
        retry = _RETRY.match(message)
        if retry is None:
            self._said = message
            return []
        return [AgentRetried(int(retry.group(1) or 0), 0.0, (retry.group(2) or message).strip()[:500])]


_READERS: dict[str, Callable[[CodexReader, dict[str, Any]], list[Event]]] = {
    "thread.started": CodexReader._thread_started,
    "item.started": CodexReader._item_started,
    "item.completed": CodexReader._item_completed,
    "turn.completed": CodexReader._turn_completed,
    "turn.failed": CodexReader._turn_failed,
    "error": CodexReader._error,
}


def _patch(item: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    changes = item.get("changes") or []
    path = str(changes[0].get("path", "")) if len(changes) == 1 else ""
    return "apply_patch", {**({"path": path} if path else {}), "changes": changes}


def _mcp(item: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    arguments = item.get("arguments")
    return f"{item.get('server')}.{item.get('tool')}", arguments if isinstance(arguments, dict) else {}


# By the type of an item: the tool's name for the model, and its input.
_TOOLS: dict[str, Callable[[Mapping[str, Any]], tuple[str, dict[str, Any]]]] = {
    "command_execution": lambda item: ("exec_command", {"command": str(item.get("command") or "")}),
    "file_change": _patch,
    "mcp_tool_call": _mcp,
    "collab_tool_call": lambda item: (str(item.get("tool") or "agent"), {"prompt": str(item.get("prompt") or "")}),
    "web_search": lambda item: ("web_search", {"query": str(item.get("query") or "")}),
}


def _output(item: Mapping[str, Any]) -> str:
    if item.get("aggregated_output") is not None:
        return str(item["aggregated_output"])
    error = item.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message") or "")
    result = item.get("result")
    parts = result.get("content") if isinstance(result, Mapping) else None
    if isinstance(parts, list):
        return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, Mapping))
    return ""
