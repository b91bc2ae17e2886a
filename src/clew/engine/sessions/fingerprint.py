"""A session file's fingerprint: it shows whether the bytes that the file held after our last turn are unchanged.

An agent only appends to a session's file. So a digest of the bytes that were there after our last turn shows whether
somebody has altered, blanked or removed a line since. Hashing takes about a millisecond per megabyte, and is skipped
while the file's identity, size and times are unchanged.

The beginning of a copied session may be in another session's file (`Adapter.origin_files`). It is hashed too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.core.hashing import blake2b
from clew.core.pins import Mark
from clew.core.record import Record

CHUNK_BYTES = 1024 * 1024
TICK_NS = 50_000_000  # a file that was written this recently may be written again without a change of its times


class Fingerprint(Record):
    """The fingerprint of a session's file up to a given size."""

    digest: str
    stamp: str | None  # see `stamp_of`
    known: str | None  # the digest up to where our last turn ended; None: the file is shorter now


def stamp_of(path: Path, origin_files: Sequence[tuple[Path, int]] = ()) -> str | None:
    """A digest of identity, size and times of the session's files. None: one was written too recently (TICK_NS)."""
    found = [each.stat() for each in (path, *(earlier for earlier, _ in origin_files))]
    if time.time_ns() - max(each.st_mtime_ns for each in found) < TICK_NS:
        return None
    times = (f"{each.st_dev}.{each.st_ino}.{each.st_size}.{each.st_mtime_ns}.{each.st_ctime_ns}" for each in found)
    return blake2b(" ".join(times).encode(), digest_size=12).hexdigest()


def fingerprint(
    path: Path, size_bytes: int, left_at: int = 0, origin_files: Sequence[tuple[Path, int]] = ()
) -> Fingerprint:
    """The fingerprint of the first `size_bytes`; `known` is that of the first `left_at`. Raises OSError."""
    stamp = stamp_of(path, origin_files)
    hashed = blake2b(digest_size=16)
    for earlier, end in origin_files:
        for chunk in _chunks(earlier, 0, end):
            hashed.update(chunk)
    done = 0
    for chunk in _chunks(path, 0, min(left_at, size_bytes)):
        hashed.update(chunk)
        done += len(chunk)
    known = hashed.hexdigest() if done == left_at else None
    for chunk in _chunks(path, done, size_bytes):
        hashed.update(chunk)
    return Fingerprint(hashed.hexdigest(), stamp, known)


def is_altered(mark: Mark | None, found: Fingerprint) -> bool:
    """Whether the bytes that were there after our last turn have changed. False for a mark without a digest."""
    return mark is not None and mark.digest is not None and mark.digest != found.known


def _chunks(path: Path, start: int, end: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        left = end - start
        while left > 0:
            chunk = file.read(min(CHUNK_BYTES, left))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk
