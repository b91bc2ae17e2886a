"""Which files Codex's patches are about. Its stream names them; what was written stands in the session alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.core.edits import EditKind, FileEdit

_KINDS = {"add": EditKind.WRITE, "update": EditKind.CHANGE, "delete": EditKind.DELETE}


def edits(tool: str, given: Mapping[str, Any]) -> tuple[FileEdit, ...]:
    changes = given.get("changes") if tool == "apply_patch" else None
    if not isinstance(changes, list):
        return ()
    return tuple(
        FileEdit(change["path"], _KINDS.get(str(change.get("kind")), EditKind.CHANGE))
        for change in changes
        if isinstance(change, Mapping) and isinstance(change.get("path"), str)
    )
