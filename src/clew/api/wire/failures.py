"""Why something failed."""

from __future__ import annotations

from clew.api.wire.shape import Shape
from clew.errors import ClewError


class Failure(Shape):
    """Why something failed."""

    code: str
    message: str
    hint: str | None


def failure(error: ClewError | None) -> Failure | None:
    return None if error is None else Failure.of(error)
