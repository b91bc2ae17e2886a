"""Reads the instructor's answer from the model's text, and checks its shape."""

from __future__ import annotations

from typing import Annotated

import msgspec

from clew.core.pairs.pair import Order
from clew.hosts.structured_output import SchemaMismatch, parse_json_object

Text = Annotated[str, msgspec.Meta(max_length=200_000)]


class _Order(msgspec.Struct):
    instruction: Text
    should_continue: bool
    thinking: Text = ""
    worker_model: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    needs_correction: bool = False


def read_order(text: str) -> Order:
    """The order in the text. Raises SchemaMismatch."""
    found = parse_json_object(text, _Order)
    if found.should_continue and not found.instruction.strip():
        raise SchemaMismatch("should_continue is true, and there is no instruction.")
    return Order(
        thinking=found.thinking.strip(),
        instruction=found.instruction.strip(),
        worker_model=(found.worker_model or "").strip() or None,
        should_continue=found.should_continue,
        needs_correction=found.needs_correction,
    )
