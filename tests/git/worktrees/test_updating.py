"""A work tree is brought up to date only as far as its update policy says, and without loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.core.hooks.hook import Update
from clew.errors import UsageError
from clew.git.worktrees.worktrees import CloseOutcome
from git.worktrees.repositories import Repositories

pytestmark = pytest.mark.process


async def test_update_none_leaves_all_as_it_is(repositories: Repositories) -> None:
    tree = await repositories.open()
    head, known = repositories.tip("HEAD", tree.path), repositories.tip("origin/main")
    repositories.push(a="two\n")
    assert (await repositories.open(update=Update.NONE)).notes == ()
    assert (repositories.tip("HEAD", tree.path), repositories.tip("origin/main")) == (head, known)


async def test_update_fetch_leaves_the_tree_as_it_is(repositories: Repositories) -> None:
    tree = await repositories.open()
    head = repositories.tip("HEAD", tree.path)
    newest = repositories.push(a="two\n")
    assert (await repositories.open(update=Update.FETCH)).notes == ()
    assert (repositories.tip("HEAD", tree.path), repositories.tip("origin/main")) == (head, newest)


async def test_update_forward_moves_a_clean_tree_forward(repositories: Repositories) -> None:
    tree = await repositories.open()
    newest = repositories.push(a="two\n")
    assert (await repositories.open()).notes == ()
    assert repositories.tip("HEAD", tree.path) == newest
    assert Path(tree.path, "a").read_text() == "two\n"
    assert repositories.git("status", "--porcelain", cwd=tree.path) == ""


async def test_changed_tree_is_not_moved_forward(repositories: Repositories) -> None:
    tree = await repositories.open()
    head = repositories.tip("HEAD", tree.path)
    Path(tree.path, "a").write_text("mine\n")
    Path(tree.path, "new").write_text("mine\n")
    repositories.push(a="two\n")
    assert (await repositories.open()).notes == ("Not moved forward: 2 files have changed in it.",)
    assert repositories.tip("HEAD", tree.path) == head
    assert Path(tree.path, "a").read_text() == "mine\n"


async def test_tree_with_commits_of_its_own_is_not_moved_forward(repositories: Repositories) -> None:
    tree = await repositories.open()
    mine = repositories.work(tree, a="mine\n")
    assert (await repositories.open()).notes == (), "nothing is new"
    repositories.push(a="two\n")
    again = await repositories.open()
    assert again.notes == ("Not moved forward: clew/boss-4 has 1 commit that origin/main lacks, and lacks 1.",)
    assert repositories.tip("HEAD", tree.path) == mine


async def test_tree_on_no_branch_is_not_moved_forward(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.git("checkout", "-q", "--detach", cwd=tree.path)
    repositories.push(a="two\n")
    again = await repositories.open()
    assert (again.branch, again.notes) == (None, ("Not moved forward: it is on no branch.",))


async def test_ignored_file_in_the_way_is_not_overwritten(repositories: Repositories) -> None:
    tree = await repositories.open()
    Path(tree.path, "secret.log").write_text("mine\n")
    repositories.other.write("secret.log", "theirs\n")
    repositories.other.git("add", "-f", "secret.log")
    repositories.push()
    again = await repositories.open()
    assert again.notes[0].startswith("Not moved forward: ")
    assert Path(tree.path, "secret.log").read_text() == "mine\n"


async def test_pushed_branch_follows_what_others_push_to_it(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.work(tree, mine="1\n")
    repositories.git("push", "-q", "origin", "clew/boss-4", cwd=tree.path)
    repositories.other.git("fetch", "-q", "origin")
    repositories.other.git("reset", "-q", "--hard", "origin/clew/boss-4")
    newest = repositories.push("clew/boss-4", theirs="2\n")
    assert (await repositories.open()).notes == ()
    assert repositories.tip("HEAD", tree.path) == newest


async def test_pull_request_of_a_fork_is_fetched_by_its_ref(repositories: Repositories) -> None:
    head = repositories.push("refs/pull/7/head", fork="1\n")
    mine = repositories.tip("main")
    tree = await repositories.open("reviewer:charles/peon:7", branch="main", fetch="refs/pull/7/head")
    assert repositories.tip("HEAD", tree.path) == head
    assert tree.branch == "clew/reviewer-7", "a fork's main is not ours"
    assert tree.notes == ("The branch name main is taken: this tree has a branch of its own.",)
    assert repositories.tip("main") == repositories.tip("origin/main") == mine

    newest = repositories.push("refs/pull/7/head", fork="2\n")
    again = await repositories.open("reviewer:charles/peon:7", fetch="refs/pull/7/head")
    assert (repositories.tip("HEAD", tree.path), again.notes) == (newest, ())


async def test_untouched_tree_follows_a_forced_push(repositories: Repositories) -> None:
    first = repositories.push("refs/pull/7/head", fork="1\n")
    tree = await repositories.open(fetch="refs/pull/7/head")
    repositories.other.git("reset", "-q", "--hard", "HEAD~1")
    second = repositories.push("refs/pull/7/head", force=True, fork="rewritten\n")
    assert (await repositories.open(fetch="refs/pull/7/head")).notes == ()
    assert repositories.tip("HEAD", tree.path) == second != first
    assert Path(tree.path, "fork").read_text() == "rewritten\n"
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED, "it held nothing of its own"
    assert "refs/clew" not in repositories.git("for-each-ref")


async def test_forced_push_takes_no_commit_away(repositories: Repositories) -> None:
    repositories.push("refs/pull/7/head", fork="1\n")
    tree = await repositories.open(fetch="refs/pull/7/head")
    mine = repositories.work(tree, mine="1\n")
    repositories.other.git("reset", "-q", "--hard", "HEAD~1")
    repositories.push("refs/pull/7/head", force=True, fork="rewritten\n")
    again = await repositories.open(fetch="refs/pull/7/head")
    assert again.notes == ("Not moved forward: clew/boss-4 has 2 commits that refs/pull/7/head lacks, and lacks 1.",)
    assert repositories.tip("HEAD", tree.path) == mine


async def test_branch_that_the_remote_deleted_stays_where_it_is(repositories: Repositories) -> None:
    head = repositories.push("feature", f="1\n")
    tree = await repositories.open(branch="feature")
    repositories.git("update-ref", "-d", "refs/heads/feature", cwd=repositories.hub)
    repositories.git("config", "fetch.prune", "true")
    assert (await repositories.open(branch="feature")).notes == ()
    assert (repositories.tip("origin/feature"), repositories.tip("HEAD", tree.path)) == ("", head)


async def test_missing_pull_request_is_an_error_and_leaves_nothing(repositories: Repositories) -> None:
    with pytest.raises(UsageError, match="couldn't find remote ref refs/pull/9/head"):
        await repositories.open(fetch="refs/pull/9/head")
    assert repositories.left() == []
    assert repositories.branches() == {"main"}
