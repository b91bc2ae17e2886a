"""Every function that makes a folder of Clew makes its missing parents for the owner alone too (law 8)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.git.worktrees import worktrees
from clew.hosts.transfer import archive_file
from clew.server.security import token
from clew.system import daemon_registry
from clew.system.folders import make_private
from clew.testing.store_contract import a_thread
from clew.wiring.worker import worker_name


def work(home: Path) -> None:
    with worker_name(home, "here"):
        pass


def serve(home: Path) -> None:
    with daemon_registry.registered(home, 1):
        pass


MAKERS: dict[str, Callable[[Path], Any]] = {
    "clew work": work,
    "clew serve": serve,
    "its token": token.load_token,
    "a hook's work trees": lambda home: worktrees._real_folder(home / "worktrees"),
    "an archive": lambda home: archive_file.write(
        home / "archive", a_thread(), [{"schema": 1, "thread": {}, "turns": []}], 0.0
    ),
    "by itself": make_private,
}


@pytest.fixture
def mask() -> Any:
    old = os.umask(0o022)
    yield
    os.umask(old)


@pytest.mark.parametrize("what", MAKERS)
def test_folders_are_0700_up_to_the_first_that_existed(tmp_path: Path, mask: Any, what: str) -> None:
    tmp_path.chmod(0o755)
    home = tmp_path / "state" / "clew"
    MAKERS[what](home)
    made = [tmp_path / "state", home, *(path for path in home.rglob("*") if path.is_dir())]
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in made} == {path.name: "0o700" for path in made}
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_file_in_place_of_the_folder_raises(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "state")
    with pytest.raises((FileExistsError, NotADirectoryError)):
        make_private(tmp_path / "state" / "clew")
