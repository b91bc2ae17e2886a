"""What Claude's tools write to files, read from the input of the tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.core.branching.edits import EditKind, FileEdit


def edits(tool: str, tool_input: Mapping[str, Any]) -> tuple[FileEdit, ...]:
    path = _text(tool_input.get("notebook_path" if tool == "NotebookEdit" else "file_path"))
    if not path:
        return ()
    match tool:
        case "Write":
            return (FileEdit(path, EditKind.WRITE, new=_text(tool_input.get("content"))),)
        case "Edit":
            return (_change(path, tool_input),)
        case "MultiEdit":
            parts = tool_input.get("edits")
            parts = parts if isinstance(parts, list) else []
            return tuple(_change(path, part) for part in parts if isinstance(part, Mapping))
        case "NotebookEdit":
            return (FileEdit(path, EditKind.CHANGE, new=_text(tool_input.get("new_source"))),)
    return ()


def _change(path: str, tool_input: Mapping[str, Any]) -> FileEdit:
    old, new = _text(tool_input.get("old_string")), _text(tool_input.get("new_string"))
    kind = EditKind.WRITE if old == "" else EditKind.CHANGE  # with an empty old text, the tool creates a file
    return FileEdit(path, kind, old, new, everywhere=tool_input.get("replace_all") is True)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
