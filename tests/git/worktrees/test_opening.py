"""A work tree is made for a key, always at the same place, and found again."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.git.worktrees.worktrees import WorkTrees
from git.worktrees.repositories import KEY, Repositories

pytestmark = pytest.mark.process


async def test_tree_is_made_on_its_own_branch_at_the_remotes_main_one(repositories: Repositories) -> None:
    newest = repositories.push(a="two\n")
    before = repositories.tip("main")
    tree = await repositories.open()
    assert (tree.branch, tree.made, tree.notes) == ("clew/boss-4", True, ())
    assert Path(tree.path).parent == repositories.home
    assert Path(tree.path).name.startswith("boss-charles-peon-4-")
    assert repositories.tip("HEAD", tree.path) == newest
    assert Path(tree.path, "a").read_text() == "two\n"
    assert repositories.tip("main") == before != newest, "the user's own branch stays"
    assert repositories.git("config", "--get-regexp", "^branch.clew", check=False) == "", "it tracks no branch"


async def test_tree_is_kept_between_events_with_all_that_is_in_it(repositories: Repositories) -> None:
    first = await repositories.open()
    Path(first.path, "notes").write_text("mine\n")
    second = await repositories.open()
    assert (second.path, second.branch, second.made) == (first.path, first.branch, False)
    assert Path(second.path, "notes").read_text() == "mine\n"


async def test_only_the_owner_reads(repositories: Repositories) -> None:
    await repositories.open()
    assert stat.S_IMODE(repositories.home.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in repositories.home.iterdir() if path.is_file()}
    assert modes == {0o600}


async def test_closed_key_gets_a_new_tree_at_the_same_place(repositories: Repositories) -> None:
    first = await repositories.open()
    repositories.work(first, mine="1\n")
    await repositories.close()
    again = await repositories.open()
    assert (again.path, again.branch, again.made, again.notes) == (first.path, first.branch, True, ())
    assert not Path(again.path, "mine").exists()


async def test_list_names_every_tree(repositories: Repositories) -> None:
    assert await repositories.trees().list() == ()
    one, two = await repositories.open(), await repositories.open("ann:charles/peon:5")
    _delete(Path(one.path))
    listed = {entry.key: entry for entry in await repositories.trees().list()}
    assert listed.keys() == {KEY, "ann:charles/peon:5"}
    assert (listed[KEY].there, listed["ann:charles/peon:5"].there) == (False, True)
    found = listed["ann:charles/peon:5"]
    assert (found.repository, found.path, found.branch) == (str(repositories.source), two.path, "clew/ann-5")
    await repositories.close("ann:charles/peon:5")
    assert [entry.key for entry in await repositories.trees().list()] == [KEY]


async def test_a_missing_git_is_reported(repositories: Repositories) -> None:
    (repositories.folder / "empty").mkdir()
    environ = {**repositories.other.environ, "PATH": str(repositories.folder / "empty")}
    with pytest.raises(UsageError, match=r"^Work trees need git, and there is none on the PATH\.$"):
        await WorkTrees(repositories.home, environ).open(str(repositories.source), KEY)


def _delete(folder: Path) -> None:
    subprocess.run(["rm", "-rf", "--", folder], check=True)
