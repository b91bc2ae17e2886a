"""Splits bytes into lines, without I/O. A line over the limit is skipped and reported, never held in memory."""

from __future__ import annotations

from io import BytesIO

from clew.core.record import Record

MAX_LINE_BYTES = 64_000_000  # twice what a model's service accepts in one request, so no tool's result is longer
HEAD_BYTES = 1_000  # how much of a skipped line is kept, to tell what it was


class SkippedLine(Record):
    """A line that was too long."""

    size_bytes: int
    head: bytes


class LineFramer:
    """Feed it chunks as they arrive; it returns whole lines without their line ends."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._line = BytesIO()  # the incomplete line; a BytesIO returns its buffer without a copy
        self._size = 0  # the size of that line, including what is not kept
        self._head: bytes | None = None  # the beginning of a line that is being skipped

    def feed(self, chunk: bytes) -> list[bytes | SkippedLine]:
        first, *rest = chunk.split(b"\n")
        self._add(first)
        lines = []
        for part in rest:
            lines.append(self._end())
            self._add(part)
        return [line for line in lines if isinstance(line, SkippedLine) or (line and not line.isspace())]

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come after the last line end."""
        return not self._size

    def rest(self) -> bytes | SkippedLine:
        """The bytes after the last line end: the unfinished line of a process that was cut off."""
        rest = self._end()
        return rest if isinstance(rest, SkippedLine) else rest.strip()

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._head is None and self._size > self._max_bytes:
            self._head = (self._line.getvalue()[:HEAD_BYTES] + part[:HEAD_BYTES])[:HEAD_BYTES]
            self._line = BytesIO()
        if self._head is None:
            self._line.write(part)

    def _end(self) -> bytes | SkippedLine:
        ended = self._line.getvalue() if self._head is None else SkippedLine(self._size, self._head)
        self._line, self._size, self._head = BytesIO(), 0, None
        return ended
