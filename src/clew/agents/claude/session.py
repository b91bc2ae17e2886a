"""Reading Claude's own session files.

A file is JSON lines. Lines with a `uuid` form a tree through `parentUuid`; the active chain leads from the newest line
back to the root. Lines without a `uuid` are bookkeeping. Invalid lines are skipped, as the CLI does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clew.agents.adapter import SessionEntry, SessionHead, SessionView
from clew.core.history import Role
from clew.core.runs.answer import join_messages

HEAD_BYTES = 256 * 1024  # how much is read of a session that is only listed

_ON_CHAIN = frozenset({"user", "assistant", "attachment", "system"})
# How the CLI's own notes in the role of the user begin.
CLI_NOTE_PREFIXES = ("[Request interrupted", "<local-command", "<command-name>", "<task-notification>")


class _Message(msgspec.Struct):
    content: Any = None
    model: str | None = None
    id: str | None = None
    stop_reason: str | None = None


class _Line(msgspec.Struct, rename="camel"):
    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None  # the parent across the agent's own compaction
    is_sidechain: bool | None = False
    is_meta: bool | None = False
    is_compact_summary: bool | None = False
    is_api_error_message: bool | None = False
    cwd: str | None = None
    message: _Message | None = None


_DECODER = msgspec.json.Decoder(_Line)


def read_session(path: Path, since: int = 0) -> SessionView:
    """The file is only appended to, so the lines after byte `since` show what a turn added."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(since if since <= size else 0)
        raw = file.read()
    lines: dict[str, _Line] = {}
    last: str | None = None
    for line in _lines(raw):
        if line.uuid is None or line.is_sidechain or line.type not in _ON_CHAIN:
            continue
        lines[line.uuid] = line
        last = line.uuid
    chain = list(_chain(lines, last))[::-1]
    return SessionView(tuple(_entries(chain)), last, size, _model(chain))


def is_bookkeeping(line: Mapping[str, Any], last_entry: str | None) -> bool:
    """Whether the CLI writes such a line when it is opened without a prompt. `last_entry` is the session's end."""
    if "uuid" in line:
        return False
    match line.get("type"):
        case "cost-state" | "ai-title":
            return True
        case "mode":
            return line.get("mode") == "normal"
        case "atis-latch":
            return line.get("atis") == ""
        case "last-prompt":  # it names the entry at which the CLI continues
            return line.get("leafUuid") == last_entry
    return False


def session_head(path: Path) -> SessionHead | None:
    with path.open("rb") as file:
        raw = file.read(HEAD_BYTES)
    work_dir = ""
    for line in _lines(raw):
        if line.uuid is None or line.type not in _ON_CHAIN:
            continue
        if line.is_sidechain:
            return None  # it is the file of a subagent
        work_dir = work_dir or line.cwd or ""
        text = _text(line.message.content) if line.message is not None and line.type == "user" else ""
        if text and _is_prompt(line, text):
            return SessionHead(path.stem, work_dir, text)
    return SessionHead(path.stem, work_dir, "") if work_dir else None


def _model(chain: list[_Line]) -> str:
    """The model of the newest answer. The CLI's own messages name `<synthetic>` as their model."""
    for line in reversed(chain):
        if line.type == "assistant" and line.message is not None and line.message.model not in (None, "<synthetic>"):
            return line.message.model or ""
    return ""


def _lines(raw: bytes) -> Iterator[_Line]:
    for line in raw.splitlines():
        if not line:
            continue
        try:
            yield _DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found = _tolerant_decode(line)
            if found is not None:
                yield found


def _tolerant_decode(line: bytes) -> _Line | None:
    """For lone surrogates (a tool's output, cut inside an emoji) and the like: the CLI accepts what msgspec refuses."""
    try:
        return msgspec.convert(json.loads(line.decode("utf-8", "replace")), _Line)
    except (ValueError, RecursionError):  # msgspec.ValidationError is a ValueError
        return None


def _chain(lines: dict[str, _Line], leaf: str | None) -> Iterator[_Line]:
    seen: set[str] = set()
    while leaf is not None and leaf in lines and leaf not in seen:
        seen.add(leaf)
        line = lines[leaf]
        yield line
        leaf = line.parent_uuid or line.logical_parent_uuid


def _entries(chain: list[_Line]) -> Iterator[SessionEntry]:
    for line in chain:
        if line.message is None or line.uuid is None or line.type not in ("user", "assistant"):
            continue
        if line.is_api_error_message or line.message.model == "<synthetic>":
            continue  # the CLI's own message about a failed request: it is not shown to the model
        text = _text(line.message.content)
        if line.type == "assistant":
            yield SessionEntry(
                line.uuid, Role.ASSISTANT, text, is_prompt=False, complete=line.message.stop_reason != "tool_use"
            )
        else:
            yield SessionEntry(line.uuid, Role.USER, text, is_prompt=_is_prompt(line, text))


def _is_prompt(line: _Line, text: str) -> bool:
    if line.is_meta or line.is_compact_summary or text.startswith(CLI_NOTE_PREFIXES):
        return False
    content = line.message.content if line.message else None
    if isinstance(content, list):
        return not any(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
    return True


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return join_messages(
        str(block.get("text", "")) for block in content if isinstance(block, dict) and block.get("type") == "text"
    )
