"""Files that a tool would change are read for the diff: only regular ones in the work directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.core.branching.edits import EditKind, FileEdit
from clew.engine.proposed_edits import MAX_FILE_BYTES, MAX_FILES, proposed_edits


def write(path: str | Path, text: str = "new\n") -> FileEdit:
    return FileEdit(str(path), EditKind.WRITE, new=text)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("old\n")
    (tmp_path / "secret").write_text("SECRET\n")
    return work


def test_an_edit_is_shown_against_the_file_as_it_is(work: Path) -> None:
    for path in ("a.txt", work / "a.txt", "./sub/../a.txt"):
        [edit] = proposed_edits([write(path)], str(work))
        assert (edit.path, edit.lines, edit.note) == (str(path), ("@@ -1,1 +1,1 @@", "-old", "+new"), "")
    (work / "link").symlink_to("a.txt")
    assert proposed_edits([write("link")], str(work))[0].lines[1] == "-old"


def test_a_new_file_is_said_to_be_new(work: Path) -> None:
    [edit] = proposed_edits([write("sub/b.txt")], str(work))
    assert (edit.lines[1:], edit.note) == (("+new",), "A new file.")


@pytest.mark.parametrize("way", ["link", "folder-link/secret", "../secret", "absolute"])
def test_nothing_outside_the_work_directory_is_read(work: Path, way: str) -> None:
    (work / "link").symlink_to("../secret")
    (work / "folder-link").symlink_to("..")
    path = str(work.parent / "secret") if way == "absolute" else way
    [edit] = proposed_edits([write(path)], str(work))
    assert "outside the work directory" in edit.note
    assert edit.lines[1:] == ("+new",)
    assert "SECRET" not in str(edit)


def test_what_cannot_be_read_is_said_and_the_edit_is_shown(work: Path) -> None:
    os.mkfifo(work / "pipe")  # reading it would wait for a writer
    (work / "folder").mkdir()
    (work / "bytes").write_bytes(b"\xff\xfe")
    (work / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (work / "loop").symlink_to("loop")
    for path, words in (
        ("pipe", "no regular file"),
        ("folder", "cannot be read"),
        ("bytes", "no text"),
        ("large", "larger than 1 MB"),
        ("loop", "be read"),
        ("a\0b", "cannot be read"),
        ("x" * 5000, "cannot be read"),
        ("\ud800", "cannot be read"),
    ):
        [edit] = proposed_edits([write(path)], str(work))
        assert words in edit.note, (path, edit.note)
        assert edit.lines[1:] == ("+new",)


def test_a_call_with_many_files_is_cut(work: Path) -> None:
    found = proposed_edits([write(f"{number}") for number in range(MAX_FILES + 5)], str(work))
    assert len(found) == MAX_FILES
