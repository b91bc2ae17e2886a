"""The messages on the chain of Claude's session files: prompts, answers with their tool calls, and the CLI's notes.

An API message is one line for each of its blocks, so an answer is one or more entries. What a line means may depend on
those after it: a command is a prompt only if the model was shown its text, an answer was cut off if a note says so.
Lines are therefore added one by one, and the entries are made at the end.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from clew.agents.adapter import SessionCall, SessionEntry
from clew.agents.claude import numbers
from clew.agents.claude.numbers import usage
from clew.agents.claude.tool_result import read_tool_result
from clew.agents.claude.transcript import Line, Row
from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.history import Role
from clew.core.record import replace
from clew.core.runs.answer import join_messages

SYNTHETIC = "<synthetic>"  # the "model" of messages that the CLI wrote itself

_INTERRUPTED = "[Request interrupted"
_CAVEAT = "<local-command"
_COMMAND_PREFIXES = ("<command-name>", "<command-message>")
# How the CLI's own notes in the role of the user begin. A command is one of them unless the model was shown its text.
CLI_NOTE_PREFIXES = (
    _INTERRUPTED,
    _CAVEAT,
    "<task-notification>",
    "<bash-stdout>",
    "<bash-stderr>",
    *_COMMAND_PREFIXES,
)
_EXPANDED = "<command-message>"  # the CLI's own commands begin with the name instead
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)

_UNFINISHED = frozenset({"tool_use", "pause_turn", ""})  # stop reasons after which the model continues, or none


class _Draft:
    """An entry that is not finished: later lines may change it."""

    def __init__(self, row: Row, line: Line, role: Role, text: str) -> None:
        self.row, self.role, self.text = row, role, text
        self.at = _seconds(line.timestamp)
        self.is_prompt = False
        self.is_note = False  # the CLI's note to a prompt
        self.images = 0
        self.prompt_id = line.prompt_id
        message = line.message
        self.model = message.model if message is not None and isinstance(message.model, str) else ""
        self.stop_reason = str(message.stop_reason or "") if message is not None else ""
        self.was_aborted = bool(line.is_aborted_mid_stream)
        self.interrupted = self.was_aborted
        self.usage: Usage = NO_USAGE
        self.call_ids: list[str] = []
        self.is_end = False


class Entries:
    """Add the chain's lines in order; `finished` are their entries. Rows that are no messages need not be added."""

    def __init__(self) -> None:
        self.model = ""  # of the newest answer
        self._drafts: list[_Draft] = []
        self._calls: dict[str, SessionCall] = {}
        self._usage: dict[str, tuple[_Draft, Usage]] = {}  # by message: its first entry, and its newest usage
        self._cut_calls: set[str] = set()  # the process ended before they had a result

    def __len__(self) -> int:
        return len(self._drafts)

    @property
    def call_ids(self) -> set[str]:
        return set(self._calls)

    def add(self, row: Row, line: Line) -> None:
        message = line.message
        if message is None or line.is_api_error_message or message.model == SYNTHETIC:
            return  # the CLI's own message about a failed request: it is not shown to the model
        text = text_of(message.content)
        if row.type == "assistant":
            self._add_answer(row, line, text)
        else:
            self._add_user(row, line, text)

    def _add_answer(self, row: Row, line: Line, text: str) -> None:
        draft = _Draft(row, line, Role.ASSISTANT, text)
        self._drafts.append(draft)
        self.model = draft.model or self.model
        if row.message_id is not None and line.message is not None:
            first, _ = self._usage.get(row.message_id, (draft, NO_USAGE))
            self._usage[row.message_id] = (first, usage(line.message.usage))
        for block in line.blocks:
            if block.get("type") == "tool_use" and isinstance(block.get("id"), str):
                given = block.get("input")
                call = SessionCall(block["id"], str(block.get("name")), given if isinstance(given, dict) else {})
                self._calls[call.tool_id] = call
                draft.call_ids.append(call.tool_id)

    def _add_user(self, row: Row, line: Line, text: str) -> None:
        draft = _Draft(row, line, Role.USER, text)
        results = [block for block in line.blocks if block.get("type") == "tool_result"]
        draft.is_prompt = not results and is_prompt(line, text)
        draft.images = sum(block.get("type") == "image" for block in line.blocks) if draft.is_prompt else 0
        draft.is_note = bool(line.is_meta) and not text.startswith(_CAVEAT)
        self._drafts.append(draft)
        for block in results:
            self._add_result(block, line)

    def _add_result(self, block: dict[str, Any], line: Line) -> None:
        call = self._calls.get(str(block.get("tool_use_id")))
        if call is None or call.output is not None:
            return  # the call was not read, or the CLI has repeated its result
        note = {"permission_decision": line.permission_decision, "non_execution_kind": line.tool_denial_kind}
        found = read_tool_result(block, {key: value for key, value in note.items() if value}, call.name)
        self._calls[call.tool_id] = replace(call, output=found.output, is_error=found.is_error, ran=found.ran)
        if line.tool_denial_kind == "interrupted":
            self._cut_calls.add(call.tool_id)

    def finished(self, compacted_after: int, preserved: Collection[str] = ()) -> tuple[SessionEntry, ...]:
        """A copy can end only with an entry after the last compaction, and not with one that it has kept: the prompt
        before that is only in the summary."""
        for first, used in self._usage.values():
            first.usage = used
        self._find_commands()
        self._find_interruptions()
        for number in self._turn_ends():
            draft = self._drafts[number]
            is_done = draft.stop_reason not in _UNFINISHED and not draft.interrupted
            draft.is_end = is_done and number >= compacted_after and draft.row.uuid not in preserved
        return tuple(self._entry(draft) for draft in self._drafts)

    def _find_commands(self) -> None:
        for draft, after in zip(self._drafts, self._drafts[1:], strict=False):
            if draft.role is not Role.USER or not draft.text.startswith(_COMMAND_PREFIXES):
                continue
            is_shown = after.is_note and after.prompt_id == draft.prompt_id
            if is_shown or after.role is Role.ASSISTANT:
                draft.text, draft.is_prompt = command_text(draft.text), True

    def _find_interruptions(self) -> None:
        answer: _Draft | None = None
        for draft in self._drafts:
            if draft.role is Role.ASSISTANT:
                answer = draft
            elif draft.is_prompt:
                answer = None
            elif answer is not None and draft.text.startswith(_INTERRUPTED):
                answer.interrupted = True
        made: dict[str | None, list[str]] = {}  # ids of calls by message
        for draft in self._drafts:
            made.setdefault(draft.row.message_id, []).extend(draft.call_ids)
        for last in (self._drafts[number] for number in self._turn_ends()):
            ids = last.call_ids if last.row.message_id is None else made[last.row.message_id]
            is_open = any(self._calls[tool_id].output is None for tool_id in ids)
            last.interrupted = last.interrupted or is_open or not self._cut_calls.isdisjoint(ids)

    def _turn_ends(self) -> Iterator[int]:
        """The places of the last answers before each prompt, and of the last of all."""
        last: int | None = None
        for number, draft in enumerate(self._drafts):
            if draft.role is Role.ASSISTANT:
                last = number
            elif draft.is_prompt and last is not None:
                yield last
                last = None
        if last is not None:
            yield last

    def _entry(self, draft: _Draft) -> SessionEntry:
        if draft.role is Role.USER:
            return SessionEntry(
                draft.row.uuid,
                Role.USER,
                draft.text,
                is_prompt=draft.is_prompt,
                at=draft.at,
                images=draft.images,
                total_usd=numbers.number(draft.row.total_usd),
            )
        return SessionEntry(
            draft.row.uuid,
            Role.ASSISTANT,
            draft.text,
            is_prompt=False,
            complete=draft.stop_reason != "tool_use" and not draft.was_aborted,
            at=draft.at,
            model=draft.model,
            usage=draft.usage,
            calls=tuple(self._calls[tool_id] for tool_id in draft.call_ids),
            interrupted=draft.interrupted,
            end_id=draft.row.uuid if draft.is_end else None,
        )


def is_prompt(line: Line, text: str) -> bool:
    """Whether a line of the role user, seen alone, is a prompt. The caller has excluded results of tools."""
    return not (line.is_meta or line.is_compact_summary or text.startswith(CLI_NOTE_PREFIXES))


def first_prompt(line: Line) -> str:
    """The text of a prompt, or of a command with a text of its own; "" for any other line of the role user."""
    text = text_of(line.message.content) if line.message is not None else ""
    if any(block.get("type") == "tool_result" for block in line.blocks) or line.is_meta:
        return ""
    if text.startswith(_EXPANDED):
        return command_text(text)
    return text if is_prompt(line, text) else ""


def command_text(text: str) -> str:
    """A command as it was typed."""
    name, arguments = _COMMAND.search(text), _ARGUMENTS.search(text)
    if name is None:
        return text
    typed = f"/{name[1].strip().removeprefix('/')}"
    return f"{typed} {arguments[1].strip()}".rstrip() if arguments is not None else typed


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return join_messages(
        str(block.get("text") or "") for block in content if isinstance(block, dict) and block.get("type") == "text"
    )


def _seconds(timestamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(timestamp).timestamp() if isinstance(timestamp, str) else None
    except (ValueError, OverflowError):
        return None
