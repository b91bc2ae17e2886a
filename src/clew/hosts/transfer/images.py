"""The images of threads that are archived, exported and pushed: their bytes travel beside the rows that name them.

A file may lack an image: it was gone where the file was written. Then the turn still names it, and only asking that
prompt again fails.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from clew.core.images import Image, is_digest
from clew.store.records import images_from
from clew.store.transfer.codec import Tables

ARCHIVED = "images"  # the key in an archive: base64 by digest
FOLDER = "images/"  # of the parts of an export, and at a remote


def named_images(tables: Tables) -> tuple[Image, ...]:
    """The images that turns and runs name. Raises ValueError for rows that are not valid."""
    rows = [row for table in ("turns", "runs") for row in tables.get(table, ())]
    return tuple(image for row in rows for image in images_from(row.get("images")))


def to_archive(contents: Mapping[str, bytes]) -> dict[str, str]:
    return {digest: base64.b64encode(content).decode("ascii") for digest, content in contents.items()}


def from_archive(dump: Mapping[str, Any]) -> dict[str, bytes]:
    """Raises ValueError or TypeError for what `to_archive` has not written."""
    found = dump.get(ARCHIVED, {})
    return {digest: base64.b64decode(text, validate=True) for digest, text in found.items()}


def image_part(digest: str) -> str:
    return f"{FOLDER}{digest}"


def is_image_part(name: str) -> bool:
    return name.startswith(FOLDER) and is_digest(name.removeprefix(FOLDER))


def to_parts(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    return {image_part(digest): content for digest, content in contents.items()}


def from_parts(parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """The images among the parts, by digest."""
    return {name.removeprefix(FOLDER): content for name, content in parts.items() if is_image_part(name)}
