"""Which branch a work tree is on, where the branch begins, and which names are refused."""

from __future__ import annotations

import pytest

from clew.errors import UsageError
from clew.git.worktrees.worktrees import CloseOutcome
from git.worktrees.repositories import Repositories

pytestmark = pytest.mark.process


async def test_branch_of_the_remote_is_tracked(repositories: Repositories) -> None:
    head = repositories.push("feature", f="1\n")
    tree = await repositories.open(branch="feature")
    assert (tree.branch, repositories.tip("HEAD", tree.path)) == ("feature", head)
    assert repositories.git("rev-parse", "--abbrev-ref", "feature@{upstream}") == "origin/feature"
    newest = repositories.push("feature", f="2\n")
    assert (await repositories.open(branch="feature")).notes == ()
    assert repositories.tip("HEAD", tree.path) == newest
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED
    assert repositories.branches() == {"main"}


async def test_free_branch_of_the_users_is_used_and_never_deleted(repositories: Repositories) -> None:
    repositories.git("branch", "mine")
    tree = await repositories.open(branch="mine")
    assert (tree.branch, tree.notes) == ("mine", ())
    repositories.work(tree, f="1\n")
    closed = await repositories.close()
    assert closed.outcome is CloseOutcome.REMOVED, "the branch has all of it"
    assert repositories.git("show", "mine:f") == "1"


async def test_branch_that_is_checked_out_elsewhere_is_left_to_its_user(repositories: Repositories) -> None:
    newest = repositories.push(a="two\n")
    tree = await repositories.open(branch="main")
    assert (tree.branch, repositories.tip("HEAD", tree.path)) == ("clew/boss-4", newest)
    assert tree.notes == (f"The branch main is checked out in {repositories.source}: this tree has one of its own.",)


async def test_new_branch_begins_where_it_is_told(repositories: Repositories) -> None:
    head = repositories.push("release", r="1\n")
    named = await repositories.open(branch="fix", start="release")
    assert (named.branch, repositories.tip("HEAD", named.path)) == ("fix", head)
    exact = await repositories.open("boss:charles/peon:5", start=head)
    assert (exact.branch, repositories.tip("HEAD", exact.path)) == ("clew/boss-5", head)
    with pytest.raises(UsageError, match="can be made at nowhere: it has no such commit"):
        await repositories.open("boss:charles/peon:6", start="nowhere")


async def test_names_in_use_here_or_on_the_remote_are_passed_over(repositories: Repositories) -> None:
    repositories.git("branch", "clew/boss-4")
    repositories.push("clew/boss-4-2", x="1\n")
    assert (await repositories.open()).branch == "clew/boss-4-3"


@pytest.mark.parametrize("branch", ["-f", "a..b", "HEAD", "a b", "x.lock", "a\0b", ""])
async def test_a_malformed_branch_is_refused(repositories: Repositories, branch: str) -> None:
    with pytest.raises(UsageError, match="cannot name a branch"):
        await repositories.open(branch=branch)


@pytest.mark.parametrize("ref", ["main", "refs/heads/*:refs/heads/*", "+refs/x", "--upload-pack=x", "refs/../x"])
async def test_a_malformed_ref_is_not_fetched(repositories: Repositories, ref: str) -> None:
    with pytest.raises(UsageError, match="is not a ref to fetch"):
        await repositories.open(fetch=ref)


async def test_a_malformed_remote_is_refused(repositories: Repositories) -> None:
    with pytest.raises(UsageError, match="cannot name a remote"):
        await repositories.open(remote="ext::sh -c true")
