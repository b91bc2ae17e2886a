"""Which folders belong to the repository of a directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.system.work_trees import repository, repository_root, root_of


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    deep = tmp_path / "docs" / "deep"
    deep.mkdir(parents=True)
    return deep


def test_without_a_repository_the_directory_stands_alone(deep: Path) -> None:
    assert repository_root(deep) is None
    assert root_of(deep) == deep
    assert list(repository(deep)) == [deep]


def test_the_root_is_the_nearest_folder_with_git_data(deep: Path, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert root_of(deep) == tmp_path
    assert list(repository(deep)) == [deep, deep.parent, tmp_path]
    (tmp_path / "docs" / ".git").write_text("gitdir: elsewhere")
    assert root_of(deep) == tmp_path / "docs", "a work tree or a submodule"
    assert root_of(deep / "gone") == tmp_path / "docs", "also of a directory that was removed"


def test_git_data_above_the_directory_counts_only_from_its_owner_or_the_user(
    deep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert root_of(deep) == tmp_path, "it belongs to the owner of the directory"
    if os.getuid() == 0:
        os.lchown(tmp_path / ".git", 54321, 54321)
        assert repository_root(deep) is None, "a stranger's"
        assert list(repository(deep)) == [deep], "no rules, commands or trust for the folders above"
