"""Bytes into lines, without I/O and without a limit on their length."""

from __future__ import annotations


class LineFramer:
    """Feed it chunks as they come; it gives back whole lines without their ends."""

    def __init__(self) -> None:
        self._parts: list[
            bytes
        ] = []  # of the line that is not complete yet: joined once, so long lines cost no copying

    def feed(self, chunk: bytes) -> list[bytes]:
        first, *rest = chunk.split(b"\n")
        self._parts.append(first)
        if not rest:
            return []
        *whole, last = rest
        lines = [b"".join(self._parts), *whole]
        self._parts = [last] if last else []
        return [line for line in lines if line.strip()]

    def rest(self) -> bytes:
        """What came after the last line end: an unfinished line of a process that was cut off."""
        rest = b"".join(self._parts)
        self._parts = []
        return rest.strip()
