"""Files of a commit are read from the repository's objects: no checkout, no filter, no link."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from clew.agents.claude.rules import LAYOUT
from clew.core.rules.collecting import collect
from clew.core.rules.rules import LeftOut, RulesSource, Unreadable
from clew.errors import ClewError
from clew.git.commit_files import CommitFiles

pytestmark = pytest.mark.process


def git(folder: Path, *args: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def made_tree(folder: Path, entries: str) -> str:
    command = ["git", "mktree"]
    return subprocess.run(command, cwd=folder, input=entries, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    (repo / ".claude" / "rules" / "deep").mkdir(parents=True)
    (repo / "sub").mkdir()
    git(repo, "init", "-q")
    (repo / "CLAUDE.md").write_text("base @docs.md\n")
    (repo / "docs.md").write_text("imported\n")
    (repo / ".claude" / "rules" / "deep" / "é a.md").write_text("deep\n")
    (repo / "sub" / "CLAUDE.md").write_text("sub\n")
    (repo / "CLAUDE.local.md").symlink_to("/etc/passwd")
    (repo / ".claude" / "rules" / "linked").symlink_to("/etc")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "base")
    return repo


def files_of(repo: Path, commit: str = "HEAD") -> CommitFiles:
    return CommitFiles(RulesSource(str(repo), git(repo, "rev-parse", commit)), os.environ)


async def test_the_rules_of_a_commit_are_those_that_it_has(repo: Path) -> None:
    files = files_of(repo)
    (repo / "CLAUDE.md").write_text("changed\n")
    git(repo, "checkout", "-q", "-b", "theirs")
    git(repo, "commit", "-q", "-am", "theirs")
    rules = await collect(files, ("", "sub"), LAYOUT)
    assert [(file.path, file.text) for file in rules.files] == [
        *(("CLAUDE.md", "base @docs.md"), ("docs.md", "imported")),
        *((".claude/rules/deep/é a.md", "deep"), ("sub/CLAUDE.md", "sub")),
    ]
    assert rules.left_out == (LeftOut(".claude/rules/linked", "a link"), LeftOut("CLAUDE.local.md", "a link"))


async def test_no_command_of_the_repository_runs(repo: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    command = f"sh -c 'touch {ran}; cat'"
    for key in ("filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv", "core.fsmonitor", "core.pager"):
        git(repo, "config", key, command)
    (repo / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    files = files_of(repo)
    ran.unlink(missing_ok=True)  # what the test's own git has run
    assert await files.read("CLAUDE.md", 100) == b"base @docs.md\n"
    assert await files.markdown(".claude/rules", 10)
    assert not ran.exists()


async def test_sizes_missing_files_and_missing_commits(repo: Path) -> None:
    files = files_of(repo)
    assert await files.read("CLAUDE.md", 5) == b" " * 6, "too large, and not read"
    assert [await files.read(path, 9) for path in ("gone", "sub", "sub/", "CLAUDE.md/x", "*")] == [None] * 5
    assert await files.read("CLAUDE.local.md", 99) == Unreadable("a link", "/etc/passwd")
    with pytest.raises(ClewError):
        await CommitFiles(RulesSource(str(repo), "0" * 40), os.environ).read("CLAUDE.md", 9)


async def test_an_import_that_git_would_read_as_a_pattern_hides_no_other_rules(repo: Path) -> None:
    (repo / "CLAUDE.md").write_text("base @:( and @:(glob)x and @:!x and @docs.md\n")
    git(repo, "commit", "-q", "-am", "smiling")
    rules = await collect(files_of(repo), ("",), LAYOUT)
    assert [file.path for file in rules.files][:2] == ["CLAUDE.md", "docs.md"]


async def test_a_tree_without_an_end_is_not_walked_to_it(repo: Path) -> None:
    """Each of its folders contains the same folder ten times."""
    rule = git(repo, "hash-object", "-w", "docs.md")
    tree = made_tree(repo, f"100644 blob {rule}\tx.txt\n")
    for _ in range(30):
        tree = made_tree(repo, "".join(f"040000 tree {tree}\t{number}\n" for number in range(10)))
    settings = made_tree(repo, f"040000 tree {tree}\trules\n")
    tree = made_tree(repo, f"040000 tree {settings}\t.claude\n100644 blob {rule}\tCLAUDE.md\n")
    files = files_of(repo, git(repo, "commit-tree", tree, "-m", "bomb"))
    rules = await collect(files, ("",), LAYOUT)
    assert [file.path for file in rules.files] == ["CLAUDE.md"]
