"""A work tree that was deleted, half made or replaced is made again, and nothing in it is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clew.git.worktrees.worktrees import CloseOutcome
from git.worktrees.repositories import Repositories

pytestmark = pytest.mark.process


async def test_folder_that_was_deleted_by_hand_is_made_again_with_its_commits(repositories: Repositories) -> None:
    tree = await repositories.open()
    mine = repositories.work(tree, mine="1\n")
    _delete(Path(tree.path))
    again = await repositories.open()
    assert (again.path, again.branch, again.made) == (tree.path, tree.branch, True)
    assert again.notes == ("The work tree was missing, and was made again.",)
    assert repositories.tip("HEAD", tree.path) == mine


async def test_a_branch_that_was_checked_out_elsewhere_meanwhile_is_continued_on_a_new_one(
    repositories: Repositories,
) -> None:
    tree = await repositories.open()
    mine = repositories.work(tree, mine="1\n")
    _delete(Path(tree.path))
    repositories.git("worktree", "prune")
    repositories.git("checkout", "-q", "clew/boss-4")
    again = await repositories.open()
    assert (again.branch, repositories.tip("HEAD", tree.path)) == ("clew/boss-4-2", mine)
    assert again.notes == (
        f"The branch clew/boss-4 is checked out in {repositories.source}: this tree has one of its own.",
    )


async def test_half_made_tree_is_made_again(repositories: Repositories) -> None:
    tree = await repositories.open()
    [git_dir] = (repositories.source / ".git" / "worktrees").iterdir()
    (git_dir / "locked").write_text("initializing\n")
    Path(tree.path, "a").unlink()
    again = await repositories.open()
    assert (again.made, again.branch, again.notes) == (True, tree.branch, ())
    assert Path(tree.path, "a").read_text() == "one\n"
    assert repositories.git("worktree", "list", "--porcelain").count("locked") == 0


async def test_another_repository_at_the_trees_place_is_moved_aside(repositories: Repositories) -> None:
    ran = repositories.folder / "ran"
    tree = await repositories.open()
    mine = repositories.work(tree, mine="1\n")
    place = Path(tree.path)
    (place / ".git").unlink()
    repositories.git("init", "-q", cwd=place)
    repositories.git("config", "core.fsmonitor", f"touch {ran}", cwd=place)
    repositories.git("config", "core.sshCommand", f"touch {ran}", cwd=place)
    repositories.git("remote", "add", "origin", "ssh://localhost/x", cwd=place)
    (place / "unsaved").write_text("mine\n")
    assert (await repositories.close()).outcome is CloseOutcome.LEFT
    again = await repositories.open()
    assert (again.made, again.branch, repositories.tip("HEAD", place)) == (True, "clew/boss-4", mine)
    aside = Path(again.notes[0].removeprefix("What was at the place of the work tree is now in ").removesuffix("."))
    assert (aside / "unsaved").read_text() == "mine\n"
    assert not ran.exists()


async def test_a_tree_that_points_to_another_tree_is_moved_aside(repositories: Repositories) -> None:
    one, two = await repositories.open(), await repositories.open("boss:charles/peon:5")
    theirs = repositories.work(two, theirs="1\n")
    Path(one.path, ".git").write_bytes(Path(two.path, ".git").read_bytes())
    assert (await repositories.close()).outcome is CloseOutcome.LEFT
    again = await repositories.open()
    assert (again.made, again.branch) == (True, "clew/boss-4")
    assert (repositories.tip("HEAD", two.path), repositories.tip("clew/boss-5")) == (theirs, theirs)


async def test_repository_that_was_cloned_anew_gets_a_new_tree(repositories: Repositories) -> None:
    tree = await repositories.open()
    Path(tree.path, "unsaved").write_text("mine\n")
    _delete(repositories.source)
    repositories.clone(repositories.source)
    again = await repositories.open()
    assert (again.path, again.made) == (tree.path, True)
    [aside] = [path for path in repositories.home.iterdir() if ".aside-" in path.name]
    assert (aside / "unsaved").read_text() == "mine\n"
    assert str(aside) in again.notes[0]


async def test_tree_whose_record_is_lost_is_used_and_its_branch_is_not_ours_to_delete(
    repositories: Repositories,
) -> None:
    await repositories.open()
    for record in repositories.home.glob("*.json"):
        record.write_text("{")
    assert (await repositories.open()).made is False
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED
    assert repositories.branches() == {"main", "clew/boss-4"}


def _delete(folder: Path) -> None:
    subprocess.run(["rm", "-rf", "--", folder], check=True)
