"""Atomic writes: a file has all of its content or does not exist, and only its owner can read it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from clew.system.files import write_whole

pytestmark = pytest.mark.unit


def test_a_file_is_its_owners_alone_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "thread.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "thread.json"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        write_whole(path, b"new", replace=False)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_file_system_without_hard_links_takes_new_files_and_keeps_those_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "review.md"
    write_whole(path, b"first", replace=False)
    with pytest.raises(FileExistsError):
        write_whole(path, b"second", replace=False)
    assert path.read_bytes() == b"first" and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("replace", [True, False])
def test_a_folder_that_cannot_be_synced_does_not_fail_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    sync = os.fsync

    def only_files(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    write_whole(tmp_path / "thread.json", b"content", replace=replace)
    assert (tmp_path / "thread.json").read_bytes() == b"content"


def test_a_folder_that_cannot_be_read_does_not_fail_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def no_folders(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", no_folders)
    write_whole(tmp_path / "thread.json", b"content")
    assert (tmp_path / "thread.json").read_bytes() == b"content"
