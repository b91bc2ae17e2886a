"""Claude's session files on their way to another machine: the conversation, and nothing that speaks beside it.

A file holds far more than the conversation: the system prompt as it was, and notes with texts of their own, all of
which a resumed session shows to the model. In a file that somebody else may have written they could say anything. So
they stay behind, and the CLI writes its own anew. What is kept is a closed list: lines, fields and blocks.

- Texts of the user and of the agent on the active chain.
- The CLI's own words about an interruption, if they are those to the letter.
- The running total of the cost, which is never shown to a model.

Thoughts and uses of tools stay behind, as no turn shows them. The CLI's notes are known by their kinds; a line that
would be shown to the model and is on neither list, or a summary in the place of turns, makes the whole file unfit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from clew.agents.claude.session import NOTES
from clew.agents.portable import dumped, figures

# The CLI's own words in the user's name or the agent's, and no others.
HARMLESS = frozenset(
    {
        "[Request interrupted by user]",
        "[Request interrupted by user for tool use]",
        "Continue from where you left off.",
        "No response requested.",
    }
)
# Kinds of notes that the CLI writes by itself, and again where they are missing. None of them is kept.
LEFT_BEHIND = frozenset(
    {
        "agent_listing_delta", "context_window", "date", "deferred_tools_delta", "diagnostics", "directory",
        "edited_text_file", "environment", "file", "mcp_instructions_delta", "model", "nested_memory",
        "prompt_snapshot", "remote_session_change", "session_context", "skill_listing", "task_reminder",
        "todo_reminder", "total_tokens_reminder",
    }
)  # fmt: skip

_BLOCKS_LEFT_BEHIND = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})
_SYNTHETIC = "<synthetic>"
_LINE = ("uuid", "type", "timestamp", "userType", "cwd", "sessionId", "version", "promptSource")
_MESSAGE = ("id", "type", "role", "model", "stop_reason")

Line = dict[str, Any]


class _Unfit(Exception):
    """It holds a line that no turn shows and that no list knows."""


def portable(content: bytes) -> bytes | None:
    lines = list(_lines(content))
    chain = _chain(lines)
    kept: list[bytes] = []
    parents: dict[str, str | None] = {}  # of each line, the nearest kept one above it, or itself
    try:
        for line in lines:
            if line.get("type") == "cost-state":
                kept.append(dumped(_cost(line)))
                continue
            uuid = line.get("uuid")
            if not isinstance(uuid, str):
                continue
            above = parents.get(str(line.get("parentUuid")))
            message = _message(line, on_chain=uuid in chain)
            parents[uuid] = uuid if message is not None else above
            if message is not None:
                kept.append(dumped({"parentUuid": above, "isSidechain": False} | _fields(line) | {"message": message}))
    except _Unfit:
        return None
    return b"".join(kept)


def continued(content: bytes, more: bytes) -> bytes:
    """Hung on its last entry: the CLI takes a branch beside that for one that was left (`last-prompt` names it)."""
    lines, added = list(_lines(content)), list(_lines(more))
    leaf = next((line["uuid"] for line in reversed(lines) if line.get("uuid") and not line.get("isSidechain")), None)
    first = next((line for line in added if line.get("uuid")), None)
    if first is not None:
        first["parentUuid"] = leaf
    return b"".join(dumped(line) for line in added)


def _lines(content: bytes) -> Iterator[Line]:
    for raw in content.split(b"\n"):
        try:
            value = json.loads(raw.decode("utf-8", "surrogatepass")) if raw.strip() else None
        except (ValueError, RecursionError):
            continue  # as the CLI does
        if isinstance(value, dict):
            yield value


def _chain(lines: list[Line]) -> set[str]:
    """The ids on the active chain."""
    by_id = {str(line["uuid"]): line for line in lines if line.get("uuid") and not line.get("isSidechain")}
    at = next((str(line["uuid"]) for line in reversed(lines) if str(line.get("uuid")) in by_id), None)
    found: set[str] = set()
    while at is not None and at in by_id and at not in found:
        found.add(at)
        above = by_id[at].get("parentUuid")
        at = str(above) if above else None
    return found


def _fields(line: Line) -> Line:
    return {name: line[name] for name in _LINE if isinstance(line.get(name), str)}


def _cost(line: Line) -> Line:
    return figures(line) | {"type": "cost-state", "sessionId": str(line.get("sessionId"))}


def _message(line: Line, *, on_chain: bool) -> Line | None:
    """The line's message, its texts alone. None: nothing of it is kept. Raises _Unfit."""
    if line.get("subtype") == "compact_boundary" or line.get("isCompactSummary"):
        raise _Unfit
    if line.get("type") == "attachment" and on_chain and _kind(line.get("attachment")) not in LEFT_BEHIND:
        raise _Unfit
    message = line.get("message")
    if line.get("type") not in ("user", "assistant") or line.get("isSidechain") or not isinstance(message, dict):
        return None
    if line.get("isApiErrorMessage"):
        return None  # not shown to the model
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list) or message.get("role") != line["type"]:
        raise _Unfit
    found = [block for each in blocks if (block := _block(each, on_chain=on_chain)) is not None]
    _check_own_words(line, message, found)
    if not found:
        return None
    kept = {name: message[name] for name in _MESSAGE if isinstance(message.get(name), str)}
    is_plain = isinstance(content, str)
    usage = message.get("usage")
    kept |= {"usage": figures(usage)} if isinstance(usage, dict) else {}
    return kept | {"content": found[0]["text"] if is_plain else found}


def _check_own_words(line: Line, message: Line, found: list[Line]) -> None:
    """What the CLI says in the name of the user or of the agent is known to the letter. Raises _Unfit."""
    of_the_cli = bool(line.get("isMeta")) or message.get("model") == _SYNTHETIC
    for text in (block["text"] for block in found):
        if (of_the_cli or (line["type"] == "user" and text.startswith(NOTES))) and text not in HARMLESS:
            raise _Unfit


def _kind(attachment: Any) -> str:
    return str(attachment.get("type")) if isinstance(attachment, dict) else ""


def _block(block: Any, *, on_chain: bool) -> Line | None:
    """As it is kept. None: it is left out. Raises _Unfit."""
    kind = _kind(block)
    if not on_chain or kind in _BLOCKS_LEFT_BEHIND:
        return None
    if kind != "text" or not isinstance(block.get("text"), str):
        raise _Unfit
    return {"type": "text", "text": block["text"]}
