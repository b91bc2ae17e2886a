"""Reads a line of JSON that an agent wrote."""

from __future__ import annotations

import json
from typing import Any

import msgspec


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
