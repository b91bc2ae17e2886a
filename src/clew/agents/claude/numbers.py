"""Numbers in Claude's output and files, which are not validated by anybody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clew.core.costs.usage import NO_USAGE, Usage
from clew.core.record import fields_of


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) < 1e15:
        return None
    return float(value)


def usage(value: Any) -> Usage:
    if not isinstance(value, Mapping):
        return NO_USAGE
    return Usage(**{name: int(number(value.get(name)) or 0) for name in fields_of(Usage)})
