"""Images of prompts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from clew.api.wire.shape import Doc, Shape

if TYPE_CHECKING:
    from clew.core.images import Image as ImageRecord


class Image(Shape):
    """An image of a prompt, without its bytes."""

    name: Annotated[str, Doc("The name of the file that was given")]
    media_type: Annotated[str, Doc("`image/png`, `image/jpeg`, `image/gif` or `image/webp`")]
    size_bytes: int
    digest: Annotated[str, Doc("The SHA-256 of the bytes: GET /api/threads/{thread}/images/{digest} returns them")]


def images(found: Iterable[ImageRecord]) -> list[Image]:
    return [Image.of(each) for each in found]
