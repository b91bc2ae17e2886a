"""What Claude's tools write to files, read off what they were called with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.core.edits import EditKind, FileEdit


def edits(tool: str, given: Mapping[str, Any]) -> tuple[FileEdit, ...]:
    path = _text(given.get("notebook_path" if tool == "NotebookEdit" else "file_path"))
    if not path:
        return ()
    match tool:
        case "Write":
            return (FileEdit(path, EditKind.WRITE, new=_text(given.get("content"))),)
        case "Edit":
            return (_change(path, given),)
        case "MultiEdit":
            parts = given.get("edits")
            parts = parts if isinstance(parts, list) else []
            return tuple(_change(path, part) for part in parts if isinstance(part, Mapping))
        case "NotebookEdit":
            return (FileEdit(path, EditKind.CHANGE, new=_text(given.get("new_source"))),)
    return ()


def _change(path: str, given: Mapping[str, Any]) -> FileEdit:
    old, new = _text(given.get("old_string")), _text(given.get("new_string"))
    kind = EditKind.WRITE if old == "" else EditKind.CHANGE  # an empty old text is how it makes a file
    return FileEdit(path, kind, old, new, everywhere=given.get("replace_all") is True)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
