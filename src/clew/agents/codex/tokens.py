"""Codex's token counts, converted to Clew's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.core.costs.usage import NO_USAGE, Usage


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
