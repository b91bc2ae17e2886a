"""The portable form of Claude's session files: the conversation, and nothing else that the model would be shown.

A file holds far more than the conversation: the system prompt of that time and the CLI's notes, all of which a resumed
session shows to the model. In a file that somebody else may have written, they could say anything. So they are dropped,
and the CLI writes its own again. What is kept is a closed list of lines, fields and blocks:

- Texts of the user and of the agent on the active chain.
- The CLI's own texts about an interruption, if they are exactly the known ones.
- The running total of the cost, which is never shown to a model.

Thinking and tool calls are dropped, because no turn shows them. The CLI's notes are recognised by their kinds. A file
is not portable if it has a line that would be shown to the model and is on neither list, or a summary in place of
turns.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from clew.agents.claude.entries import CLI_NOTE_PREFIXES
from clew.agents.claude.transcript import Transcript
from clew.agents.portable_form import json_line, numbers_only, texts_only

# The only texts of the CLI's own, in the role of the user or the agent, that are kept.
KNOWN_CLI_TEXTS = frozenset(
    {
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "Continue from where you left off.",
        "No response requested.",
    }
)
# Kinds of notes that the CLI writes by itself, and writes again if they are missing. None of them is kept.
DROPPED_ATTACHMENTS = frozenset(
    {
        "agent_listing_delta", "context_window", "date", "deferred_tools_delta", "diagnostics", "directory",
        "edited_text_file", "environment", "file", "mcp_instructions_delta", "model", "nested_memory",
        "prompt_snapshot", "remote_session_change", "session_context", "skill_listing", "task_reminder",
        "todo_reminder", "total_tokens_reminder",
    }
)  # fmt: skip

_DROPPED_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
_SYNTHETIC = "<synthetic>"
_LINE = ("uuid", "type", "timestamp", "userType", "cwd", "sessionId", "version", "promptSource")
_MESSAGE = ("id", "type", "role", "model", "stop_reason")

Line = dict[str, Any]


class _NotPortable(Exception):
    """The file holds a line that no turn shows and that is on no list."""


def portable_form(content: bytes) -> bytes | None:
    lines = list(_lines(content))
    transcript = _transcript(content)
    chain = {row.uuid for row in transcript.chain(transcript.leaf())}
    kept: list[bytes] = []
    parents: dict[str, str | None] = {}  # by line: the line itself if it is kept, else the nearest kept ancestor
    try:
        for line in lines:
            if line.get("type") == "cost-state":
                cost = {"type": "cost-state", "sessionId": str(line.get("sessionId"))}
                kept.append(json_line(numbers_only(line) | cost))
                continue
            uuid = line.get("uuid")
            if not isinstance(uuid, str):
                continue
            row = transcript.rows.get(uuid)
            followed = transcript.above(row) if row is not None else None
            above = parents.get(followed.uuid) if followed is not None else None
            message = _message(line, on_chain=uuid in chain)
            parents[uuid] = uuid if message is not None else above
            if message is not None:
                fields = {"parentUuid": above, "isSidechain": False} | texts_only(line, _LINE)
                kept.append(json_line(fields | {"message": message}))
    except _NotPortable:
        return None
    return b"".join(kept)


def appendable_lines(content: bytes, more: bytes) -> bytes:
    """The first line gets the content's last entry as its parent. The CLI continues from that entry, which
    `last-prompt` names, and ignores any other branch as abandoned."""
    added, leaf = list(_lines(more)), _transcript(content).leaf()
    first = next((line for line in added if line.get("uuid")), None)
    if first is not None:
        first["parentUuid"] = leaf.uuid if leaf is not None else None
    return b"".join(json_line(line) for line in added)


def _lines(content: bytes) -> Iterator[Line]:
    for raw in content.split(b"\n"):
        try:
            value = json.loads(raw.decode("utf-8", "surrogatepass")) if raw.strip() else None
        except (ValueError, RecursionError):
            continue  # the CLI skips it too
        if isinstance(value, dict):
            yield value


def _transcript(content: bytes) -> Transcript:
    return Transcript(io.BytesIO(content), 0, len(content))


def _message(line: Line, *, on_chain: bool) -> Line | None:
    """The line's message with only its texts. None: nothing of it is kept. Raises _NotPortable."""
    if line.get("subtype") == "compact_boundary" or line.get("isCompactSummary"):
        raise _NotPortable
    if line.get("type") == "attachment" and on_chain and _kind(line.get("attachment")) not in DROPPED_ATTACHMENTS:
        raise _NotPortable
    message = line.get("message")
    if line.get("type") not in ("user", "assistant") or line.get("isSidechain") or not isinstance(message, dict):
        return None
    if line.get("isApiErrorMessage"):
        return None  # not shown to the model
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list) or message.get("role") != line["type"]:
        raise _NotPortable
    found = [block for each in blocks if (block := _block(each, on_chain=on_chain)) is not None]
    _check_cli_texts(line, message, found)
    if not found:
        return None
    usage = message.get("usage")
    kept = texts_only(message, _MESSAGE) | ({"usage": numbers_only(usage)} if isinstance(usage, dict) else {})
    return kept | {"content": found[0]["text"] if isinstance(content, str) else found}


def _check_cli_texts(line: Line, message: Line, found: list[Line]) -> None:
    """What the CLI says in the role of the user or the agent must be one of the known texts. Raises _NotPortable."""
    of_the_cli = bool(line.get("isMeta")) or message.get("model") == _SYNTHETIC
    for text in (block["text"] for block in found):
        if (
            of_the_cli or (line["type"] == "user" and text.startswith(CLI_NOTE_PREFIXES))
        ) and text not in KNOWN_CLI_TEXTS:
            raise _NotPortable


def _kind(attachment: Any) -> str:
    return str(attachment.get("type")) if isinstance(attachment, dict) else ""


def _block(block: Any, *, on_chain: bool) -> Line | None:
    """The block as it is kept. None: it is dropped. Raises _NotPortable."""
    kind = _kind(block)
    if not on_chain or kind in _DROPPED_BLOCKS:
        return None
    if kind != "text" or not isinstance(block.get("text"), str):
        raise _NotPortable
    return {"type": "text", "text": block["text"]}
