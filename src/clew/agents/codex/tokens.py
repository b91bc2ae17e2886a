"""Codex's token counts, converted to Clew's, and a session's running total of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.core.costs.usage import NO_USAGE, Usage

TAIL_BYTES = 128 * 1024


def usage_from(value: Any) -> Usage:
    """OpenAI's input tokens include the cached ones; ours do not. Its output tokens include the reasoning."""
    if not isinstance(value, Mapping):
        return NO_USAGE
    read = _count(value.get("cached_input_tokens"))
    written = _count(value.get("cache_write_input_tokens"))
    return Usage(
        input_tokens=max(0, _count(value.get("input_tokens")) - read - written),
        output_tokens=_count(value.get("output_tokens")),
        cache_read_input_tokens=read,
        cache_creation_input_tokens=written,
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**15 else 0


def session_usage(path: Path) -> Usage:
    """The running total from which the CLI will continue: the last count in the file, or in its origin's file."""
    from clew.agents.codex.origins import origins

    found = _last_total(path, None)
    if found is not None:
        return found
    totals = (_last_total(origin.path, origin.until) for origin in reversed(origins(path) or ()))
    return next((total for total in totals if total is not None), NO_USAGE)


def _last_total(path: Path, until: int | None) -> Usage | None:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        for start in (max(0, size - TAIL_BYTES), 0):
            file.seek(start)
            for line in reversed(file.read().split(b"\n")):
                found = _total(line, until) if b'"token_count"' in line else None
                if found is not None:
                    return found
            if start == 0:
                break
    return None


def _total(line: bytes, until: int | None) -> Usage | None:
    from clew.agents.codex.origins import is_before
    from clew.agents.json_lines import decode

    value = decode(line) or {}
    payload = value.get("payload")
    if not isinstance(payload, Mapping) or payload.get("type") != "token_count" or not is_before(value, until):
        return None
    info = payload.get("info")
    total = info.get("total_token_usage") if isinstance(info, Mapping) else None
    return usage_from(total) if isinstance(total, Mapping) else None
