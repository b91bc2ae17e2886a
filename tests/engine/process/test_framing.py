"""Bytes are split into lines, however they are chunked and however long the lines are."""

from __future__ import annotations

import tracemalloc
from io import BytesIO
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.engine.process import framing
from clew.engine.process.framing import HEAD_BYTES, LineFramer, SkippedLine

BYTES = st.lists(st.sampled_from([b"\n", b"\r", b" ", b"a", b"\xff", b"\0", b"{}"])).map(b"".join) | st.binary()


def framed(chunks: list[bytes]) -> tuple[list[bytes | SkippedLine], bytes | SkippedLine]:
    framer = LineFramer()
    return [line for chunk in chunks for line in framer.feed(chunk)], framer.rest()


@given(BYTES, st.lists(st.integers(0, 60)))
def test_any_chunking_gives_the_same_lines(raw: bytes, cuts: list[int]) -> None:
    places = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    chunks = [raw[start:end] for start, end in pairwise(places)]
    *whole, last = raw.split(b"\n")
    assert framed(chunks) == ([line for line in whole if line.strip()], last.strip())


@given(BYTES)
def test_single_bytes_give_the_same_lines_as_one_chunk(raw: bytes) -> None:
    assert framed([raw[n : n + 1] for n in range(len(raw))]) == framed([raw])


def test_a_line_is_returned_as_soon_as_its_end_arrives() -> None:
    framer = LineFramer()
    assert framer.feed(b'{"a"') == []
    assert framer.feed(b":1}\n{") == [b'{"a":1}']
    assert framer.feed(b"}") == []
    assert framer.rest() == b"{}"


def test_the_rest_is_returned_once() -> None:
    framer = LineFramer()
    framer.feed(b"half")
    assert (framer.rest(), framer.rest()) == (b"half", b"")


def test_only_line_feeds_end_a_line() -> None:
    separators = "\u2028\x85\x0b\x0c\x1c".encode()
    assert framed([b"a\rb" + separators + b"\n"]) == ([b"a\rb" + separators], b"")


@given(st.integers(1, 50), st.integers(1, 50))
def test_a_line_over_the_limit_is_skipped_and_nothing_else(size: int, chunk: int) -> None:
    framer, long = LineFramer(max_bytes=20), bytes(range(65, 65 + size))
    raw = b"before\n" + long + b"\nafter\n" + long
    lines = [line for n in range(0, len(raw), chunk) for line in framer.feed(raw[n : n + chunk])]
    assert (lines[0], lines[2:]) == (b"before", [b"after"])
    for told in (lines[1], framer.rest()):
        if isinstance(told, SkippedLine):
            assert told.size_bytes == size > 20
            assert long.startswith(told.head)
            assert len(told.head) > 20
        else:
            assert told == long


def test_a_huge_line_is_never_held_in_memory() -> None:
    """Of 300 MB only the head is kept. A line below the limit is in memory once, and is returned without a copy."""
    chunk, framer = b"x" * 262_144, LineFramer()
    tracemalloc.start()
    try:
        for _ in range(1_200):
            assert framer.feed(chunk) == []
        assert framer.feed(b"\nnext\n") == [SkippedLine(1_200 * len(chunk), b"x" * HEAD_BYTES), b"next"]
        assert tracemalloc.get_traced_memory()[1] < 64_000_000 * 1.2
        tracemalloc.reset_peak()
        for _ in range(200):
            framer.feed(chunk)
        [line] = framer.feed(b"\n")
        assert isinstance(line, bytes)
        assert tracemalloc.get_traced_memory()[1] < len(line) * 1.2
    finally:
        tracemalloc.stop()


class CountedBuffer(BytesIO):
    """Counts the bytes that are written to it and returned by it."""

    written = handed_out = 0

    def write(self, part: Any) -> int:
        CountedBuffer.written += len(part)
        return super().write(part)

    def getvalue(self) -> bytes:
        value = super().getvalue()
        CountedBuffer.handed_out += len(value)
        return value


def test_each_byte_of_a_huge_line_is_written_once_and_handed_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "BytesIO", CountedBuffer)
    monkeypatch.setattr(CountedBuffer, "written", 0)
    monkeypatch.setattr(CountedBuffer, "handed_out", 0)
    framer, size = LineFramer(), 4096 * 15_000
    for _ in range(15_000):
        assert framer.feed(b"x" * 4096) == []
    [line] = framer.feed(b"\n")
    assert isinstance(line, bytes)
    assert (len(line), CountedBuffer.written, CountedBuffer.handed_out) == (size, size, size)
