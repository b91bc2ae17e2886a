"""The repositories and keys that work trees can be made for, and those that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.git.worktrees.worktrees import CloseOutcome, WorkTrees
from git.repository import Repository
from git.worktrees.repositories import KEY, Repositories

pytestmark = pytest.mark.process


@pytest.mark.rest
@pytest.mark.parametrize("option", ["--bare", "--mirror"])
async def test_a_bare_repository_works(repositories: Repositories, option: str) -> None:
    repositories.source = repositories.folder / "bare.git"
    repositories.clone(repositories.source, option)
    newest = repositories.push(a="two\n")
    before = repositories.tip("refs/heads/main")
    tree = await repositories.open()
    assert (repositories.tip("HEAD", tree.path), repositories.tip("refs/heads/main")) == (newest, before)
    mine = repositories.work(tree, mine="1\n")
    repositories.other.git("push", "-q", "origin", "HEAD:refs/heads/clew/boss-4")  # another branch of the same name
    await repositories.open()
    assert repositories.tip("refs/heads/clew/boss-4") == mine, "the settings of a mirror do not overwrite branches"
    Path(tree.path, "a").write_text("changed\n")
    closed = await repositories.close()
    assert closed.ref is not None
    assert repositories.git("show", f"{closed.ref}:a") == "changed"


async def test_a_repository_without_a_remote_works(repositories: Repositories) -> None:
    repositories.git("remote", "remove", "origin")
    tree = await repositories.open()
    assert (tree.notes, repositories.tip("HEAD", tree.path)) == ((), repositories.tip("main"))
    repositories.git("commit", "-q", "--allow-empty", "-m", "more")
    assert (await repositories.open()).notes == ()
    assert repositories.tip("HEAD", tree.path) == repositories.tip("main")


async def test_default_branch_is_asked_for_when_it_is_not_known(repositories: Repositories) -> None:
    repositories.push("trunk", t="1\n")
    repositories.git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=repositories.hub)
    repositories.git("remote", "set-head", "origin", "--delete")
    tree = await repositories.open()
    assert Path(tree.path, "t").read_text() == "1\n"


@pytest.mark.rest
@pytest.mark.parametrize("name", ["with space", "quo'te\"s", "$(touch x);&", "ünï", "-dash", "a:b", "new\nline"])
async def test_repository_may_have_any_name(tmp_path: Path, name: str) -> None:
    repositories = Repositories(tmp_path, source=f"in/{name}")
    newest = repositories.push(a="two\n")
    tree = await repositories.open()
    assert repositories.tip("HEAD", tree.path) == newest
    repositories.push(a="three\n")
    assert (await repositories.open()).notes == ()
    Path(tree.path, "new").write_text("mine\n")
    closed = await repositories.close()
    assert closed.ref is not None
    assert repositories.git("show", f"{closed.ref}:new") == "mine"


@pytest.mark.rest
async def test_long_key_and_deep_folder(repositories: Repositories) -> None:
    repositories.home = repositories.folder / Path(*(["x" * 200] * 5)) / "worktrees"
    key = f"{'a' * 40}:{'b' * 100}/{'c' * 100}:{'9' * 80}"
    tree = await repositories.open(key)
    assert len(Path(tree.path).name) < 100
    assert (await repositories.open(key)).path == tree.path
    assert (await repositories.close(key)).outcome is CloseOutcome.REMOVED


async def test_names_that_no_ref_may_have_still_get_a_branch(repositories: Repositories) -> None:
    assert (await repositories.open("a....b:charles/peon:4")).branch == "clew/a.b-4"


@pytest.mark.parametrize(
    "key", ["../../x", "boss:../x:4", "boss:charles/peon", "boss:charles/peon:04", "", "boss:a/b:4\0", "/etc:a/b:1"]
)
async def test_a_malformed_key_is_refused_and_makes_nothing(repositories: Repositories, key: str) -> None:
    with pytest.raises(UsageError, match="session key"):
        await repositories.open(key)
    with pytest.raises(UsageError, match="session key"):
        await repositories.close(key)
    assert not repositories.home.exists()


@pytest.mark.rest
async def test_one_repositorys_key_never_reaches_anothers_tree(repositories: Repositories) -> None:
    second = repositories.folder / "second"
    repositories.clone(second)
    trees = repositories.trees()
    one, two = await trees.open(str(repositories.source), KEY), await trees.open(str(second), KEY)
    alike = await trees.open(str(repositories.source), "boss-charles:x/peon:4")
    like = await trees.open(str(repositories.source), "boss:charles-x/peon:4")
    assert len({one.path, two.path, alike.path, like.path}) == 4
    assert (await trees.close(str(second), KEY)).outcome is CloseOutcome.REMOVED
    assert Path(one.path, "a").exists()
    assert (await trees.open(f"{repositories.source}/../source", KEY)).path == one.path, (
        "by any name it is the same one"
    )


async def test_a_folder_that_is_not_a_repository_is_refused_in_one_line(repositories: Repositories) -> None:
    plain = repositories.folder / "plain"
    plain.mkdir()
    inner = repositories.source / "inner"
    inner.mkdir()
    for path in (
        plain,
        inner,
        repositories.folder / "nowhere",
        repositories.source / "a",
        repositories.hub / "objects",
    ):
        with pytest.raises(UsageError) as caught:
            await repositories.trees().open(str(path), KEY)
        assert str(path) in caught.value.message
        assert "\n" not in caught.value.message
        with pytest.raises(UsageError):
            await repositories.trees().close(str(path), KEY)


async def test_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    empty = Repository(tmp_path)
    with pytest.raises(UsageError, match="can be made at HEAD: it has no such commit"):
        await WorkTrees(tmp_path / "trees", empty.environ).open(str(empty.work), KEY)
