"""What the portable forms of all agents' session files have in common (`Adapter.portable_form`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def json_line(line: Mapping[str, Any]) -> bytes:
    """One line of a file. The same values give the same bytes."""
    return json.dumps(line, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def texts_only(value: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The fields of these names, if they are texts."""
    return {name: value[name] for name in names if isinstance(value.get(name), str)}


def numbers_only(values: Mapping[str, Any]) -> dict[str, Any]:
    """Only the numbers, at any depth: a text among them could say anything to the model."""
    found = {name: numbers_only(each) if isinstance(each, Mapping) else each for name, each in values.items()}
    return {name: each for name, each in found.items() if isinstance(each, int | float | dict)}
