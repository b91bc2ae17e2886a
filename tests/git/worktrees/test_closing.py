"""A work tree is closed without loss: what nobody else has is archived first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.git.worktrees.worktrees import ClosedTree, CloseOutcome, WorkTrees
from git.worktrees.repositories import KEY, Repositories

pytestmark = pytest.mark.process


async def test_unchanged_tree_is_removed_with_its_branch(repositories: Repositories) -> None:
    tree = await repositories.open()
    Path(tree.path, "noise.log").write_text("ignored\n")
    assert await repositories.close() == ClosedTree(CloseOutcome.REMOVED, None, "The work tree is removed.")
    assert not Path(tree.path).exists()
    assert (repositories.left(), repositories.branches()) == ([], {"main"})
    assert len(repositories.git("worktree", "list").splitlines()) == 1
    assert "refs/clew" not in repositories.git("for-each-ref")


@pytest.mark.parametrize("how", ["pushed", "merged"])
async def test_tree_whose_commits_others_have_is_removed(repositories: Repositories, how: str) -> None:
    tree = await repositories.open()
    mine = repositories.work(tree, mine="1\n")
    if how == "pushed":
        repositories.git("push", "-q", "origin", "clew/boss-4", cwd=tree.path)
    else:
        repositories.git("merge", "-q", "clew/boss-4")
    assert await repositories.close() == ClosedTree(CloseOutcome.REMOVED, None, "The work tree is removed.")
    assert repositories.branches() == {"main"}
    assert repositories.tip("origin/clew/boss-4" if how == "pushed" else "main") == mine


async def test_changed_tree_is_archived_and_a_checkout_restores_it(repositories: Repositories) -> None:
    repositories.other.write("run", "#!/bin/sh\n").chmod(0o755)
    repositories.push(gone="1\n", b="2\n")
    tree = await repositories.open()
    repositories.work(tree, mine="1\n")
    place = Path(tree.path)
    (place / "b").write_text("changed\n")
    (place / "gone").unlink()
    (place / "folder").mkdir()
    (place / "folder" / "new").write_text("untracked\n")
    (place / "link").symlink_to("b")
    (place / "noise.log").write_text("ignored\n")
    (place / "staged").write_text("staged\n")
    repositories.git("add", "staged", cwd=place)
    files = repositories.other.files(place)
    files.pop(b"noise.log")
    (repositories.source / "a").write_text("the user's\n")
    before = _user_state(repositories)

    closed = await repositories.close()
    assert closed.outcome is CloseOutcome.ARCHIVED
    assert closed.ref is not None
    assert closed.ref.startswith("refs/clew/archive/boss-charles-peon-4-20")
    assert closed.ref in closed.why
    assert not place.exists()
    assert (repositories.left(), repositories.branches()) == ([], {"main"})
    assert _user_state(repositories) == before, "the user's own tree is unchanged"
    assert repositories.git("log", "--format=%s", "-2", closed.ref).splitlines()[1] == "the agent's"

    repositories.git("worktree", "add", "-q", "--detach", str(repositories.folder / "back"))
    repositories.git("checkout", "-q", closed.ref, cwd=repositories.folder / "back")
    assert repositories.other.files(repositories.folder / "back") == files


async def test_commits_alone_are_archived_as_they_are(repositories: Repositories) -> None:
    tree = await repositories.open()
    mine = repositories.work(tree, mine="1\n")
    closed = await repositories.close()
    assert closed.outcome is CloseOutcome.ARCHIVED
    assert repositories.tip(str(closed.ref)) == mine
    assert repositories.branches() == {"main"}


async def test_commits_on_no_branch_are_archived(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.git("checkout", "-q", "--detach", cwd=tree.path)
    mine = repositories.work(tree, mine="1\n")
    closed = await repositories.close()
    assert repositories.tip(str(closed.ref)) == mine
    assert repositories.branches() == {"main"}


async def test_tree_in_the_middle_of_a_conflict_is_archived(repositories: Repositories) -> None:
    tree = await repositories.open()
    mine = repositories.work(tree, a="mine\n")
    repositories.push(a="theirs\n")
    await repositories.open()
    repositories.git("merge", "origin/main", cwd=tree.path, check=False)
    assert "<<<<<<<" in Path(tree.path, "a").read_text()
    assert (await repositories.open()).notes[0].startswith("Not moved forward: ")
    closed = await repositories.close()
    assert "<<<<<<<" in repositories.git("show", f"{closed.ref}:a")
    assert repositories.tip(f"{closed.ref}^") == mine


async def test_branches_that_the_agent_made_stay(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.git("checkout", "-q", "-b", "idea", cwd=tree.path)
    mine = repositories.work(tree, mine="1\n")
    assert (await repositories.open()).branch == "idea"
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED
    assert (repositories.branches(), repositories.tip("idea")) == ({"main", "idea"}, mine)


async def test_branch_with_commits_stays_when_its_tree_went_elsewhere(repositories: Repositories) -> None:
    tree = await repositories.open()
    mine = repositories.work(tree, mine="1\n")
    repositories.git("checkout", "-q", "--detach", "origin/main", cwd=tree.path)
    closed = await repositories.close()
    assert closed == ClosedTree(CloseOutcome.REMOVED, None, "The work tree is removed. Its branch clew/boss-4 stays.")
    assert repositories.tip("clew/boss-4") == mine


async def test_archives_of_the_same_second_do_not_collide(repositories: Repositories) -> None:
    trees = WorkTrees(repositories.home, repositories.other.environ, clock=lambda: 1_700_000_000.0)
    refs = []
    for text in ("1\n", "2\n"):
        tree = await trees.open(str(repositories.source), KEY)
        Path(tree.path, "new").write_text(text)
        refs.append((await trees.close(str(repositories.source), KEY)).ref)
    first = "refs/clew/archive/boss-charles-peon-4-20231114T221320Z"
    assert refs == [first, f"{first}-2"]
    assert [repositories.git("show", f"{ref}:new") for ref in refs] == ["1", "2"]


async def test_a_missing_tree_is_reported(repositories: Repositories) -> None:
    assert await repositories.close() == ClosedTree(CloseOutcome.MISSING, None, f"{KEY} has no work tree.")
    tree = await repositories.open()
    mine = repositories.work(tree, mine="1\n")
    _delete(Path(tree.path))
    closed = await repositories.close()
    assert closed == ClosedTree(CloseOutcome.MISSING, None, f"{KEY} has no work tree. Its branch clew/boss-4 stays.")
    assert repositories.tip("clew/boss-4") == mine
    assert (repositories.left(), len(repositories.git("worktree", "list").splitlines())) == ([], 1)


async def test_tree_with_a_live_process_in_it_is_left(repositories: Repositories) -> None:
    tree = await repositories.open()
    inner = Path(tree.path, "inner")
    inner.mkdir()
    process = subprocess.Popen(["cat"], cwd=inner, stdin=subprocess.PIPE)
    try:
        closed = await repositories.close()
    finally:
        process.communicate()
    assert closed == ClosedTree(CloseOutcome.LEFT, None, f"The work tree is left: process {process.pid} works in it.")
    assert inner.is_dir()
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED


async def test_tree_that_git_has_locked_is_left(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.git("worktree", "lock", "--reason", "mine", tree.path)
    assert (await repositories.close()).why == "The work tree is left: it is locked: mine."
    repositories.git("worktree", "unlock", tree.path)
    lock = Path(repositories.git("rev-parse", "--absolute-git-dir", cwd=tree.path), "index.lock")
    lock.touch()
    assert str(lock) in (await repositories.close()).why
    lock.unlink()
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED


async def test_tree_that_holds_a_repository_is_left(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.git("clone", "-q", str(repositories.hub), str(Path(tree.path, "lib", "dep")))
    closed = await repositories.close()
    assert closed.why == "The work tree is left: it contains other repositories: lib/dep."
    assert Path(tree.path, "lib/dep/a").exists()


@pytest.mark.rest
async def test_submodules_are_left_alone(repositories: Repositories) -> None:
    first, second = repositories.push(a="two\n"), repositories.push(a="three\n")

    def push(commit: str) -> None:
        repositories.other.git("reset", "-q", "--hard", second)
        repositories.other.write(".gitmodules", f'[submodule "s"]\n\tpath = s\n\turl = file://{repositories.hub}\n')
        repositories.other.git("update-index", "--add", "--cacheinfo", f"160000,{commit},s")
        repositories.other.git("add", ".gitmodules")
        repositories.other.git("commit", "-q", "-m", "a submodule")
        repositories.other.git("push", "-q", "--force", "origin", "HEAD:refs/pull/7/head")

    push(first)
    repositories.git("config", "submodule.recurse", "true")
    tree = await repositories.open(fetch="refs/pull/7/head")
    inner = Path(tree.path, "s")
    assert list(inner.iterdir()) == []
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED

    tree = await repositories.open(fetch="refs/pull/7/head")
    repositories.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", cwd=tree.path)
    assert repositories.tip("HEAD", inner) == first
    push(second)
    assert (await repositories.open(fetch="refs/pull/7/head")).notes == ()
    assert repositories.git("rev-parse", "HEAD:s", cwd=tree.path) == second
    assert repositories.tip("HEAD", inner) == first
    assert "contains other repositories: s." in (await repositories.close()).why


async def test_tree_that_cannot_be_archived_stays(repositories: Repositories) -> None:
    tree = await repositories.open()
    Path(tree.path, "new").write_text("mine\n")
    broken = repositories.other.wrapped('if [ "$verb" = commit-tree ]; then echo "fatal: no" >&2; exit 128; fi')
    with pytest.raises(UsageError) as caught:
        await WorkTrees(repositories.home, {**repositories.other.environ, **broken}).close(
            str(repositories.source), KEY
        )
    assert (caught.value.message, caught.value.hint) == ("git commit-tree failed: no", None)
    assert Path(tree.path, "new").read_text() == "mine\n"


async def test_an_interrupted_removal_leaves_no_half_of_a_tree(repositories: Repositories) -> None:
    tree = await repositories.open()
    broken = repositories.other.wrapped('if [ "$verb" = worktree ]; then kill -9 $$; fi')
    with pytest.raises(UsageError):
        await WorkTrees(repositories.home, {**repositories.other.environ, **broken}).close(
            str(repositories.source), KEY
        )
    assert not Path(tree.path).exists(), "it was removed at once"
    assert (await repositories.open()).branch == tree.branch
    assert repositories.git("status", "--porcelain", cwd=tree.path) == ""
    assert (await repositories.close()).outcome is CloseOutcome.REMOVED
    assert (repositories.left(), repositories.branches()) == ([], {"main"}), (
        "what the other left in the trash is gone too"
    )


def _user_state(repositories: Repositories) -> list[str]:
    """The user's view of the repository."""
    index = (repositories.source / ".git" / "index").read_bytes()
    asked = (("status", "--porcelain=v2", "--branch"), ("stash", "list"), ("config", "--list", "--local"), ("reflog",))
    return [str(index), *(repositories.git(*words) for words in asked)]


def _delete(folder: Path) -> None:
    subprocess.run(["rm", "-rf", "--", folder], check=True)
