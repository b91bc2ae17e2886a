"""The portable form of Codex's session files: the conversation, and nothing else that the model would be shown.

The first line holds the instructions with which Codex started. Lines in the role of a developer or with Codex's own
notes follow. A resumed session shows all of them to the model. In a file that somebody else may have written, they
could say anything. So they are dropped, and Codex writes its own again. What is kept is a closed list: the fields of
the first line that name the session, messages of the user and of the agent, and numbers. Tool calls are dropped too,
because no turn shows them.

Lines get new numbers (`ordinal`), so that the form does not depend on what was dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clew.agents.codex.session import CODEX_NOTE_PREFIXES, image_count, is_prompt, text_of
from clew.agents.json_lines import decode
from clew.agents.portable_form import json_line, numbers_only, texts_only

_META = ("id", "session_id", "timestamp", "cwd", "cli_version", "source", "model_provider")
_ORIGINATOR = "codex_exec"  # Codex sends this field as an HTTP header, so its value is not taken from the file
_MODES = frozenset({"paginated"})
_NOT_PORTABLE_EVENTS = frozenset({"thread_rolled_back"})

Line = dict[str, Any]


def portable_form(content: bytes) -> bytes | None:
    kept: list[Line] = []
    for line in _lines(content):
        payload = line.get("payload")
        if not isinstance(payload, dict):
            continue
        if _is_not_portable(line, payload):
            return None
        found = _payload(str(line.get("type")), payload)
        if found is not None:
            kept.append({"timestamp": str(line.get("timestamp")), "type": line["type"], "payload": found})
    return b"".join(json_line(line | {"ordinal": number}) for number, line in enumerate(kept))


def appendable_lines(content: bytes, more: bytes) -> bytes:
    """Numbers the lines on from the highest number in the content."""
    last = max((ordinal for line in _lines(content) if isinstance(ordinal := line.get("ordinal"), int)), default=-1)
    return b"".join(json_line(line | {"ordinal": last + 1 + n}) for n, line in enumerate(_lines(more)))


def _lines(content: bytes) -> Iterator[Line]:
    return (line for raw in content.split(b"\n") if (line := decode(raw)) is not None)


def _is_not_portable(line: Line, payload: Line) -> bool:
    """Whether the thread does not show it: a summary, removed turns, the start of a copy or of a later file, an unknown
    note, or an image, which cannot be compared."""
    kind = line.get("type")
    if kind == "response_item" and payload.get("role") == "user" and image_count(payload):
        return True
    if kind == "compacted" or (kind == "event_msg" and payload.get("type") in _NOT_PORTABLE_EVENTS):
        return True
    if kind == "session_meta":
        return bool(payload.get("forked_from_id") or payload.get("history_base"))
    is_note = kind == "response_item" and payload.get("role") == "user" and not is_prompt(payload, text_of(payload))
    return is_note and not text_of(payload).lstrip().startswith(CODEX_NOTE_PREFIXES)


def _payload(kind: str, payload: Line) -> Line | None:
    """The part of a line's payload that is kept. None: the line is dropped."""
    match kind, payload.get("type"):
        case "session_meta", _:
            kept = texts_only(payload, _META) | {"originator": _ORIGINATOR}
            mode = payload.get("history_mode")
            return kept | ({"history_mode": mode} if mode in _MODES else {})
        case "response_item", "message":
            return _message(payload)
        case "event_msg", "token_count":
            info = payload.get("info")
            return {"type": "token_count", "info": numbers_only(info)} if isinstance(info, dict) else None
        case "event_msg", "task_complete" if not payload.get("error"):
            return {"type": "task_complete", "turn_id": str(payload.get("turn_id"))}
    return None


def _message(payload: Line) -> Line | None:
    role, text = payload.get("role"), text_of(payload)
    if role == "user" and is_prompt(payload, text):
        part = {"type": "input_text", "text": text}
    elif role == "assistant":
        part = {"type": "output_text", "text": text}
    else:
        return None
    return {"type": "message", "role": role, "content": [part]} | texts_only(payload, ("id",))
