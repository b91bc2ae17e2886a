"""Digests for surfaces."""

from __future__ import annotations

from clew.api.wire.shape import Shape


class DigestShape(Shape):
    id: str
    about: str
    text: str
