"""Where slash commands are looked for: not in a folder to which a stranger's repository leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.agents.claude.commands import command_folders


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to somebody else")
def test_a_strangers_repository_above_the_work_directory_does_not_count(tmp_path: Path) -> None:
    work = tmp_path / "shared" / "work"
    (tmp_path / "shared" / ".git").mkdir(parents=True)
    work.mkdir()

    def found() -> list[Path]:
        folders = command_folders(str(tmp_path / "home"), str(work))
        return [each.path.parent.parent for each in folders if each.of_project and not each.skills]

    assert found() == [work, work.parent]
    os.lchown(tmp_path / "shared" / ".git", 54321, 54321)
    assert found() == [work]
