"""What the portable forms of all agents' session files share (`Adapter.portable`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def dumped(line: Mapping[str, Any]) -> bytes:
    """One line of the file. The same values give the same bytes."""
    return json.dumps(line, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def figures(values: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers alone, however deep: a text among them could say anything."""
    found = {name: figures(each) if isinstance(each, Mapping) else each for name, each in values.items()}
    return {name: each for name, each in found.items() if isinstance(each, int | float | dict)}
