"""Claude's output lines as events.

Every line is decoded at most twice: first only its type, which tells whether the rest is needed (a tool's output can be
megabytes); then all of it. Unknown types give no event: the CLI adds new ones in every version.

A process that stays answers one prompt after another. Its `command_lifecycle` lines name the prompt that it works on,
by our uuid: `queued` and `started` before its first line, `completed` as the last line after its result. A background
task makes the CLI start turns by itself, long after that, so such a process does not stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from clew.agents.adapter import StreamResult
from clew.agents.claude.diagnosis import diagnose
from clew.agents.claude.numbers import number, usage
from clew.agents.claude.tool_result import read_tool_result
from clew.agents.json_lines import decode
from clew.core.costs.usage import NO_USAGE, RequestUsage, Usage
from clew.core.record import fields_of, replace
from clew.core.runs.events import (
    AgentRetried,
    Compacted,
    Event,
    MessageSaid,
    QuestionAsked,
    QuestionWithdrawn,
    SessionStarted,
    TextStreamed,
    TextWithdrawn,
    TokensCounted,
    ToolFinished,
    ToolStarted,
    Warned,
)

IMAGE_REMOVED = (
    "The model's service refused an image: Claude removed it from the session, and answers without it. "
    "Ask again with another image."
)
QUESTION_TOOL = "AskUserQuestion"

_IMAGE_REMOVED = "an image in the conversation could not be processed and was removed"

# Tools that have ended when they return, unless they are asked to run in the background. Others may wake the CLI later.
_SYNCHRONOUS = frozenset(
    {
        *("Bash", "Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "NotebookRead", "Glob", "Grep", "LS"),
        *("Task", "Agent", "WebFetch", "WebSearch", "TodoWrite", QUESTION_TOOL, "ExitPlanMode", "Skill", "ToolSearch"),
    }
)

_RESULT = re.compile(rb'\A\s*\{\s*"type"\s*:\s*"result"')


class _Head(msgspec.Struct):
    type: str = ""
    subtype: str = ""


_HEAD = msgspec.json.Decoder(_Head)


def _decode(line: bytes) -> dict[str, Any] | None:
    """None: the line is not a JSON object of a type that is used."""
    try:
        if _HEAD.decode(line).type not in _READERS:
            return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # perhaps the tolerant parser can read it
    value = decode(line)
    return value if value is not None and str(value.get("type")) in _READERS else None


class ClaudeReader:
    """Reads the output of one turn."""

    def __init__(self, prompt_id: str = "", *, warm: bool = False) -> None:
        self._prompt_id = prompt_id
        self._is_deaf = warm  # until the CLI takes our prompt up: what comes before is not of this turn
        self.heard = False
        self.finished = False
        self._completed = False  # the turn's last line has arrived
        self._lingers = False  # something may go on in the background
        self._has_news = False  # the CLI has told of a task that ended with an earlier process
        self._open_tools: dict[str, str] = {}  # names by id
        self._ran = False
        self._results: list[dict[str, Any]] = []  # more than one when a background task ends after the answer
        self._error: dict[str, Any] | None = None
        self._image_removed = False  # the API refused an image, and the CLI asks again without it
        self._has_pieces = False  # pieces of an incomplete message have arrived
        self._resets_at: float | None = None  # when the account's limit resets, if it is reached
        self._usage: dict[str, Usage] = {}  # by message id: one message arrives in several lines

    @property
    def can_stay(self) -> bool:
        return self.heard and not self._lingers and not any(each.get("is_error") for each in self._results)

    @property
    def is_idle(self) -> bool:
        return self.can_stay and self._completed and bool(self._results)

    @property
    def tool_ran(self) -> bool:
        """A tool without a result may still be running."""
        return self._ran or bool(self._open_tools)

    def feed(self, line: bytes) -> list[Event]:
        value = _decode(line)
        if value is None or (self._is_deaf and not self._is_of_prompt(value)):
            return []
        try:
            return _READERS[value["type"]](self, value)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return []  # a known type with the fields of a later version

    def _is_of_prompt(self, value: Mapping[str, Any]) -> bool:
        return value["type"] == "command_lifecycle" and value.get("command_uuid") == self._prompt_id

    def skip(self, head: bytes) -> None:
        if self._is_deaf:
            return
        if _RESULT.search(head):
            self.finished = True

    def result(self, *, resumed: bool, exit_status: int | None, stderr: str) -> StreamResult:
        result = self._results[0] if self._results else None  # later results are about background tasks
        diagnosis = diagnose(result, self._error, resumed=resumed, stderr=stderr, resets_at=self._resets_at)
        requests = self._requests()
        if result is None:
            return StreamResult(diagnosis, self._streamed(), requests=requests, uncounted=self._streamed())
        counted = sum((usage(each.get("usage")) for each in self._results), NO_USAGE)
        cut_off = self._cut_off(counted)
        return StreamResult(
            diagnosis,
            counted + cut_off,
            cost_usd=_own_cost(self._results),
            cost_total_usd=number(self._results[-1].get("total_cost_usd")),
            requests=requests,
            uncounted=cut_off,
        )

    def _cut_off(self, counted: Usage) -> Usage:
        """What an interrupted message used: neither this run's results nor the totals of later runs include it."""
        streamed = self._streamed()
        if not self._results[0].get("is_error") or streamed.shown_tokens <= counted.shown_tokens:
            return NO_USAGE
        return Usage(**{name: max(0, getattr(streamed, name) - getattr(counted, name)) for name in fields_of(Usage)})

    def _lifecycle(self, value: dict[str, Any]) -> list[Event]:
        if self._prompt_id and self._is_of_prompt(value):
            self.heard, self._is_deaf = True, False
            self._completed = value["state"] == "completed"
        return []

    def _system(self, value: dict[str, Any]) -> list[Event]:
        match value.get("subtype"):
            case "init":
                return [SessionStarted(str(value["session_id"]), str(value.get("model") or ""))]
            case "api_retry":
                delay_s = float(value.get("retry_delay_ms") or 0) / 1000
                return [AgentRetried(int(value.get("attempt") or 0), delay_s, str(value.get("error") or "error"))]
            case "compact_boundary":
                return [Compacted()]
            case "task_started":
                self._lingers |= value.get("is_backgrounded") is not False
            case "background_tasks_changed":
                self._lingers = True
            case "task_notification":
                self._has_news = True
        return []

    def _stream_event(self, value: dict[str, Any]) -> list[Event]:
        if value.get("parent_tool_use_id"):
            return []  # it belongs to a subagent
        event = value["event"]
        match event.get("type"):
            case "content_block_delta" if event["delta"].get("type") == "text_delta":
                self._has_pieces = True
                return [TextStreamed(str(event["delta"]["text"]))]
            case "message_start":
                message = event["message"]
                self._usage[str(message["id"])] = usage(message.get("usage"))
                withdrawn: list[Event] = [TextWithdrawn()] if self._has_pieces else []
                self._has_pieces = False
                return [*withdrawn, *self._warnings(), TokensCounted(self._streamed())]
            case "message_delta" if value.get("api_message_id") in self._usage:
                key = str(value["api_message_id"])
                started = self._usage[key]
                output = int((event.get("usage") or {}).get("output_tokens") or started.output_tokens)
                self._usage[key] = replace(started, output_tokens=output)
                return [TokensCounted(self._streamed())]
        return []

    def _requests(self) -> RequestUsage | None:
        used = list(self._usage.values())
        return RequestUsage(used[0], used[-1], len(used)) if used else None

    def _streamed(self) -> Usage:
        return sum(self._usage.values(), NO_USAGE)

    def _assistant(self, value: dict[str, Any]) -> list[Event]:
        message = value["message"]
        own = not value.get("parent_tool_use_id")
        if value.get("is_api_error_message") or message.get("model") == "<synthetic>":
            self._error = value if own else self._error  # a subagent's error is not the run's
            self._image_removed = own and any(_IMAGE_REMOVED in str(each.get("text")) for each in message["content"])
            return []
        events: list[Event] = self._warnings() if own else []
        for block in message["content"]:
            if block.get("type") == "text" and own and block.get("text"):
                self._has_pieces = False
                events.append(MessageSaid(str(block["text"]), value.get("uuid")))
            elif block.get("type") == "tool_use":
                tool_id, name = str(block["id"]), str(block["name"])
                self._open_tools[tool_id] = name
                self._lingers |= _may_linger(name, block.get("input"))
                events.append(ToolStarted(tool_id, name, block.get("input") or {}))
        return events

    def _warnings(self) -> list[Event]:
        """The CLI asked again without an image, and now there is an answer. Without one, it is the run's error."""
        removed, self._image_removed = self._image_removed, False
        return [Warned("image_removed", IMAGE_REMOVED)] if removed else []

    def _user(self, value: dict[str, Any]) -> list[Event]:
        content = value["message"].get("content")
        if not isinstance(content, list):
            return []
        metas = {meta.get("id"): meta for meta in value.get("tool_result_meta") or () if isinstance(meta, Mapping)}
        return [
            self._tool_result(block, metas.get(block.get("tool_use_id")) or {})
            for block in content
            if block.get("type") == "tool_result"
        ]

    def _tool_result(self, block: Mapping[str, Any], meta: Mapping[str, Any]) -> Event:
        result = read_tool_result(block, meta, self._open_tools.pop(str(block["tool_use_id"]), ""))
        self._ran = self._ran or result.ran
        return ToolFinished(result.tool_id, result.is_error, result.output, result.ran, result.declined)

    def _control_request(self, value: dict[str, Any]) -> list[Event]:
        request = value["request"]
        if request.get("subtype") != "can_use_tool":
            return []
        question_id, tool, tool_id = str(value["request_id"]), str(request["tool_name"]), request.get("tool_use_id")
        return [
            QuestionAsked(
                question_id,
                tool,
                dict(request.get("input") or {}),
                is_form=tool == QUESTION_TOOL,
                tool_id=str(tool_id) if tool_id else None,
            )
        ]

    def _control_cancel_request(self, value: dict[str, Any]) -> list[Event]:
        return [QuestionWithdrawn(str(value["request_id"]))]

    def _rate_limit(self, value: dict[str, Any]) -> list[Event]:
        info = value["rate_limit_info"]
        self._resets_at = number(info.get("resetsAt")) if info.get("status") == "rejected" else None
        return []

    def _read_result(self, value: dict[str, Any]) -> list[Event]:
        if self._has_news and _is_empty(value) and not self._usage:
            return []  # it ends a turn of the CLI's own, in which it took note of the news; our prompt comes after it
        self._results.append(value)
        self.finished = True
        return []


_READERS = {
    "command_lifecycle": ClaudeReader._lifecycle,
    "system": ClaudeReader._system,
    "stream_event": ClaudeReader._stream_event,
    "assistant": ClaudeReader._assistant,
    "user": ClaudeReader._user,
    "control_request": ClaudeReader._control_request,
    "control_cancel_request": ClaudeReader._control_cancel_request,
    "rate_limit_event": ClaudeReader._rate_limit,
    "result": ClaudeReader._read_result,
}


def _may_linger(tool: str, tool_input: object) -> bool:
    in_background = isinstance(tool_input, Mapping) and tool_input.get("run_in_background")
    return bool(in_background) or not (tool in _SYNCHRONOUS or tool.startswith("mcp__"))


def _is_empty(result: Mapping[str, Any]) -> bool:
    return result.get("num_turns") == 0 and not result.get("is_error") and not result.get("local_command")


def _own_cost(results: list[dict[str, Any]]) -> float | None:
    """This run's own cost, if the CLI reports it (newer versions do). The CLI's total includes earlier runs."""
    found = [result.get("model_usage_since_last_result") for result in results]
    costs = [
        number(usage.get("costUSD")) or 0.0
        for since in found
        if isinstance(since, Mapping)
        for usage in since.values()
        if isinstance(usage, Mapping)
    ]
    return sum(costs) if costs else None
