"""The files that Codex's patches change. Its stream names them; what was written is only in the session's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.core.branching.edits import EditKind, FileEdit

_KINDS = {"add": EditKind.WRITE, "update": EditKind.CHANGE, "delete": EditKind.DELETE}


def edits(tool: str, tool_input: Mapping[str, Any]) -> tuple[FileEdit, ...]:
    changes = tool_input.get("changes") if tool == "apply_patch" else None
    if not isinstance(changes, list):
        return ()
    return tuple(
        FileEdit(change["path"], _KINDS.get(str(change.get("kind")), EditKind.CHANGE))
        for change in changes
        if isinstance(change, Mapping) and isinstance(change.get("path"), str)
    )
