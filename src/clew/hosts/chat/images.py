"""Images that a person gives with a prompt: reads and checks them, and stores them with the run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from clew.core.images import (
    MAX_IMAGE_BYTES,
    MAX_IMAGES,
    MAX_PROMPT_IMAGES_BYTES,
    Image,
    ImageContent,
    digests,
    image_of,
)
from clew.core.record import replace
from clew.engine.engine import Engine
from clew.engine.request import TurnRequest, check_images
from clew.engine.turn import LiveTurn
from clew.errors import UsageError
from clew.hosts.validation import named_path, read_plain

if TYPE_CHECKING:
    from clew.core.runs.options import ImageSource

MIB = 1024 * 1024
SHOWN_CHARS = 200  # of a path, in a message
FORMATS_HINT = "An image is recognised by its content, not by its name: PNG, JPEG, GIF or WebP."


async def given_images(engine: Engine, agent: str, sources: Sequence[ImageSource]) -> tuple[ImageContent, ...]:
    """The images that the prompt's author named, read and checked. Stores nothing. Raises UsageError."""
    found = await asyncio.to_thread(read_images, sources)
    check_images(agent, await engine.abilities(agent, engine.find(agent)))
    return found


def read_images(sources: Sequence[ImageSource]) -> tuple[ImageContent, ...]:
    """Reads the files, and checks everything that is known without the agent. Raises UsageError."""
    if isinstance(sources, str | bytes):
        raise TypeError("images is a list of images")
    if len(sources) > MAX_IMAGES:
        raise UsageError(f"{len(sources)} images were given; a prompt can have {MAX_IMAGES}.")
    found = tuple(_content(each) for each in sources)
    if sum(len(each.content) for each in found) > MAX_PROMPT_IMAGES_BYTES:
        raise UsageError(
            f"The images have more than {MAX_PROMPT_IMAGES_BYTES // MIB} MiB together.", hint="Send fewer at once."
        )
    return found


def named_images(contents: Sequence[ImageContent]) -> tuple[Image, ...]:
    """What a turn would keep about them."""
    return tuple(image for each in contents if (image := image_of(each)) is not None)


async def start_with_images(engine: Engine, request: TurnRequest, contents: Sequence[ImageContent]) -> LiveTurn:
    """Starts the turn, with its images on the disk before it is stored. If it cannot be stored, neither are they."""
    if not contents:
        return await engine.start(request)
    images = await asyncio.to_thread(engine.images.keep, contents)
    request = replace(request, images=images, options=replace(request.options, images=()))
    try:
        turn = await engine.start(request)
    except BaseException:
        unused = digests(images)
        await engine.store.call(lambda store: engine.images.release(store, unused))
        raise
    await asyncio.to_thread(engine.images.keep, contents)  # see rule 2 of ImageFolder
    return turn


def _content(source: ImageSource) -> ImageContent:
    if isinstance(source, ImageContent):
        return _checked(source, source.name)
    if isinstance(source, bytes):
        return _checked(ImageContent(source), "The image")
    named = os.fspath(source)
    shown = _shown(named)
    try:
        content = read_plain(named_path(named), MAX_IMAGE_BYTES)
    except ValueError as error:  # a NUL in the path
        raise UsageError(f"{shown} cannot be read: it is no path.") from error
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {error.strerror}.", hint="An image is a file.") from error
    return _checked(ImageContent(content, named), shown)


def _checked(image: ImageContent, shown: str) -> ImageContent:
    if len(image.content) > MAX_IMAGE_BYTES:
        raise UsageError(
            f"{_shown(shown)} has more than {MAX_IMAGE_BYTES // MIB} MiB, which is the limit for an image.",
            hint="Make it smaller.",
        )
    if image_of(image) is None:
        what = "is empty" if not image.content else "is not an image that agents take"
        raise UsageError(f"{_shown(shown)} {what}.", hint=FORMATS_HINT)
    return image


def _shown(path: str) -> str:
    return path[:SHOWN_CHARS] if path and path.isprintable() else repr(path[:SHOWN_CHARS])
