"""Images that are shown to an agent with a prompt. Pure.

A turn keeps what is said about an image here; its bytes are a file under Clew's home (engine/storage/images). An image
is recognised by its first bytes, never by its name. The name is only shown: it is made safe for a terminal, a page and
a prompt when the image comes in, so that no surface has to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clew.core.record import Record

MAX_IMAGE_BYTES = 5 * 1024 * 1024  # of one image: the limit of the Messages API
MAX_IMAGES = 20  # in one prompt
MAX_PROMPT_IMAGES_BYTES = 20 * 1024 * 1024  # of all images in one prompt
NAME_CHARS = 80
FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}

_DIGEST = r"[0-9a-f]{64}\Z"
_TYPE_OF = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF87a": "image/gif"}
_TYPE_OF |= {b"GIF89a": "image/gif"}


class Image(Record):
    """An image of a turn."""

    name: str  # of the file that was given, as it may be shown
    media_type: str  # a key of FORMATS
    size_bytes: int
    digest: str  # SHA-256 of the bytes, which is also the name of the file

    @property
    def format(self) -> str:
        return FORMATS[self.media_type]


class ImageContent(Record):
    """An image with its bytes."""

    content: bytes
    name: str = "image"


def media_type_of(content: bytes) -> str | None:
    """The media type, by the first bytes. None: it is not an image that agents take."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _TYPE_OF.items() if content.startswith(start)), None)


def image_of(given: ImageContent) -> Image | None:
    """None: it is not an image that agents take."""
    media_type = media_type_of(given.content)
    if media_type is None:
        return None
    import hashlib  # here, because it takes 2 ms to load and few turns need it

    digest = hashlib.sha256(given.content).hexdigest()
    return Image(shown_name(given.name), media_type, len(given.content), digest)


def shown_name(name: str) -> str:
    """The last part of a path, on one line, without characters that could control a terminal."""
    last = name.rpartition("/")[2]
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in last)
    shown = " ".join(shown.split()) or "image"
    return shown if len(shown) <= NAME_CHARS else f"{shown[: NAME_CHARS - 1]}…"


def image_from(body: Mapping[str, Any]) -> Image:
    """The image of a stored row. Raises ValueError for what cannot be one: the row may come from a file."""
    try:
        image = Image(body["name"], body["media_type"], body["size_bytes"], body["digest"])
        is_valid = (
            image.name == shown_name(image.name)
            and image.media_type in FORMATS
            and type(image.size_bytes) is int
            and 0 < image.size_bytes <= MAX_IMAGE_BYTES
            and re.match(_DIGEST, image.digest) is not None
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("an image was expected") from error
    if not is_valid:
        raise ValueError("the image is not valid")
    return image


def is_digest(text: str) -> bool:
    return re.match(_DIGEST, text) is not None


def size_words(size_bytes: int) -> str:
    """`12 KB`, `3.4 MB`."""
    if size_bytes < 1_000:
        return f"{size_bytes} bytes"
    return f"{size_bytes / 1e3:,.0f} KB" if size_bytes < 999_500 else f"{size_bytes / 1e6:.1f} MB"


def words(image: Image) -> str:
    """`screenshot.png (PNG, 12 KB)`."""
    return f"{image.name} ({image.format}, {size_words(image.size_bytes)})"


def in_words(images: Sequence[Image]) -> str:
    """`1 image: screenshot.png (PNG, 12 KB)`."""
    count = "1 image" if len(images) == 1 else f"{len(images)} images"
    return f"{count}: {', '.join(map(words, images))}"


def outside_note(count: int) -> str:
    """Takes the place of images that somebody gave the agent's own CLI: the thread does not have them."""
    what = "1 image was" if count == 1 else f"{count} images were"
    return f"[{what} shown here, outside Clew.]"


def digests(images: Iterable[Image]) -> set[str]:
    return {image.digest for image in images}
