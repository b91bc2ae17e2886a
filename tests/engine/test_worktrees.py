"""Work trees of keys: always at the same place, in nobody's way, brought up to date and closed without a loss."""

from __future__ import annotations

import asyncio
import http.server
import os
import shlex
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.core.hook import Update
from clew.engine.worktrees import Closed, Outcome, WorkTree, WorkTrees
from clew.errors import UsageError
from engine.repository import Repository

pytestmark = pytest.mark.process

KEY = "boss:charles/peon:4"
OPEN = """
import asyncio, os, sys
from pathlib import Path
from clew.engine.worktrees import WorkTrees
tree = asyncio.run(WorkTrees(Path(sys.argv[1]), dict(os.environ)).open(sys.argv[2], sys.argv[3]))
print(tree.made, tree.path, tree.branch, *tree.notes, sep="\\n")
"""


class House:
    """A hub that all share, the clone that the settings name, and somebody who pushes to the hub."""

    def __init__(self, folder: Path, source: str = "source") -> None:
        self.folder = folder
        self.other = Repository(folder, work="other")
        self.other.commit(a="one\n", **{".gitignore": "*.log\n"})
        self.hub = folder / "hub.git"
        self.other.git("clone", "-q", "--bare", str(self.other.work), str(self.hub))
        self.other.git("remote", "add", "origin", f"file://{self.hub}")
        self.source = folder / source
        self.clone(self.source)
        self.home = folder / "clew" / "worktrees"

    def clone(self, path: Path, *options: str) -> None:
        self.other.git("clone", "-q", *options, f"file://{self.hub}", str(path))
        self.git("config", "user.name", "Agent", cwd=path)
        self.git("config", "user.email", "agent@localhost", cwd=path)

    def trees(self, **options: float) -> WorkTrees:
        return WorkTrees(self.home, self.other.environ, **options)

    async def open(self, key: str = KEY, **options: object) -> WorkTree:
        return await self.trees().open(str(self.source), key, **options)  # type: ignore[arg-type]

    async def close(self, key: str = KEY) -> Closed:
        return await self.trees().close(str(self.source), key)

    def git(self, *args: str, cwd: Path | str | None = None, check: bool = True) -> str:
        return self.other.git(*args, cwd=Path(cwd or self.source), check=check).decode().strip()

    def push(self, to: str = "main", *, force: bool = False, **files: str) -> str:
        """Somebody's new commit, on the hub under that name."""
        self.other.commit(**files)
        to = to if to.startswith("refs/") else f"refs/heads/{to}"
        self.other.git("push", "-q", *(["--force"] if force else []), "origin", f"HEAD:{to}")
        return self.tip("HEAD", self.other.work)

    def work(self, tree: WorkTree, **files: str) -> str:
        """A commit of the agent's."""
        for name, text in files.items():
            Path(tree.path, name).write_text(text)
        self.git("add", "-A", cwd=tree.path)
        self.git("commit", "-q", "-m", "the agent's", cwd=tree.path)
        return self.tip("HEAD", tree.path)

    def tip(self, name: str, cwd: Path | str | None = None) -> str:
        return self.git("rev-parse", "--verify", "--quiet", name, cwd=cwd, check=False)

    def branches(self) -> set[str]:
        return set(self.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split())

    def left(self) -> list[str]:
        """What our folder holds beside locks."""
        return sorted(path.name for path in self.home.iterdir() if path.suffix != ".lock")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


async def test_tree_is_made_on_its_own_branch_at_the_remotes_main_one(house: House) -> None:
    newest = house.push(a="two\n")
    before = house.tip("main")
    tree = await house.open()
    assert (tree.branch, tree.made, tree.notes) == ("clew/boss-4", True, ())
    assert Path(tree.path).parent == house.home
    assert Path(tree.path).name.startswith("boss-charles-peon-4-")
    assert house.tip("HEAD", tree.path) == newest
    assert Path(tree.path, "a").read_text() == "two\n"
    assert house.tip("main") == before != newest, "the user's own branch stays"
    assert house.git("config", "--get-regexp", "^branch.clew", check=False) == "", "it follows nobody's branch"


async def test_tree_is_kept_between_events_with_all_that_is_in_it(house: House) -> None:
    first = await house.open()
    Path(first.path, "notes").write_text("mine\n")
    second = await house.open()
    assert (second.path, second.branch, second.made) == (first.path, first.branch, False)
    assert Path(second.path, "notes").read_text() == "mine\n"


async def test_only_the_owner_reads(house: House) -> None:
    await house.open()
    assert stat.S_IMODE(house.home.stat().st_mode) == 0o700
    modes = {stat.S_IMODE(path.stat().st_mode) for path in house.home.iterdir() if path.is_file()}
    assert modes == {0o600}


async def test_update_none_leaves_all_as_it_is(house: House) -> None:
    tree = await house.open()
    head, known = house.tip("HEAD", tree.path), house.tip("origin/main")
    house.push(a="two\n")
    assert (await house.open(update=Update.NONE)).notes == ()
    assert (house.tip("HEAD", tree.path), house.tip("origin/main")) == (head, known)


async def test_update_fetch_leaves_the_tree_as_it_is(house: House) -> None:
    tree = await house.open()
    head = house.tip("HEAD", tree.path)
    newest = house.push(a="two\n")
    assert (await house.open(update=Update.FETCH)).notes == ()
    assert (house.tip("HEAD", tree.path), house.tip("origin/main")) == (head, newest)


async def test_update_forward_moves_a_clean_tree_on(house: House) -> None:
    tree = await house.open()
    newest = house.push(a="two\n")
    assert (await house.open()).notes == ()
    assert house.tip("HEAD", tree.path) == newest
    assert Path(tree.path, "a").read_text() == "two\n"
    assert house.git("status", "--porcelain", cwd=tree.path) == ""


async def test_changed_tree_is_not_moved_on(house: House) -> None:
    tree = await house.open()
    head = house.tip("HEAD", tree.path)
    Path(tree.path, "a").write_text("mine\n")
    Path(tree.path, "new").write_text("mine\n")
    house.push(a="two\n")
    assert (await house.open()).notes == ("Not moved on: 2 files have changed in it.",)
    assert house.tip("HEAD", tree.path) == head
    assert Path(tree.path, "a").read_text() == "mine\n"


async def test_tree_with_commits_of_its_own_is_not_moved_on(house: House) -> None:
    tree = await house.open()
    mine = house.work(tree, a="mine\n")
    assert (await house.open()).notes == (), "nothing new, nothing to say"
    house.push(a="two\n")
    again = await house.open()
    assert again.notes == ("Not moved on: clew/boss-4 has 1 commit that origin/main lacks, and lacks 1.",)
    assert house.tip("HEAD", tree.path) == mine


async def test_tree_on_no_branch_is_not_moved_on(house: House) -> None:
    tree = await house.open()
    house.git("checkout", "-q", "--detach", cwd=tree.path)
    house.push(a="two\n")
    again = await house.open()
    assert (again.branch, again.notes) == (None, ("Not moved on: it is on no branch.",))


async def test_ignored_file_in_the_way_is_not_overwritten(house: House) -> None:
    tree = await house.open()
    Path(tree.path, "secret.log").write_text("mine\n")
    house.other.write("secret.log", "theirs\n")
    house.other.git("add", "-f", "secret.log")
    house.push()
    again = await house.open()
    assert again.notes[0].startswith("Not moved on: ")
    assert Path(tree.path, "secret.log").read_text() == "mine\n"


async def test_pushed_branch_follows_what_others_push_to_it(house: House) -> None:
    tree = await house.open()
    house.work(tree, mine="1\n")
    house.git("push", "-q", "origin", "clew/boss-4", cwd=tree.path)
    house.other.git("fetch", "-q", "origin")
    house.other.git("reset", "-q", "--hard", "origin/clew/boss-4")
    newest = house.push("clew/boss-4", theirs="2\n")
    assert (await house.open()).notes == ()
    assert house.tip("HEAD", tree.path) == newest


async def test_pull_request_of_a_fork_is_fetched_by_its_ref(house: House) -> None:
    head = house.push("refs/pull/7/head", fork="1\n")
    mine = house.tip("main")
    tree = await house.open("reviewer:charles/peon:7", branch="main", fetch="refs/pull/7/head")
    assert house.tip("HEAD", tree.path) == head
    assert tree.branch == "clew/reviewer-7", "a fork's main is not ours"
    assert tree.notes == ("The name main is taken: this tree has a branch of its own.",)
    assert house.tip("main") == house.tip("origin/main") == mine

    newest = house.push("refs/pull/7/head", fork="2\n")
    again = await house.open("reviewer:charles/peon:7", fetch="refs/pull/7/head")
    assert (house.tip("HEAD", tree.path), again.notes) == (newest, ())


async def test_untouched_tree_follows_a_forced_push(house: House) -> None:
    first = house.push("refs/pull/7/head", fork="1\n")
    tree = await house.open(fetch="refs/pull/7/head")
    house.other.git("reset", "-q", "--hard", "HEAD~1")
    second = house.push("refs/pull/7/head", force=True, fork="rewritten\n")
    assert (await house.open(fetch="refs/pull/7/head")).notes == ()
    assert house.tip("HEAD", tree.path) == second != first
    assert Path(tree.path, "fork").read_text() == "rewritten\n"
    assert (await house.close()).outcome is Outcome.REMOVED, "nothing in it was its own"
    assert "refs/clew" not in house.git("for-each-ref")


async def test_forced_push_takes_no_commit_away(house: House) -> None:
    house.push("refs/pull/7/head", fork="1\n")
    tree = await house.open(fetch="refs/pull/7/head")
    mine = house.work(tree, mine="1\n")
    house.other.git("reset", "-q", "--hard", "HEAD~1")
    house.push("refs/pull/7/head", force=True, fork="rewritten\n")
    again = await house.open(fetch="refs/pull/7/head")
    assert again.notes == ("Not moved on: clew/boss-4 has 2 commits that refs/pull/7/head lacks, and lacks 1.",)
    assert house.tip("HEAD", tree.path) == mine


async def test_branch_that_the_remote_deleted_stays_where_it_is(house: House) -> None:
    head = house.push("feature", f="1\n")
    tree = await house.open(branch="feature")
    house.git("update-ref", "-d", "refs/heads/feature", cwd=house.hub)
    house.git("config", "fetch.prune", "true")
    assert (await house.open(branch="feature")).notes == ()
    assert (house.tip("origin/feature"), house.tip("HEAD", tree.path)) == ("", head)


async def test_missing_pull_request_is_an_error_and_leaves_nothing(house: House) -> None:
    with pytest.raises(UsageError, match="couldn't find remote ref refs/pull/9/head"):
        await house.open(fetch="refs/pull/9/head")
    assert house.left() == []
    assert house.branches() == {"main"}


async def test_branch_of_the_remote_is_tracked(house: House) -> None:
    head = house.push("feature", f="1\n")
    tree = await house.open(branch="feature")
    assert (tree.branch, house.tip("HEAD", tree.path)) == ("feature", head)
    assert house.git("rev-parse", "--abbrev-ref", "feature@{upstream}") == "origin/feature"
    newest = house.push("feature", f="2\n")
    assert (await house.open(branch="feature")).notes == ()
    assert house.tip("HEAD", tree.path) == newest
    assert (await house.close()).outcome is Outcome.REMOVED
    assert house.branches() == {"main"}


async def test_free_branch_of_the_users_is_used_and_never_deleted(house: House) -> None:
    house.git("branch", "mine")
    tree = await house.open(branch="mine")
    assert (tree.branch, tree.notes) == ("mine", ())
    house.work(tree, f="1\n")
    closed = await house.close()
    assert closed.outcome is Outcome.REMOVED, "the branch has it all"
    assert house.git("show", "mine:f") == "1"


async def test_branch_that_is_checked_out_elsewhere_is_left_to_its_user(house: House) -> None:
    newest = house.push(a="two\n")
    tree = await house.open(branch="main")
    assert (tree.branch, house.tip("HEAD", tree.path)) == ("clew/boss-4", newest)
    assert tree.notes == (f"The branch main is checked out in {house.source}: this tree has one of its own.",)


async def test_new_branch_begins_where_it_is_told(house: House) -> None:
    head = house.push("release", r="1\n")
    named = await house.open(branch="fix", start="release")
    assert (named.branch, house.tip("HEAD", named.path)) == ("fix", head)
    exact = await house.open("boss:charles/peon:5", start=head)
    assert (exact.branch, house.tip("HEAD", exact.path)) == ("clew/boss-5", head)
    with pytest.raises(UsageError, match="can be made at nowhere: it has no such commit"):
        await house.open("boss:charles/peon:6", start="nowhere")


async def test_names_in_use_here_or_on_the_remote_are_passed_over(house: House) -> None:
    house.git("branch", "clew/boss-4")
    house.push("clew/boss-4-2", x="1\n")
    assert (await house.open()).branch == "clew/boss-4-3"


@pytest.mark.parametrize("branch", ["-f", "a..b", "HEAD", "a b", "x.lock", "a\0b", ""])
async def test_what_is_no_branch_is_refused(house: House, branch: str) -> None:
    with pytest.raises(UsageError, match="cannot name a branch"):
        await house.open(branch=branch)


@pytest.mark.parametrize("ref", ["main", "refs/heads/*:refs/heads/*", "+refs/x", "--upload-pack=x", "refs/../x"])
async def test_what_is_no_ref_is_not_fetched(house: House, ref: str) -> None:
    with pytest.raises(UsageError, match="is no ref to fetch"):
        await house.open(fetch=ref)


async def test_remote_that_is_no_name_is_refused(house: House) -> None:
    with pytest.raises(UsageError, match="cannot name a remote"):
        await house.open(remote="ext::sh -c true")


@pytest.mark.rest
@pytest.mark.parametrize("option", ["--bare", "--mirror"])
async def test_bare_repository_will_do(house: House, option: str) -> None:
    house.source = house.folder / "bare.git"
    house.clone(house.source, option)
    newest = house.push(a="two\n")
    before = house.tip("refs/heads/main")
    tree = await house.open()
    assert (house.tip("HEAD", tree.path), house.tip("refs/heads/main")) == (newest, before)
    mine = house.work(tree, mine="1\n")
    house.other.git("push", "-q", "origin", "HEAD:refs/heads/clew/boss-4")  # somebody else's, by the same name
    await house.open()
    assert house.tip("refs/heads/clew/boss-4") == mine, "settings of a mirror do not have branches overwritten"
    Path(tree.path, "a").write_text("changed\n")
    closed = await house.close()
    assert closed.ref is not None
    assert house.git("show", f"{closed.ref}:a") == "changed"


async def test_repository_without_a_remote_will_do(house: House) -> None:
    house.git("remote", "remove", "origin")
    tree = await house.open()
    assert (tree.notes, house.tip("HEAD", tree.path)) == ((), house.tip("main"))
    house.git("commit", "-q", "--allow-empty", "-m", "more")
    assert (await house.open()).notes == ()
    assert house.tip("HEAD", tree.path) == house.tip("main")


async def test_default_branch_is_asked_for_when_it_is_not_known(house: House) -> None:
    house.push("trunk", t="1\n")
    house.git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=house.hub)
    house.git("remote", "set-head", "origin", "--delete")
    tree = await house.open()
    assert Path(tree.path, "t").read_text() == "1\n"


@pytest.mark.rest
@pytest.mark.parametrize("name", ["with space", "quo'te\"s", "$(touch x);&", "ünï", "-dash", "a:b", "new\nline"])
async def test_repository_may_have_any_name(tmp_path: Path, name: str) -> None:
    house = House(tmp_path, source=f"in/{name}")
    newest = house.push(a="two\n")
    tree = await house.open()
    assert house.tip("HEAD", tree.path) == newest
    house.push(a="three\n")
    assert (await house.open()).notes == ()
    Path(tree.path, "new").write_text("mine\n")
    closed = await house.close()
    assert closed.ref is not None
    assert house.git("show", f"{closed.ref}:new") == "mine"


@pytest.mark.rest
async def test_long_key_and_deep_folder(house: House) -> None:
    house.home = house.folder / Path(*(["x" * 200] * 5)) / "worktrees"
    key = f"{'a' * 40}:{'b' * 100}/{'c' * 100}:{'9' * 80}"
    tree = await house.open(key)
    assert len(Path(tree.path).name) < 100
    assert (await house.open(key)).path == tree.path
    assert (await house.close(key)).outcome is Outcome.REMOVED


async def test_names_that_no_ref_may_have_still_get_a_branch(house: House) -> None:
    assert (await house.open("a....b:charles/peon:4")).branch == "clew/a.b-4"


@pytest.mark.parametrize(
    "key", ["../../x", "boss:../x:4", "boss:charles/peon", "boss:charles/peon:04", "", "boss:a/b:4\0", "/etc:a/b:1"]
)
async def test_what_is_no_key_is_refused_and_makes_nothing(house: House, key: str) -> None:
    with pytest.raises(UsageError, match="session key"):
        await house.open(key)
    with pytest.raises(UsageError, match="session key"):
        await house.close(key)
    assert not house.home.exists()


@pytest.mark.rest
async def test_one_repositorys_key_never_reaches_anothers_tree(house: House) -> None:
    second = house.folder / "second"
    house.clone(second)
    trees = house.trees()
    one, two = await trees.open(str(house.source), KEY), await trees.open(str(second), KEY)
    alike = await trees.open(str(house.source), "boss-charles:x/peon:4")
    like = await trees.open(str(house.source), "boss:charles-x/peon:4")
    assert len({one.path, two.path, alike.path, like.path}) == 4
    assert (await trees.close(str(second), KEY)).outcome is Outcome.REMOVED
    assert Path(one.path, "a").exists()
    assert (await trees.open(f"{house.source}/../source", KEY)).path == one.path, "by any name it is the same one"


async def test_what_is_no_repository_is_refused_in_one_line(house: House) -> None:
    plain = house.folder / "plain"
    plain.mkdir()
    inner = house.source / "inner"
    inner.mkdir()
    for path in (plain, inner, house.folder / "nowhere", house.source / "a", house.hub / "objects"):
        with pytest.raises(UsageError) as caught:
            await house.trees().open(str(path), KEY)
        assert str(path) in caught.value.message
        assert "\n" not in caught.value.message
        with pytest.raises(UsageError):
            await house.trees().close(str(path), KEY)


async def test_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    empty = Repository(tmp_path)
    with pytest.raises(UsageError, match="can be made at HEAD: it has no such commit"):
        await WorkTrees(tmp_path / "trees", empty.environ).open(str(empty.work), KEY)


@pytest.mark.rest
async def test_nothing_runs_that_the_repository_names(house: House) -> None:
    ran = house.folder / "ran"
    touch = f"touch {shlex.quote(str(ran))}"
    for hook in ("post-checkout", "post-merge", "post-rewrite", "reference-transaction", "post-index-change"):
        path = house.source / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{touch}\n")
        path.chmod(0o755)
    house.git("config", "filter.x.smudge", f"{touch}; cat")
    house.git("config", "filter.x.clean", f"{touch}; cat")
    house.git("config", "filter.x.required", "true")
    house.git("config", "core.fsmonitor", touch)
    house.git("config", "core.askPass", touch)
    house.git("config", "core.alternateRefsCommand", touch)
    house.git("config", "remote.origin.uploadpack", f"{touch}; git-upload-pack")
    house.push(b="1\n", **{".gitattributes": "* filter=x\n"})
    tree = await house.open()
    house.push(b="2\n")
    assert (await house.open()).notes == ()
    assert Path(tree.path, "b").read_text() == "2\n"
    Path(tree.path, "b").write_text("mine\n")
    await house.open()
    closed = await house.close()
    assert closed.outcome is Outcome.ARCHIVED
    assert not ran.exists()


async def test_remote_that_is_a_command_is_not_run(house: House) -> None:
    ran = house.folder / "ran"
    house.git("config", "remote.origin.url", f"ext::sh -c touch% {ran}")
    house.git("config", "protocol.ext.allow", "always")
    tree = await house.open()
    assert tree.notes[0] == "Not up to date: git fetch failed: transport 'ext' not allowed"
    assert not ran.exists()


@pytest.mark.rest
async def test_remote_that_is_gone_is_told_and_the_tree_is_there(house: House) -> None:
    tree = await house.open()
    house.hub.rename(house.folder / "moved.git")
    again = await house.open()
    assert again.path == tree.path
    assert again.notes[0].startswith("Not up to date: git fetch failed: ")
    other = await house.open("boss:charles/peon:5")
    assert (other.made, len(other.notes)) == (True, 1)


async def test_remote_that_says_nothing_is_given_up(house: House) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        house.git("config", "remote.origin.url", f"git://127.0.0.1:{server.getsockname()[1]}/x")
        tree = await house.trees(fetch_limit_s=0.5).open(str(house.source), KEY)
    assert (tree.made, tree.notes) == (True, ("Not up to date: git fetch took longer than 0 s.",))


async def test_nobody_is_asked_for_a_password(house: House) -> None:
    asked = house.folder / "asked"
    program = house.folder / "askpass"
    program.write_text(f"#!/bin/sh\ntouch {asked}\n")
    program.chmod(0o755)
    house.git("config", "core.askPass", str(program))
    environ = {**house.other.environ, "SSH_ASKPASS": str(program), "GIT_ASKPASS": str(program), "DISPLAY": ":0"}
    with _asking_for_a_password() as url:
        house.git("config", "remote.origin.url", url)
        tree = await WorkTrees(house.home, environ).open(str(house.source), KEY)
    assert "terminal prompts disabled" in tree.notes[0]
    assert not asked.exists()


async def test_users_own_credentials_are_used(house: House) -> None:
    seen = house.folder / "seen"
    ssh = house.folder / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" > {seen}\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    house.git("config", "remote.origin.url", f"ssh://hub.invalid{house.hub}")
    newest = house.push(a="two\n")
    environ = {**house.other.environ, "GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "ssh"}
    tree = await WorkTrees(house.home, environ).open(str(house.source), KEY)
    assert (tree.notes, house.tip("HEAD", tree.path)) == ((), newest)
    assert "hub.invalid" in seen.read_text()


async def test_callers_own_git_state_leads_nowhere(house: House) -> None:
    stray = {"GIT_DIR": str(house.other.work / ".git"), "GIT_WORK_TREE": "/", "GIT_INDEX_FILE": "x"}
    tree = await WorkTrees(house.home, {**house.other.environ, **stray}).open(str(house.source), KEY)
    assert house.git("rev-parse", "--git-common-dir", cwd=tree.path) == str(house.source / ".git")


@pytest.mark.rest
async def test_many_processes_open_the_same_key_at_once(house: House) -> None:
    said = await asyncio.gather(*(_open_elsewhere(house, KEY) for _ in range(6)))
    assert sorted(lines[0] for lines in said) == [*["False"] * 5, "True"]
    assert len({tuple(lines[1:]) for lines in said}) == 1
    assert house.git("status", "--porcelain", cwd=said[0][1]) == ""


@pytest.mark.rest
async def test_many_keys_are_opened_and_closed_at_once(house: House) -> None:
    keys = [f"boss:charles/peon:{number}" for number in range(1, 9)]
    house.push("feature", f="1\n")
    trees = house.trees()
    opened = await asyncio.gather(*(trees.open(str(house.source), key, start="feature") for key in keys))
    assert {tree.branch for tree in opened} == {f"clew/boss-{number}" for number in range(1, 9)}
    assert [tree.notes for tree in opened] == [()] * 8
    closed = await asyncio.gather(*(trees.close(str(house.source), key) for key in keys))
    assert {one.outcome for one in closed} == {Outcome.REMOVED}
    assert (house.left(), house.branches()) == ([], {"main"})


@pytest.mark.rest
async def test_lock_outlives_a_killed_process_as_long_as_its_git_works(house: House) -> None:
    gate, reached = house.folder / "gate", house.folder / "reached"
    os.mkfifo(gate)
    os.mkfifo(reached)
    slow = house.other.wrapped(f'if [ "$verb" = worktree ]; then echo > {reached}; cat {gate}; fi')
    first = _process(house, KEY, slow)
    await asyncio.to_thread(reached.read_text)
    first.kill()
    first.wait()
    second = asyncio.ensure_future(house.open())
    done, _ = await asyncio.wait([second], timeout=0.5)  # a busy machine can only make it pass
    assert not done, "a tree is being made by a git that outlived its process"
    await asyncio.to_thread(gate.write_text, "")
    tree = await second
    assert (tree.made, tree.branch) == (False, "clew/boss-4")
    assert house.git("status", "--porcelain", cwd=tree.path) == ""


@pytest.mark.rest
async def test_waiting_for_the_lock_can_be_cancelled(house: House) -> None:
    gate, reached = house.folder / "gate", house.folder / "reached"
    os.mkfifo(gate)
    os.mkfifo(reached)
    slow = house.other.wrapped(f'if [ "$verb" = worktree ]; then echo > {reached}; cat {gate}; fi')
    first = _process(house, KEY, slow)
    await asyncio.to_thread(reached.read_text)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(house.open(), 0.3)  # a busy machine can only end it sooner on its way
    await asyncio.to_thread(gate.write_text, "")
    assert first.wait() == 0
    assert (await house.open()).made is False, "the one that was cancelled holds no lock"


async def test_folder_that_was_deleted_by_hand_is_made_again_with_its_commits(house: House) -> None:
    tree = await house.open()
    mine = house.work(tree, mine="1\n")
    _delete(Path(tree.path))
    again = await house.open()
    assert (again.path, again.branch, again.made) == (tree.path, tree.branch, True)
    assert again.notes == ("The work tree was gone, and was made again.",)
    assert house.tip("HEAD", tree.path) == mine


async def test_branch_taken_meanwhile_is_gone_on_from(house: House) -> None:
    tree = await house.open()
    mine = house.work(tree, mine="1\n")
    _delete(Path(tree.path))
    house.git("worktree", "prune")
    house.git("checkout", "-q", "clew/boss-4")
    again = await house.open()
    assert (again.branch, house.tip("HEAD", tree.path)) == ("clew/boss-4-2", mine)
    assert again.notes == (f"The branch clew/boss-4 is checked out in {house.source}: this tree has one of its own.",)


async def test_half_made_tree_is_made_again(house: House) -> None:
    tree = await house.open()
    [git_dir] = (house.source / ".git" / "worktrees").iterdir()
    (git_dir / "locked").write_text("initializing\n")
    Path(tree.path, "a").unlink()
    again = await house.open()
    assert (again.made, again.branch, again.notes) == (True, tree.branch, ())
    assert Path(tree.path, "a").read_text() == "one\n"
    assert house.git("worktree", "list", "--porcelain").count("locked") == 0


async def test_tree_with_another_repository_in_its_place_is_set_aside(house: House) -> None:
    ran = house.folder / "ran"
    tree = await house.open()
    mine = house.work(tree, mine="1\n")
    place = Path(tree.path)
    (place / ".git").unlink()
    house.git("init", "-q", cwd=place)
    house.git("config", "core.fsmonitor", f"touch {ran}", cwd=place)
    house.git("config", "core.sshCommand", f"touch {ran}", cwd=place)
    house.git("remote", "add", "origin", "ssh://localhost/x", cwd=place)
    (place / "unsaved").write_text("mine\n")
    assert (await house.close()).outcome is Outcome.LEFT
    again = await house.open()
    assert (again.made, again.branch, house.tip("HEAD", place)) == (True, "clew/boss-4", mine)
    aside = Path(again.notes[0].removeprefix("What was in the place of the work tree is now in ").removesuffix("."))
    assert (aside / "unsaved").read_text() == "mine\n"
    assert not ran.exists()


async def test_tree_that_points_into_anothers_is_set_aside(house: House) -> None:
    one, two = await house.open(), await house.open("boss:charles/peon:5")
    theirs = house.work(two, theirs="1\n")
    Path(one.path, ".git").write_bytes(Path(two.path, ".git").read_bytes())
    assert (await house.close()).outcome is Outcome.LEFT
    again = await house.open()
    assert (again.made, again.branch) == (True, "clew/boss-4")
    assert (house.tip("HEAD", two.path), house.tip("clew/boss-5")) == (theirs, theirs)


async def test_repository_that_was_cloned_anew_gets_a_new_tree(house: House) -> None:
    tree = await house.open()
    Path(tree.path, "unsaved").write_text("mine\n")
    _delete(house.source)
    house.clone(house.source)
    again = await house.open()
    assert (again.path, again.made) == (tree.path, True)
    [aside] = [path for path in house.home.iterdir() if ".aside-" in path.name]
    assert (aside / "unsaved").read_text() == "mine\n"
    assert str(aside) in again.notes[0]


async def test_tree_whose_record_is_lost_is_used_and_its_branch_is_not_ours_to_delete(house: House) -> None:
    await house.open()
    for record in house.home.glob("*.json"):
        record.write_text("{")
    assert (await house.open()).made is False
    assert (await house.close()).outcome is Outcome.REMOVED
    assert house.branches() == {"main", "clew/boss-4"}


async def test_unchanged_tree_is_removed_with_its_branch(house: House) -> None:
    tree = await house.open()
    Path(tree.path, "noise.log").write_text("ignored\n")
    assert await house.close() == Closed(Outcome.REMOVED, None, "The work tree is removed.")
    assert not Path(tree.path).exists()
    assert (house.left(), house.branches()) == ([], {"main"})
    assert len(house.git("worktree", "list").splitlines()) == 1
    assert "refs/clew" not in house.git("for-each-ref")


@pytest.mark.parametrize("how", ["pushed", "merged"])
async def test_tree_whose_commits_others_have_is_removed(house: House, how: str) -> None:
    tree = await house.open()
    mine = house.work(tree, mine="1\n")
    if how == "pushed":
        house.git("push", "-q", "origin", "clew/boss-4", cwd=tree.path)
    else:
        house.git("merge", "-q", "clew/boss-4")
    assert await house.close() == Closed(Outcome.REMOVED, None, "The work tree is removed.")
    assert house.branches() == {"main"}
    assert house.tip("origin/clew/boss-4" if how == "pushed" else "main") == mine


async def test_changed_tree_is_archived_and_a_checkout_brings_it_back(house: House) -> None:
    house.other.write("run", "#!/bin/sh\n").chmod(0o755)
    house.push(gone="1\n", b="2\n")
    tree = await house.open()
    house.work(tree, mine="1\n")
    place = Path(tree.path)
    (place / "b").write_text("changed\n")
    (place / "gone").unlink()
    (place / "folder").mkdir()
    (place / "folder" / "new").write_text("untracked\n")
    (place / "link").symlink_to("b")
    (place / "noise.log").write_text("ignored\n")
    (place / "staged").write_text("staged\n")
    house.git("add", "staged", cwd=place)
    files = house.other.files(place)
    files.pop(b"noise.log")
    (house.source / "a").write_text("the user's\n")
    before = _users(house)

    closed = await house.close()
    assert closed.outcome is Outcome.ARCHIVED
    assert closed.ref is not None
    assert closed.ref.startswith("refs/clew/archive/boss-charles-peon-4-20")
    assert closed.ref in closed.why
    assert not place.exists()
    assert (house.left(), house.branches()) == ([], {"main"})
    assert _users(house) == before, "the user's own tree is as it was"
    assert house.git("log", "--format=%s", "-2", closed.ref).splitlines()[1] == "the agent's"

    house.git("worktree", "add", "-q", "--detach", str(house.folder / "back"))
    house.git("checkout", "-q", closed.ref, cwd=house.folder / "back")
    assert house.other.files(house.folder / "back") == files


async def test_commits_alone_are_archived_as_they_are(house: House) -> None:
    tree = await house.open()
    mine = house.work(tree, mine="1\n")
    closed = await house.close()
    assert closed.outcome is Outcome.ARCHIVED
    assert house.tip(str(closed.ref)) == mine
    assert house.branches() == {"main"}


async def test_commits_on_no_branch_are_archived(house: House) -> None:
    tree = await house.open()
    house.git("checkout", "-q", "--detach", cwd=tree.path)
    mine = house.work(tree, mine="1\n")
    closed = await house.close()
    assert house.tip(str(closed.ref)) == mine
    assert house.branches() == {"main"}


async def test_tree_in_the_middle_of_a_conflict_is_archived(house: House) -> None:
    tree = await house.open()
    mine = house.work(tree, a="mine\n")
    house.push(a="theirs\n")
    await house.open()
    house.git("merge", "origin/main", cwd=tree.path, check=False)
    assert "<<<<<<<" in Path(tree.path, "a").read_text()
    assert (await house.open()).notes[0].startswith("Not moved on: ")
    closed = await house.close()
    assert "<<<<<<<" in house.git("show", f"{closed.ref}:a")
    assert house.tip(f"{closed.ref}^") == mine


async def test_branches_that_the_agent_made_stay(house: House) -> None:
    tree = await house.open()
    house.git("checkout", "-q", "-b", "idea", cwd=tree.path)
    mine = house.work(tree, mine="1\n")
    assert (await house.open()).branch == "idea"
    assert (await house.close()).outcome is Outcome.REMOVED
    assert (house.branches(), house.tip("idea")) == ({"main", "idea"}, mine)


async def test_branch_with_commits_stays_when_its_tree_went_elsewhere(house: House) -> None:
    tree = await house.open()
    mine = house.work(tree, mine="1\n")
    house.git("checkout", "-q", "--detach", "origin/main", cwd=tree.path)
    closed = await house.close()
    assert closed == Closed(Outcome.REMOVED, None, "The work tree is removed. Its branch clew/boss-4 stays.")
    assert house.tip("clew/boss-4") == mine


async def test_archives_of_the_same_second_do_not_meet(house: House) -> None:
    trees = WorkTrees(house.home, house.other.environ, clock=lambda: 1_700_000_000.0)
    refs = []
    for text in ("1\n", "2\n"):
        tree = await trees.open(str(house.source), KEY)
        Path(tree.path, "new").write_text(text)
        refs.append((await trees.close(str(house.source), KEY)).ref)
    first = "refs/clew/archive/boss-charles-peon-4-20231114T221320Z"
    assert refs == [first, f"{first}-2"]
    assert [house.git("show", f"{ref}:new") for ref in refs] == ["1", "2"]


async def test_missing_tree_is_told(house: House) -> None:
    assert await house.close() == Closed(Outcome.MISSING, None, f"{KEY} has no work tree.")
    tree = await house.open()
    mine = house.work(tree, mine="1\n")
    _delete(Path(tree.path))
    closed = await house.close()
    assert closed == Closed(Outcome.MISSING, None, f"{KEY} has no work tree. Its branch clew/boss-4 stays.")
    assert house.tip("clew/boss-4") == mine
    assert (house.left(), len(house.git("worktree", "list").splitlines())) == ([], 1)


async def test_tree_with_a_live_process_in_it_is_left(house: House) -> None:
    tree = await house.open()
    inner = Path(tree.path, "inner")
    inner.mkdir()
    process = subprocess.Popen(["cat"], cwd=inner, stdin=subprocess.PIPE)
    try:
        closed = await house.close()
    finally:
        process.communicate()
    assert closed == Closed(Outcome.LEFT, None, f"The work tree is left: process {process.pid} is in it.")
    assert inner.is_dir()
    assert (await house.close()).outcome is Outcome.REMOVED


async def test_tree_that_git_has_locked_is_left(house: House) -> None:
    tree = await house.open()
    house.git("worktree", "lock", "--reason", "mine", tree.path)
    assert (await house.close()).why == "The work tree is left: it is locked: mine."
    house.git("worktree", "unlock", tree.path)
    lock = Path(house.git("rev-parse", "--absolute-git-dir", cwd=tree.path), "index.lock")
    lock.touch()
    assert str(lock) in (await house.close()).why
    lock.unlink()
    assert (await house.close()).outcome is Outcome.REMOVED


async def test_tree_that_holds_a_repository_is_left(house: House) -> None:
    tree = await house.open()
    house.git("clone", "-q", str(house.hub), str(Path(tree.path, "lib", "dep")))
    closed = await house.close()
    assert closed.why == "The work tree is left: it holds repositories of its own: lib/dep."
    assert Path(tree.path, "lib/dep/a").exists()


@pytest.mark.rest
async def test_submodules_are_left_alone(house: House) -> None:
    first, second = house.push(a="two\n"), house.push(a="three\n")

    def push(commit: str) -> None:
        house.other.git("reset", "-q", "--hard", second)
        house.other.write(".gitmodules", f'[submodule "s"]\n\tpath = s\n\turl = file://{house.hub}\n')
        house.other.git("update-index", "--add", "--cacheinfo", f"160000,{commit},s")
        house.other.git("add", ".gitmodules")
        house.other.git("commit", "-q", "-m", "a submodule")
        house.other.git("push", "-q", "--force", "origin", "HEAD:refs/pull/7/head")

    push(first)
    house.git("config", "submodule.recurse", "true")
    tree = await house.open(fetch="refs/pull/7/head")
    inner = Path(tree.path, "s")
    assert list(inner.iterdir()) == []
    assert (await house.close()).outcome is Outcome.REMOVED

    tree = await house.open(fetch="refs/pull/7/head")
    house.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init", cwd=tree.path)
    assert house.tip("HEAD", inner) == first
    push(second)
    assert (await house.open(fetch="refs/pull/7/head")).notes == ()
    assert house.git("rev-parse", "HEAD:s", cwd=tree.path) == second
    assert house.tip("HEAD", inner) == first
    assert "repositories of its own: s." in (await house.close()).why


async def test_tree_that_cannot_be_archived_stays(house: House) -> None:
    tree = await house.open()
    Path(tree.path, "new").write_text("mine\n")
    broken = house.other.wrapped('if [ "$verb" = commit-tree ]; then echo "fatal: no" >&2; exit 128; fi')
    with pytest.raises(UsageError) as caught:
        await WorkTrees(house.home, {**house.other.environ, **broken}).close(str(house.source), KEY)
    assert (caught.value.message, caught.value.hint) == ("git commit-tree failed: no", None)
    assert Path(tree.path, "new").read_text() == "mine\n"


async def test_removal_that_was_cut_off_leaves_no_half_of_a_tree(house: House) -> None:
    tree = await house.open()
    broken = house.other.wrapped('if [ "$verb" = worktree ]; then kill -9 $$; fi')
    with pytest.raises(UsageError):
        await WorkTrees(house.home, {**house.other.environ, **broken}).close(str(house.source), KEY)
    assert not Path(tree.path).exists(), "all of it went at once"
    assert (await house.open()).branch == tree.branch
    assert house.git("status", "--porcelain", cwd=tree.path) == ""
    assert (await house.close()).outcome is Outcome.REMOVED
    assert (house.left(), house.branches()) == ([], {"main"}), "what the other threw away is gone too"


async def test_closed_key_gets_a_new_tree_at_the_same_place(house: House) -> None:
    first = await house.open()
    house.work(first, mine="1\n")
    await house.close()
    again = await house.open()
    assert (again.path, again.branch, again.made, again.notes) == (first.path, first.branch, True, ())
    assert not Path(again.path, "mine").exists()


async def test_list_tells_of_every_tree(house: House) -> None:
    assert await house.trees().list() == ()
    one, two = await house.open(), await house.open("ann:charles/peon:5")
    _delete(Path(one.path))
    listed = {entry.key: entry for entry in await house.trees().list()}
    assert listed.keys() == {KEY, "ann:charles/peon:5"}
    assert (listed[KEY].there, listed["ann:charles/peon:5"].there) == (False, True)
    found = listed["ann:charles/peon:5"]
    assert (found.repository, found.path, found.branch) == (str(house.source), two.path, "clew/ann-5")
    await house.close("ann:charles/peon:5")
    assert [entry.key for entry in await house.trees().list()] == [KEY]


async def test_missing_git_is_told(house: House) -> None:
    (house.folder / "empty").mkdir()
    environ = {**house.other.environ, "PATH": str(house.folder / "empty")}
    with pytest.raises(UsageError, match=r"^Work trees need git, and there is none on the PATH\.$"):
        await WorkTrees(house.home, environ).open(str(house.source), KEY)


def _users(house: House) -> list[str]:
    """All that the user sees of the repository."""
    index = (house.source / ".git" / "index").read_bytes()
    asked = (("status", "--porcelain=v2", "--branch"), ("stash", "list"), ("config", "--list", "--local"), ("reflog",))
    return [str(index), *(house.git(*words) for words in asked)]


def _delete(folder: Path) -> None:
    subprocess.run(["rm", "-rf", "--", folder], check=True)


def _process(house: House, key: str, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, str(house.home), str(house.source), key],
        env={**house.other.environ, **environ}, stdout=subprocess.DEVNULL,
    )  # fmt: skip


async def _open_elsewhere(house: House, key: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPEN, str(house.home), str(house.source), key,
        env=house.other.environ, stdout=subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode().splitlines()


@contextmanager
def _asking_for_a_password() -> Iterator[str]:
    class Door(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/x"
        server.shutdown()
        thread.join()
