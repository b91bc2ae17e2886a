"""The file of an archive is complete, or does not exist."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.errors import StoreError
from clew.hosts.transfer import archive_file
from clew.testing.store_contract.samples import a_thread


@contextmanager
def little_room(size_bytes: int) -> Iterator[None]:
    """Limits the size of files that this process writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_no_partial_archive_and_the_older_one_is_found(tmp_path: Path) -> None:
    thread = a_thread("thread-1", "t")
    own = {"schema": 1, "thread": {"id": thread.id, "name": "t", "kind": "chat"}, "turns": [{"text": "x" * 100_000}]}
    older = archive_file.write(tmp_path, thread, [own], 1_000.0)
    with little_room(50_000), pytest.raises(StoreError, match="cannot be written"):
        archive_file.write(tmp_path, thread, [own], 2_000.0)
    assert list(tmp_path.iterdir()) == [older]
    assert archive_file.all_in(tmp_path)[0].problem is None
    newer = archive_file.write(tmp_path, thread, [own], 2_000.0)
    assert newer != older and archive_file.read(newer)[0]["turns"] == own["turns"]
