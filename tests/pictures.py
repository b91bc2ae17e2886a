"""Small images for tests, made without a library, and those that a model was shown."""

from __future__ import annotations

import base64
import struct
import zlib

from clew.testing.model.scripts import Request


def png(seed: int = 0, *, size: int = 8) -> bytes:
    """A square PNG of one colour."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    row = b"\0" + bytes((seed * 37 % 256, seed * 91 % 256, seed % 256)) * size
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(row * size)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


JPEG = b"\xff\xd8\xff\xe0 the rest is not looked at"
GIF = b"GIF89a the rest is not looked at"
WEBP = b"RIFF\x10\0\0\0WEBP the rest is not looked at"


def shown(request: Request) -> list[bytes]:
    """The images in a request, in order."""
    found: list[bytes] = []

    def look(value: object) -> None:
        if isinstance(value, dict) and value.get("type") in ("image", "input_image"):
            data = value["source"]["data"] if value["type"] == "image" else value["image_url"].partition(",")[2]
            found.append(base64.b64decode(data))
        elif isinstance(value, dict | list):
            for each in value.values() if isinstance(value, dict) else value:
                look(each)

    look(request.body)
    return found
