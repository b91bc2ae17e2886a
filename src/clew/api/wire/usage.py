"""Tokens."""

from __future__ import annotations

from typing import Annotated

from clew.api.wire.shape import Doc, Shape


class Usage(Shape):
    input_tokens: Annotated[int, Doc("Without cached tokens")]
    output_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
