"""Small images for tests, made without a library."""

from __future__ import annotations

import struct
import zlib


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
