"""Reads lines of JSON that an agent wrote."""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import msgspec

CHUNK_BYTES = 64 * 1024


def decode(line: bytes) -> dict[str, Any] | None:
    """None: it is not a JSON object.

    msgspec is fast. The few lines that it refuses (lone surrogates, NaN) are decoded by the standard library's more
    tolerant parser.
    """
    value: Any
    try:
        value = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        try:
            value = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    except RecursionError:
        return None
    return value if isinstance(value, dict) else None


def complete_size(file: BinaryIO) -> int:
    """The size of the file without an unfinished last line: the agent may be writing it just now."""
    size = file.seek(0, 2)
    last, start = b"", size
    while start > 0 and b"\n" not in last:
        begin = max(0, start - max(CHUNK_BYTES, len(last)))
        file.seek(begin)
        last, start = file.read(start - begin) + last, begin
    unfinished = last.rpartition(b"\n")[2]
    return size if not unfinished or decode(unfinished) is not None else size - len(unfinished)
