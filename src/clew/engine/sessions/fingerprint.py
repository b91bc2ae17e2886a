"""A session file's fingerprint: does everything that we left in it still stand there, byte for byte?

A session's file only ever grows while its agent writes it. So a digest over the bytes that we know of, taken when we
left it, tells whether somebody altered, blanked or dropped a line since, whatever its length. Hashing costs about a
millisecond a megabyte, and is saved altogether while the file's identity, size and times are what they were.

A copy of a session may begin in another session's file (`Adapter.leans_on`): that part counts as its beginning.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from clew.core.pins import Mark
from clew.core.record import Record

CHUNK_BYTES = 1024 * 1024
TICK_NS = 50_000_000  # a file that was written so recently may be written again without its times changing


class Fingerprint(Record):
    """Of a session's file, up to a size."""

    digest: str
    stamp: str | None  # None: it cannot be told from a later one by its times
    known: str | None  # the digest up to where we left it; None: it is shorter by now


def stamp_of(path: Path, leans_on: Sequence[tuple[Path, int]] = ()) -> str | None:
    """The identity, size and times of all its files. None: too fresh to be told from what comes next."""
    found = [each.stat() for each in (path, *(earlier for earlier, _ in leans_on))]
    if time.time_ns() - max(each.st_mtime_ns for each in found) < TICK_NS:
        return None
    times = (f"{each.st_dev}.{each.st_ino}.{each.st_size}.{each.st_mtime_ns}.{each.st_ctime_ns}" for each in found)
    return hashlib.blake2b(" ".join(times).encode(), digest_size=12).hexdigest()


def fingerprint(
    path: Path, size_bytes: int, left_at: int = 0, leans_on: Sequence[tuple[Path, int]] = ()
) -> Fingerprint:
    """Of its first `size_bytes`, and of those up to `left_at`. Raises OSError."""
    stamp = stamp_of(path, leans_on)
    hashed = hashlib.blake2b(digest_size=16)
    for earlier, end in leans_on:
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
    """What we left is not there any more. Of a mark without a digest nothing can be told."""
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
