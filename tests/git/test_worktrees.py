"""Work trees of keys: always at the same place, disturbing nobody, brought up to date and closed without loss."""

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

from clew.core.hooks.hook import Update
from clew.errors import UsageError
from clew.git.worktrees.worktrees import ClosedTree, CloseOutcome, WorkTree, WorkTrees
from git.repository import Repository

pytestmark = pytest.mark.process

KEY = "boss:charles/peon:4"
OPEN = """
import asyncio, os, sys
from pathlib import Path
from clew.git.worktrees.worktrees import WorkTrees
tree = asyncio.run(WorkTrees(Path(sys.argv[1]), dict(os.environ)).open(sys.argv[2], sys.argv[3]))
print(tree.made, tree.path, tree.branch, *tree.notes, sep="\\n")
"""


class Repositories:
    """A shared bare repository, the clone that the settings name, and another clone that pushes."""

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

    async def close(self, key: str = KEY) -> ClosedTree:
        return await self.trees().close(str(self.source), key)

    def git(self, *args: str, cwd: Path | str | None = None, check: bool = True) -> str:
        return self.other.git(*args, cwd=Path(cwd or self.source), check=check).decode().strip()

    def push(self, to: str = "main", *, force: bool = False, **files: str) -> str:
        """A new commit of another person, pushed under that name."""
        self.other.commit(**files)
        to = to if to.startswith("refs/") else f"refs/heads/{to}"
        self.other.git("push", "-q", *(["--force"] if force else []), "origin", f"HEAD:{to}")
        return self.tip("HEAD", self.other.work)

    def work(self, tree: WorkTree, **files: str) -> str:
        """A commit by the agent."""
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
        """What our folder contains, without locks."""
        return sorted(path.name for path in self.home.iterdir() if path.suffix != ".lock")


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path)


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


@pytest.mark.rest
async def test_nothing_runs_that_the_repository_names(repositories: Repositories) -> None:
    ran = repositories.folder / "ran"
    touch = f"touch {shlex.quote(str(ran))}"
    for hook in ("post-checkout", "post-merge", "post-rewrite", "reference-transaction", "post-index-change"):
        path = repositories.source / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{touch}\n")
        path.chmod(0o755)
    repositories.git("config", "filter.x.smudge", f"{touch}; cat")
    repositories.git("config", "filter.x.clean", f"{touch}; cat")
    repositories.git("config", "filter.x.required", "true")
    repositories.git("config", "core.fsmonitor", touch)
    repositories.git("config", "core.askPass", touch)
    repositories.git("config", "core.alternateRefsCommand", touch)
    repositories.git("config", "remote.origin.uploadpack", f"{touch}; git-upload-pack")
    repositories.push(b="1\n", **{".gitattributes": "* filter=x\n"})
    tree = await repositories.open()
    repositories.push(b="2\n")
    assert (await repositories.open()).notes == ()
    assert Path(tree.path, "b").read_text() == "2\n"
    Path(tree.path, "b").write_text("mine\n")
    await repositories.open()
    closed = await repositories.close()
    assert closed.outcome is CloseOutcome.ARCHIVED
    assert not ran.exists()


async def test_remote_that_is_a_command_is_not_run(repositories: Repositories) -> None:
    ran = repositories.folder / "ran"
    repositories.git("config", "remote.origin.url", f"ext::sh -c touch% {ran}")
    repositories.git("config", "protocol.ext.allow", "always")
    tree = await repositories.open()
    assert tree.notes[0] == "Not up to date: git fetch failed: transport 'ext' not allowed"
    assert not ran.exists()


@pytest.mark.rest
async def test_a_missing_remote_is_noted_and_the_tree_is_made(repositories: Repositories) -> None:
    tree = await repositories.open()
    repositories.hub.rename(repositories.folder / "moved.git")
    again = await repositories.open()
    assert again.path == tree.path
    assert again.notes[0].startswith("Not up to date: git fetch failed: ")
    other = await repositories.open("boss:charles/peon:5")
    assert (other.made, len(other.notes)) == (True, 1)


async def test_a_remote_that_does_not_answer_is_given_up(repositories: Repositories) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        repositories.git("config", "remote.origin.url", f"git://127.0.0.1:{server.getsockname()[1]}/x")
        tree = await repositories.trees(fetch_limit_s=0.5).open(str(repositories.source), KEY)
    assert (tree.made, tree.notes) == (True, ("Not up to date: git fetch took longer than 0 s.",))


async def test_nobody_is_asked_for_a_password(repositories: Repositories) -> None:
    asked = repositories.folder / "asked"
    program = repositories.folder / "askpass"
    program.write_text(f"#!/bin/sh\ntouch {asked}\n")
    program.chmod(0o755)
    repositories.git("config", "core.askPass", str(program))
    environ = {**repositories.other.environ, "SSH_ASKPASS": str(program), "GIT_ASKPASS": str(program), "DISPLAY": ":0"}
    with _asking_for_a_password() as url:
        repositories.git("config", "remote.origin.url", url)
        tree = await WorkTrees(repositories.home, environ).open(str(repositories.source), KEY)
    assert "terminal prompts disabled" in tree.notes[0]
    assert not asked.exists()


async def test_users_own_credentials_are_used(repositories: Repositories) -> None:
    seen = repositories.folder / "seen"
    ssh = repositories.folder / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" > {seen}\nfor last; do :; done\nexec sh -c "$last"\n')
    ssh.chmod(0o755)
    repositories.git("config", "remote.origin.url", f"ssh://hub.invalid{repositories.hub}")
    newest = repositories.push(a="two\n")
    environ = {**repositories.other.environ, "GIT_SSH_COMMAND": str(ssh), "GIT_SSH_VARIANT": "ssh"}
    tree = await WorkTrees(repositories.home, environ).open(str(repositories.source), KEY)
    assert (tree.notes, repositories.tip("HEAD", tree.path)) == ((), newest)
    assert "hub.invalid" in seen.read_text()


async def test_the_callers_git_variables_have_no_effect(repositories: Repositories) -> None:
    stray = {"GIT_DIR": str(repositories.other.work / ".git"), "GIT_WORK_TREE": "/", "GIT_INDEX_FILE": "x"}
    tree = await WorkTrees(repositories.home, {**repositories.other.environ, **stray}).open(
        str(repositories.source), KEY
    )
    assert repositories.git("rev-parse", "--git-common-dir", cwd=tree.path) == str(repositories.source / ".git")


@pytest.mark.rest
async def test_many_processes_open_the_same_key_at_once(repositories: Repositories) -> None:
    said = await asyncio.gather(*(_open_elsewhere(repositories, KEY) for _ in range(6)))
    assert sorted(lines[0] for lines in said) == [*["False"] * 5, "True"]
    assert len({tuple(lines[1:]) for lines in said}) == 1
    assert repositories.git("status", "--porcelain", cwd=said[0][1]) == ""


@pytest.mark.rest
async def test_many_keys_are_opened_and_closed_at_once(repositories: Repositories) -> None:
    keys = [f"boss:charles/peon:{number}" for number in range(1, 9)]
    repositories.push("feature", f="1\n")
    trees = repositories.trees()
    opened = await asyncio.gather(*(trees.open(str(repositories.source), key, start="feature") for key in keys))
    assert {tree.branch for tree in opened} == {f"clew/boss-{number}" for number in range(1, 9)}
    assert [tree.notes for tree in opened] == [()] * 8
    closed = await asyncio.gather(*(trees.close(str(repositories.source), key) for key in keys))
    assert {one.outcome for one in closed} == {CloseOutcome.REMOVED}
    assert (repositories.left(), repositories.branches()) == ([], {"main"})


@pytest.mark.rest
async def test_lock_outlives_a_killed_process_as_long_as_its_git_works(repositories: Repositories) -> None:
    gate, reached = repositories.folder / "gate", repositories.folder / "reached"
    os.mkfifo(gate)
    os.mkfifo(reached)
    slow = repositories.other.wrapped(f'if [ "$verb" = worktree ]; then echo > {reached}; cat {gate}; fi')
    first = _process(repositories, KEY, slow)
    await asyncio.to_thread(reached.read_text)
    first.kill()
    first.wait()
    second = asyncio.ensure_future(repositories.open())
    done, _ = await asyncio.wait([second], timeout=0.5)  # on a busy machine it can only pass
    assert not done, "a tree is being made by a git that outlived its process"
    await asyncio.to_thread(gate.write_text, "")
    tree = await second
    assert (tree.made, tree.branch) == (False, "clew/boss-4")
    assert repositories.git("status", "--porcelain", cwd=tree.path) == ""


@pytest.mark.rest
async def test_waiting_for_the_lock_can_be_cancelled(repositories: Repositories) -> None:
    gate, reached = repositories.folder / "gate", repositories.folder / "reached"
    os.mkfifo(gate)
    os.mkfifo(reached)
    slow = repositories.other.wrapped(f'if [ "$verb" = worktree ]; then echo > {reached}; cat {gate}; fi')
    first = _process(repositories, KEY, slow)
    await asyncio.to_thread(reached.read_text)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(repositories.open(), 0.3)  # on a busy machine it is only cancelled earlier
    await asyncio.to_thread(gate.write_text, "")
    assert first.wait() == 0
    assert (await repositories.open()).made is False, "the one that was cancelled holds no lock"


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


def _user_state(repositories: Repositories) -> list[str]:
    """The user's view of the repository."""
    index = (repositories.source / ".git" / "index").read_bytes()
    asked = (("status", "--porcelain=v2", "--branch"), ("stash", "list"), ("config", "--list", "--local"), ("reflog",))
    return [str(index), *(repositories.git(*words) for words in asked)]


def _delete(folder: Path) -> None:
    subprocess.run(["rm", "-rf", "--", folder], check=True)


def _process(repositories: Repositories, key: str, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", OPEN, str(repositories.home), str(repositories.source), key],
        env={**repositories.other.environ, **environ}, stdout=subprocess.DEVNULL,
    )  # fmt: skip


async def _open_elsewhere(repositories: Repositories, key: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OPEN, str(repositories.home), str(repositories.source), key,
        env=repositories.other.environ, stdout=subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    return out.decode().splitlines()


@contextmanager
def _asking_for_a_password() -> Iterator[str]:
    class PasswordHandler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), PasswordHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/x"
        server.shutdown()
        thread.join()
