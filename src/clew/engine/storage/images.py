"""The files of images: one private folder, and each file is named by the SHA-256 of its content.

Rules
1. The files are on the disk before the run that names them is stored (law 7).
2. A file is removed only when no turn and no run of the store names it any more. Whoever stores a run looks again
   afterwards whether its files are there, because another process may have removed the last run that named them.
3. A file that is not what its name says is never sent: it counts as gone.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from clew.agents.adapter import ImageFile
from clew.core.images import Image, ImageContent, digests, image_of, is_digest
from clew.errors import Conflict, StoreError, UsageError
from clew.store.store import Store
from clew.system.files import write_whole
from clew.system.folders import make_private


def check_contents(images: Collection[Image], contents: Mapping[str, bytes]) -> None:
    """Raises UsageError if the bytes of an image are not what its turn names."""
    for image in images:
        content = contents.get(image.digest)
        if content is not None and image_of(ImageContent(content, image.name)) != image:
            raise UsageError(f"The file's image {image.name} is not the one that its turn names.")


class ImageFolder:
    """All methods read or write the disk."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def keep(self, given: Iterable[ImageContent]) -> tuple[Image, ...]:
        """Writes the files that are not there yet. Raises StoreError, and UsageError for what is not an image."""
        kept = []
        for each in given:
            image = image_of(each)
            if image is None:
                raise UsageError(f"{each.name} is not an image that agents take.")
            if self.read(image) is None:
                self._write(image.digest, each.content)
            kept.append(image)
        return tuple(kept)

    def _write(self, digest: str, content: bytes) -> None:
        path = self._path(digest)
        try:
            make_private(path.parent)
            write_whole(path, content)
        except OSError as error:
            raise StoreError(
                f"The image cannot be stored: {error.strerror}.",
                kind="full",
                hint="Nothing was asked. Free some space, or check that the folder is yours.",
            ) from error

    def read(self, image: Image) -> bytes | None:
        """The bytes of the image. None: its file is gone, or is another one."""
        try:
            content = self._path(image.digest).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == image.digest else None

    def read_all(self, images: Iterable[Image]) -> dict[str, bytes]:
        """By digest: the bytes of those that are there."""
        found = {image.digest: self.read(image) for image in images}
        return {digest: content for digest, content in found.items() if content is not None}

    def files(self, images: Sequence[Image]) -> tuple[ImageFile, ...]:
        """The files to send. Raises Conflict if one is gone."""
        for image in images:
            if self.read(image) is None:
                raise Conflict(
                    f"The file of the image {image.name} is not on this machine any more.",
                    hint="Ask again with --image, which stores it again.",
                )
        return tuple(ImageFile(str(self._path(image.digest)), image.media_type) for image in images)

    def restore(self, images: Collection[Image], contents: Mapping[str, bytes]) -> tuple[str, ...]:
        """Writes the files of imported turns, as far as they came with them. Returns the digests of the new ones.

        Raises UsageError for bytes that are not the image that a turn names; then nothing was written.
        """
        there = [image for image in {each.digest: each for each in images}.values() if image.digest in contents]
        check_contents(images, contents)
        new = [image.digest for image in there if self.read(image) is None]
        for digest in new:
            self._write(digest, contents[digest])
        return tuple(new)

    def release(self, store: Store, unused: Collection[str]) -> None:
        """Removes those of the files that no turn and no run names. No other process can store a run meanwhile."""
        if not unused:
            return
        with store.transaction():
            for digest in set(unused) - digests(store.turns.images()):
                with contextlib.suppress(OSError):
                    self._path(digest).unlink()

    def _path(self, digest: str) -> Path:
        if self._folder is None or not is_digest(digest):
            raise UsageError("This engine has no folder for images.")
        return self._folder / digest
