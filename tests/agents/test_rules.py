"""Which files of a project are its rules for each agent. They are found by name only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.agents.claude import Claude
from clew.agents.codex import Codex


def write(folder: Path, *names: str, text: str = "rules") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(adapter: Claude | Codex, top: Path, work_dir: Path, config_dir: Path | None = None) -> list[str]:
    """The rules below `top`: files above it belong to the machine, not to the test."""
    files = adapter.project_rules(str(config_dir or top / "nowhere"), str(work_dir))
    return [str(path.relative_to(top)) for path in files if path.is_relative_to(top)]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return Path(os.path.realpath(tmp_path))


def test_claude_reads_in_the_directory_and_in_every_one_above_it(top: Path) -> None:
    work = top / "repo" / "sub"
    write(top, "CLAUDE.md", "repo/.git/HEAD", "repo/.claude/CLAUDE.md", "repo/.claude/rules/deep/style.md")
    write(work, "CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "below/CLAUDE.md", ".claude/settings.json")
    expected = ["repo/sub/CLAUDE.md", "repo/sub/CLAUDE.local.md", "repo/.claude/CLAUDE.md", "repo/.claude/rules"]
    assert found(Claude(), top, work) == [*expected, "CLAUDE.md"]


def test_the_users_own_settings_are_not_the_projects_rules(top: Path) -> None:
    write(top, ".claude/CLAUDE.md", ".claude/rules/mine.md", "shop/.claude/rules/readme.txt")
    assert found(Claude(), top, top / "shop", top / ".claude") == []
    assert found(Claude(), top, top / "shop") == [".claude/CLAUDE.md", ".claude/rules"]


def test_codex_reads_one_file_in_each_folder_up_to_the_repositorys_root(top: Path) -> None:
    work = top / "repo" / "sub"
    write(top, "AGENTS.md", "repo/AGENTS.md", "repo/AGENTS.override.md", "repo/CLAUDE.md", "repo/sub/AGENTS.md")
    assert found(Codex(), top, work) == ["repo/sub/AGENTS.md"], "without a repository only the directory itself counts"
    (top / "repo" / ".git").mkdir()
    assert found(Codex(), top, work) == ["repo/sub/AGENTS.md", "repo/AGENTS.override.md"]


@pytest.mark.parametrize(("adapter", "name"), [(Claude(), "CLAUDE.md"), (Codex(), "AGENTS.md")])
def test_nothing_is_read_and_no_link_is_followed(top: Path, adapter: Claude | Codex, name: str) -> None:
    outside, work = top / "outside", top / "work"
    write(outside, name, "rules/style.md")
    work.mkdir()
    (work / ".claude").symlink_to(outside)
    assert found(adapter, top, work) == [], "a link to a folder is not followed"
    (work / name).mkdir()
    assert found(adapter, top, work) == [], "a folder is not a file"
    (work / name).rmdir()
    (work / name).touch()
    assert found(adapter, top, work) == [], "an empty file has no rules"
    (work / name).unlink()
    os.mkfifo(work / name)  # opening it would block
    assert found(adapter, top, work) == []
    (work / name).unlink()
    (work / name).symlink_to("/nowhere/at/all")
    assert found(adapter, top, work) == [f"work/{name}"], "the CLI would read its target"
