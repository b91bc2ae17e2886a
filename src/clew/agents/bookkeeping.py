"""Bookkeeping: lines that an agent adds to a session's file although nobody sent a prompt.

Each agent has a closed list of them. Any other line may be shown to the model, or change what is shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def only_bookkeeping(path: Path, since: int, is_bookkeeping: Callable[[dict[str, Any]], bool]) -> bool:
    """Whether `is_bookkeeping` is true for every line after byte `since`. Raises OSError."""
    with path.open("rb") as file:
        file.seek(since)
        added = file.read()
    return all((value := _object(line)) is not None and is_bookkeeping(value) for line in added.split(b"\n") if line)


def _object(line: bytes) -> dict[str, Any] | None:
    """None: the line is not a JSON object, or it has a duplicate key, for which parsers may take either value."""
    try:
        return json.loads(line, object_pairs_hook=_without_duplicates) if line.startswith(b"{") else None
    except (ValueError, RecursionError):
        return None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found
