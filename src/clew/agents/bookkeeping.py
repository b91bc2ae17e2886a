"""Lines that an agent adds to a session's file when nobody has said anything: its book-keeping.

Each agent has a closed list of them. Whatever is not on it may be shown to the model, or change what is shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def only_notes(path: Path, since: int, is_note: Callable[[dict[str, Any]], bool]) -> bool:
    """Of all lines beyond that byte. Raises OSError."""
    with path.open("rb") as file:
        file.seek(since)
        added = file.read()
    return all((value := _object(line)) is not None and is_note(value) for line in added.split(b"\n") if line)


def _object(line: bytes) -> dict[str, Any] | None:
    """None: it is none, or has a key twice, of which readers take the one or the other."""
    try:
        return json.loads(line, object_pairs_hook=_once) if line.startswith(b"{") else None
    except (ValueError, RecursionError):
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found
