"""Files of a repository are read only if they are regular files, reached without a link."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from clew.core.rules.rules import Unreadable
from clew.system.repository_files import FolderFiles

SECRET = "not in the repository"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "CLAUDE.md").write_text(SECRET)
    repo = Path(os.path.realpath(tmp_path)) / "repo"
    (repo / "docs" / "deep").mkdir(parents=True)
    (repo / "docs" / "deep" / "a.md").write_text("a")
    (repo / "docs" / "b.md").write_text("b")
    (repo / "docs" / "c.txt").write_text("c")
    return repo


async def test_regular_files_are_read_up_to_a_limit(top: Path) -> None:
    files = FolderFiles(str(top))
    assert await files.read("docs/deep/a.md", 10) == b"a"
    (top / "big").write_bytes(b"x" * 100)
    assert await files.read("big", 10) == b"x" * 11, "one more byte says that there is more"
    assert [await files.read(path, 10) for path in ("gone", "docs", "docs/b.md/x", "gone/x", "a\0b", "x" * 300)] == [
        None
    ] * 6


@pytest.mark.parametrize("path", ["link.md", "folder/CLAUDE.md", "inside/a.md", "docs/up/CLAUDE.md"])
async def test_no_link_is_followed_to_a_file_or_on_the_way_to_it(top: Path, path: str) -> None:
    (top / "link.md").symlink_to("../outside/CLAUDE.md")
    (top / "folder").symlink_to("../outside")
    (top / "inside").symlink_to("docs/deep")
    (top / "docs" / "up").symlink_to(top.parent / "outside")
    found = await FolderFiles(str(top)).read(path, 100)
    assert isinstance(found, Unreadable) and found.why == "a link"
    assert found.path == path.rpartition("/")[0] and (found.link_to == "../outside/CLAUDE.md") == (path == "link.md")


async def test_pipes_and_sockets_are_not_opened(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(top / "pipe.md")  # opening it would wait for a writer
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(top)  # a socket's path is short
        listener.bind("socket.md")
    for name in ("pipe.md", "socket.md"):
        assert await FolderFiles(str(top)).read(name, 10) == Unreadable("not a regular file")


async def test_markdown_files_of_a_folder_are_listed_without_entering_links(top: Path) -> None:
    (top / "docs" / "linked").symlink_to("../../outside")
    (top / "docs" / "link.md").symlink_to("b.md")
    listed = list(await FolderFiles(str(top)).markdown("docs", 10))
    refused = Unreadable("a link")
    assert listed == [
        *(("docs/b.md", None), ("docs/deep/a.md", None), ("docs/link.md", None), ("docs/linked", refused)),
    ], "a linked file is refused when it is read"
    assert len(await FolderFiles(str(top)).markdown("docs", 2)) == 2
    assert await FolderFiles(str(top)).markdown("gone", 10) == []
    (top / "rules").symlink_to("docs")
    assert await FolderFiles(str(top)).markdown("rules", 10) == [("rules", Unreadable("a link", path="rules"))]
