"""Tool calls in Codex's session files, in the form of the stream's events.

The model's call and its result are two `response_item` lines with the same `call_id`. Codex notes what it did in an
`item_completed` line with that id, which says more: the command as it was run, the files that a patch changed, the exit
code. A call that Codex refused has no such line. For a call that started a subagent, that line has the subagent's id;
the result has it only in the first version of these tools (`multi_agent_v1`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from clew.agents.adapter import OUTPUT_CHARS, SessionCall
from clew.agents.json_lines import decode

# What the model is shown instead of a result if the tool did not run.
_REFUSED = re.compile(
    r"unsupported (?:custom tool )?call\b|patch rejected\b|[^\n]{0,500}\brejected by user approval settings"
)
_EXIT_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d+)$", re.MULTILINE)
_HEADER_CHARS = 400  # the exit code is in the lines before the output
_ABORTED = re.compile(r"(?:Wall time: [\d.]+ seconds\n)?aborted\b")
_PATCH = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+?)\s*$", re.MULTILINE)
_DONE = ("completed", "success")


class ToolCall:
    """One call, while the file is read."""

    def __init__(self, payload: Mapping[str, Any], own_id: str, work_dir: str) -> None:
        self.tool_id = str(payload.get("call_id") or own_id)
        self.name, self.input = _called(payload, work_dir)
        self.agent_id = ""  # of the subagent that it started
        self._output: str | None = None
        self._is_error = False
        self._ran = True
        self._is_noted = False  # Codex noted what it did

    def ended(self, output: Any) -> None:
        """The result that the model was shown."""
        text = _text(output)
        if self.name == "spawn_agent" and not self.agent_id:
            self.agent_id = _id((decode(text.encode("utf-8", "replace")) or {}).get("agent_id"))
        if self._is_noted:
            self._output = text if self._output is None else self._output
            return
        exit_code = _EXIT_CODE.search(text[:_HEADER_CHARS]) or _embedded_exit_code(text)
        self._ran = not _REFUSED.match(text)
        self._is_error = not self._ran or _ABORTED.match(text) is not None or _is_failure(exit_code)
        self._output = text

    def noted(self, item: Mapping[str, Any]) -> None:
        """What Codex says that it did."""
        match item.get("type"):
            case "CommandExecution":
                self.name, self.input = "exec_command", {"command": _command(item.get("command"))}
            case "FileChange" if isinstance(item.get("changes"), Mapping):
                kinds = [(path, str(_mapping(change).get("type"))) for path, change in item["changes"].items()]
                self.name, self.input = "apply_patch", _patch(kinds)
            case "McpToolCall":
                self.name, self.input = (
                    f"{item.get('server')}.{item.get('tool')}",
                    dict(_mapping(item.get("arguments"))),
                )
            case "SubAgentActivity" if item.get("kind") == "started":
                self.agent_id = _id(item.get("agent_thread_id"))
                return
            case "CollabAgentToolCall" if item.get("tool") == "spawn_agent":
                started = item.get("receiver_thread_ids")
                self.agent_id = _id(started[0]) if isinstance(started, list) and started else ""
                return
            case _:
                return
        self._is_noted = True
        status = str(item.get("status") or "completed")
        self._ran = status != "declined"
        self._is_error = status not in _DONE or bool(item.get("exit_code"))
        if isinstance(item.get("aggregated_output"), str):
            self._output = item["aggregated_output"]

    def finished(self) -> SessionCall:
        output = self._output[:OUTPUT_CHARS] if self._output is not None else None
        return SessionCall(self.tool_id, self.name, self.input, output, self._is_error, self._ran)


def is_call(payload: Mapping[str, Any]) -> bool:
    return str(payload.get("type")).endswith("_call")


def is_output(payload: Mapping[str, Any]) -> bool:
    return str(payload.get("type")).endswith("_call_output")


def _called(payload: Mapping[str, Any], work_dir: str) -> tuple[str, dict[str, Any]]:
    """The tool's name and input, as the events of a stream have them."""
    kind, name = str(payload.get("type")), str(payload.get("name") or "")
    match kind:
        case "local_shell_call":
            return "exec_command", {"command": _command(_mapping(payload.get("action")).get("command"))}
        case "web_search_call":
            return "web_search", {"query": str(_mapping(payload.get("action")).get("query") or "")}
        case "custom_tool_call" if name == "apply_patch":
            return name, _patch_in(str(payload.get("input") or ""), work_dir)
        case "custom_tool_call":
            return name, {"input": str(payload.get("input") or "")}
    given = payload.get("arguments")
    arguments = decode(given.encode("utf-8", "replace")) if isinstance(given, str) else given
    if not isinstance(arguments, Mapping):
        return name or kind.removesuffix("_call"), {"arguments": str(given or "")}
    if name in ("exec_command", "shell", "shell_command"):
        return "exec_command", {"command": _command(arguments.get("cmd") or arguments.get("command"))}
    if name == "apply_patch":
        return name, _patch_in(str(arguments.get("input") or arguments.get("patch") or ""), work_dir)
    return name or kind.removesuffix("_call"), dict(arguments)


def _patch_in(text: str, work_dir: str) -> dict[str, Any]:
    base = PurePosixPath(work_dir)
    return _patch([(str(base / path), kind.lower()) for kind, path in _PATCH.findall(text)])


def _patch(kinds: list[tuple[str, str]]) -> dict[str, Any]:
    changes = [{"path": path, "kind": kind} for path, kind in kinds]
    return {**({"path": kinds[0][0]} if len(kinds) == 1 else {}), "changes": changes}


def _command(given: Any) -> str:
    if isinstance(given, list):
        return shlex.join(str(word) for word in given)
    return str(given or "")


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    parts = output if isinstance(output, list) else [_mapping(output).get("content")]
    return "\n".join(str(_mapping(part).get("text") or "") if not isinstance(part, str) else part for part in parts)


def _embedded_exit_code(text: str) -> re.Match[str] | None:
    """Older versions write the result as JSON."""
    return re.search(r'"exit_code":\s*(-?\d+)', text) if text.startswith('{"output"') else None


def _is_failure(exit_code: re.Match[str] | None) -> bool:
    return exit_code is not None and exit_code[1] != "0"


def _id(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
