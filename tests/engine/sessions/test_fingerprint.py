"""A session file's fingerprint: whether the bytes that the file had are unchanged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.core.pins import Mark
from clew.engine.sessions import fingerprint as module
from clew.engine.sessions.fingerprint import fingerprint, is_altered, stamp_of

OLD_NS = 1_000_000_000 * 10**9


def made(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return path


def left(path: Path, *origin_files: tuple[Path, int]) -> Mark:
    size = path.stat().st_size
    found = fingerprint(path, size, origin_files=origin_files)
    return Mark(size, "e", found.digest, found.stamp)


def altered(path: Path, mark: Mark, *origin_files: tuple[Path, int]) -> bool:
    return is_altered(mark, fingerprint(path, path.stat().st_size, mark.size_bytes, origin_files))


@pytest.mark.parametrize(
    ("after", "is_other"),
    [
        (b"one\ntwo\n", False),
        (b"one\ntwo\nthree\n", False),
        (b"one\ntwX\n", True),
        (b"one\n", True),
        (b"", True),
        (b"two\n" * 9, True),
    ],
)
def test_the_bytes_after_our_last_turn_must_be_unchanged(tmp_path: Path, after: bytes, is_other: bool) -> None:
    path = made(tmp_path / "s", b"one\ntwo\n")
    mark = left(path)
    made(path, after)
    assert altered(path, mark) is is_other


def test_files_larger_than_a_chunk_are_read_completely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 3)
    path = made(tmp_path / "s", b"one\ntwo\n")
    mark = left(path)
    assert not altered(path, mark)
    made(path, b"one\ntwO\n")
    assert altered(path, mark)


def test_the_origin_file_of_a_copy_is_hashed_too(tmp_path: Path) -> None:
    origin, copy = made(tmp_path / "o", b"old\nmore\n"), made(tmp_path / "c", b"new\n")
    mark = left(copy, (origin, 4))
    made(origin, b"old\nmore, as its owner continues\n")
    assert not altered(copy, mark, (origin, 4))
    made(origin, b"odd\nmore\n")
    assert altered(copy, mark, (origin, 4))


def test_a_stamp_depends_on_identity_size_and_times_and_a_recent_file_has_none(tmp_path: Path) -> None:
    path = made(tmp_path / "s", b"one")
    stamp = stamp_of(path)
    assert stamp == stamp_of(path)
    made(path, b"two")
    assert stamp_of(path) not in (stamp, None), "its times were put back, but not that of the change itself"
    path.write_bytes(b"two")
    assert stamp_of(path) is None, "a second write in the same tick would leave it the same"


def test_a_mark_without_a_digest_never_counts_as_altered(tmp_path: Path) -> None:
    assert not altered(made(tmp_path / "s", b"one"), Mark(2, "e"))
