"""What has changed in a repository, in every state it may be in, without running or writing anything there."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew.core.reviews.review import Scope
from clew.errors import UsageError
from clew.git.changes import Diff, EarlierDiff, Repository
from git.repository import Repository as Work

pytestmark = pytest.mark.process

FIRST = {"a.txt": "a\n" * 5, "b.txt": "b\n" * 5, "dir/c.txt": "c\n" * 5}


@pytest.fixture
def work(tmp_path: Path) -> Work:
    made = Work(tmp_path)
    made.commit(**FIRST)
    return made


def looked_at(work: Work, cwd: Path | None = None) -> Repository:
    return Repository(str(cwd or work.work), work.environ)


async def diff_of(work: Work, scope: Scope = Scope.ALL, **more: object) -> Diff:
    return await looked_at(work).diff(scope, **more)  # type: ignore[arg-type]


def before(diff: Diff) -> EarlierDiff:
    return EarlierDiff(diff.base_commit, diff.changes, diff.files)


def statuses(diff: Diff) -> dict[str, str]:
    assert len({change.path for change in diff.changes}) == len(diff.changes), "each file once"
    return {change.path: change.status for change in diff.changes}


def everything(top: Path) -> dict[str, tuple[int, int, str]]:
    """Every file and folder, including git's own: mode, modification time, content."""
    found = {}
    for path in [top, *top.rglob("*")]:
        about = path.lstat()
        if path.is_symlink():
            held = os.fsdecode(path.readlink())
        else:
            held = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[os.fsdecode(os.fsencode(path))] = (about.st_mode, about.st_mtime_ns, held)
    return found


def contents(top: Path) -> dict[str, str]:
    """Without the times: git itself updates that of an object or a shared index that it would otherwise write."""
    return {path: held for path, (_, _, held) in everything(top).items()}


# Commands that a repository's settings name, each with what makes plain git run it.

Setup = Callable[[Work, str], None]


def _attribute(work: Work, text: str) -> None:
    (work.work / ".git" / "info").mkdir(exist_ok=True)
    (work.work / ".git" / "info" / "attributes").write_text(text)


def clean(work: Work, command: str) -> None:
    work.git("config", "filter.evil.clean", f"{command}; cat")
    work.git("config", "filter.evil.required", "true")
    _attribute(work, "*.txt filter=evil\n")


def process(work: Work, command: str) -> None:
    work.git("config", "filter.evil.process", command)
    _attribute(work, "*.txt filter=evil\n")


def clean_with_an_equals_sign(work: Work, command: str) -> None:
    work.git("config", "filter.x=y.clean", f"{command}; cat")
    _attribute(work, "*.txt filter=x=y\n")


def clean_of_the_work_tree(work: Work, command: str) -> None:
    work.git("config", "extensions.worktreeConfig", "true")
    work.git("config", "--worktree", "filter.evil.clean", f"{command}; cat")
    _attribute(work, "*.txt filter=evil\n")


def clean_in_an_included_file(work: Work, command: str) -> None:
    more = work.folder / "more.config"
    work.git("config", "--file", str(more), "filter.evil.clean", f"{command}; cat")
    work.git("config", "include.path", str(more))
    _attribute(work, "*.txt filter=evil\n")


def text_converter(work: Work, command: str) -> None:
    work.git("config", "diff.evil.textconv", f"{command}; cat")
    _attribute(work, "*.txt diff=evil\n")


def diff_driver(work: Work, command: str) -> None:
    work.git("config", "diff.evil.command", command)
    _attribute(work, "*.txt diff=evil\n")


def external_diff(work: Work, command: str) -> None:
    work.git("config", "diff.external", command)


def monitor(work: Work, command: str) -> None:
    work.git("config", "core.fsmonitor", f"{command}; false")


def hooks(work: Work, command: str) -> None:
    for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        hook = work.write(f".git/hooks/{name}", f"#!/bin/sh\n{command}\n")
        hook.chmod(0o755)
    os.utime(work.work / "b.txt", (1, 1))  # so that git has something to update in the index


def hooks_elsewhere(work: Work, command: str) -> None:
    hooks(work, command)
    (work.work / ".git" / "hooks").rename(work.folder / "hooks")
    work.git("config", "core.hooksPath", str(work.folder / "hooks"))


def filter_of_a_submodule(work: Work, command: str) -> None:
    inner = Work(work.folder, work="inner")
    inner.commit(**{"x.txt": "x\n"})
    allow = ("-c", "protocol.file.allow=always")
    work.git(*allow, "submodule", "add", "-q", str(inner.work), "sub")
    work.git("commit", "-qm", "with a submodule")
    work.git("config", "submodule.sub.ignore", "none")
    sub = work.work / "sub"
    work.git("config", "filter.evil.clean", f"{command}; cat", cwd=sub)
    attributes = work.work / ".git" / "modules" / "sub" / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("*.txt filter=evil\n")
    os.utime(sub / "x.txt", (1, 1))


HOSTILE: list[Setup] = [
    clean, process, clean_with_an_equals_sign, clean_of_the_work_tree, clean_in_an_included_file, text_converter,
    diff_driver, external_diff, monitor, hooks, hooks_elsewhere, filter_of_a_submodule,
]  # fmt: skip


@pytest.mark.parametrize("setup", HOSTILE, ids=lambda setup: setup.__name__)
async def test_no_command_of_the_repository_runs_and_nothing_is_written(work: Work, setup: Setup) -> None:
    ran = work.folder / "ran"
    setup(work, f"touch '{ran}'")
    work.write("a.txt", "A\n" * 5)
    work.write("new.txt", "new\n")
    ran.unlink(missing_ok=True)
    noted = everything(work.work)
    for scope in Scope:
        repository = looked_at(work)
        seen = await repository.diff(scope)
        await repository.since(EarlierDiff(seen.base_commit, (), {}), seen)
        assert not ran.exists()
    assert everything(work.work) == noted
    environ = work.environ
    work.environ = {key: value for key, value in environ.items() if key != "GIT_OPTIONAL_LOCKS"}
    work.git("diff", "HEAD", check=False)
    work.git("status", check=False)
    assert ran.exists(), "plain git runs it, so the test proves something"


async def test_a_missing_object_of_a_partial_clone_is_not_fetched(work: Work) -> None:
    ran = work.folder / "ran"
    work.git("config", "remote.origin.url", f"ext::sh -c touch% {ran}")
    work.git("config", "remote.origin.promisor", "true")
    work.git("config", "extensions.partialClone", "origin")
    blob = work.git("rev-parse", "HEAD:a.txt").decode().strip()
    (work.work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    work.write("a.txt", "other\n")
    with pytest.raises(UsageError, match="git diff failed"):
        await diff_of(work)
    assert not ran.exists()


@pytest.mark.parametrize(
    "setting", ["core.splitIndex=true", "core.untrackedCache=true", "feature.manyFiles=true", "index.version=4"]
)
async def test_however_the_index_is_kept_it_stays_as_it_is(work: Work, setting: str) -> None:
    work.git("config", *setting.split("="))
    work.commit(more="more\n")
    work.git("status")
    work.write("a.txt", "other\n")
    new = [f"new-{number}.txt" for number in range(20)]  # enough to make git write a new shared index
    for name in new:
        work.write(name, "new\n")
    os.utime(work.work / "b.txt", (1, 1))
    noted = contents(work.work)
    expected = {"a.txt": "M", **dict.fromkeys(new, "A")}
    assert statuses(await diff_of(work)) == expected
    assert statuses(await diff_of(work, Scope.UNSTAGED)) == expected
    assert contents(work.work) == noted


# The states that a repository may be in.


async def test_kinds_of_changes(work: Work) -> None:
    work.commit(gone="gone\n", moved="".join(f"line {n}\n" for n in range(50)), mode="#!/bin/sh\n", kind="kind\n")
    work.git("rm", "-q", "gone")
    work.git("mv", "moved", "to here")
    (work.work / "mode").chmod(0o755)
    (work.work / "kind").unlink()
    (work.work / "kind").symlink_to("/etc/passwd")
    work.write("binary", bytes(range(256)) * 10)
    (work.work / "out").symlink_to("../../outside")
    (work.work / "loop").symlink_to("loop")
    (work.folder / "outside").write_text("a secret\n")
    (work.work / "to outside").symlink_to(work.folder / "outside")
    diff = await diff_of(work)
    assert statuses(diff) == {
        "gone": "D", "to here": "R", "mode": "M", "kind": "T", "binary": "A", "out": "A", "loop": "A",
        "to outside": "A",
    }  # fmt: skip
    by_path = {change.path: change for change in diff.changes}
    assert by_path["to here"].old_path == "moved"
    assert by_path["binary"].added is None
    assert diff.files["kind"] == b"/etc/passwd", "the content of a link is its target"
    assert diff.files["out"] == b"../../outside"
    assert "a secret" not in diff.text and b"a secret\n" not in diff.files.values()
    assert "new mode 100755" in diff.text
    assert "gone" not in diff.files


@pytest.mark.parametrize("scope", list(Scope))
async def test_a_folder_that_became_a_link_is_not_followed(work: Work, scope: Scope) -> None:
    """Through the link, a file's name leads outside of the repository: that file is not read."""
    (work.folder / "outside").mkdir()
    (work.folder / "outside" / "c.txt").write_text("a secret\n")
    shutil.rmtree(work.work / "dir")
    (work.work / "dir").symlink_to(work.folder / "outside")
    if scope is Scope.STAGED:
        work.git("add", "-A")
    diff = await diff_of(work, scope)
    assert statuses(diff)["dir"] == "A" and "dir/c.txt" not in diff.files
    assert b"a secret\n" not in diff.files.values() and "a secret" not in diff.text
    (work.folder / "outside" / "c.txt").write_text("another secret\n")
    now = await diff_of(work, scope)
    since = await looked_at(work).since(before(diff), now)
    assert since.paths == () and "secret" not in since.text


NAMES = [
    "with blank", "quote\"d", "tab\tbed", "new\nline", "es\x1bcaped", "back\\slash", "-option", ":(exclude)magic",
    "*", "Grüße", "line\u2028end", "carriage\rreturn", "non-utf-8-\udcff", "diff --git a/x b/x", "x b/y", "a -> b",
]  # fmt: skip


async def test_file_names_are_returned_unchanged(work: Work) -> None:
    for name in NAMES:
        work.write(name, f"{NAMES.index(name)}\n")
    for scope in (Scope.ALL, Scope.UNSTAGED, Scope.STAGED):
        if scope is Scope.STAGED:
            work.git("add", "-A")
        diff = await diff_of(work, scope)
        assert statuses(diff) == dict.fromkeys(NAMES, "A")
        assert diff.files == {name: b"%d\n" % place for place, name in enumerate(NAMES)}
        assert all(change.added == 1 for change in diff.changes)
    seen = await diff_of(work)
    for name in NAMES:
        work.write(name, "other\n")
    since = await looked_at(work).since(before(seen), await diff_of(work))
    assert sorted(since.paths) == sorted(NAMES)
    assert since.text.count("+other") == len(NAMES)
    only = await diff_of(work, paths=("*", ":(exclude)magic"))
    assert set(statuses(only)) == {"*", ":(exclude)magic"}, "a path is a name, not a pattern"


async def test_before_the_first_commit_and_after_it(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.write("a.txt", "a\n")
    work.write("b.txt", "b\n")
    work.git("add", "a.txt")
    assert statuses(await diff_of(work, Scope.STAGED)) == {"a.txt": "A"}
    first = await diff_of(work)
    assert statuses(first) == {"a.txt": "A", "b.txt": "A"} and first.head_commit is None
    work.commit()
    work.write("c.txt", "c\n")
    second = await diff_of(work, base_commit=first.base_commit)
    assert statuses(second) == {"a.txt": "A", "b.txt": "A", "c.txt": "A"}, "it is still compared with the empty tree"
    assert (await looked_at(work).since(before(first), second)).paths == ("c.txt",)


async def test_a_detached_head(work: Work) -> None:
    work.git("checkout", "-q", "--detach")
    work.write("a.txt", "other\n")
    assert statuses(await diff_of(work)) == {"a.txt": "M"}
    assert statuses(await diff_of(work, base="main")) == {"a.txt": "M"}


async def test_the_diff_of_a_branch_starts_at_its_merge_base(work: Work) -> None:
    work.git("checkout", "-qb", "topic")
    work.commit(mine="mine\n")
    work.git("checkout", "-q", "main")
    work.commit(theirs="theirs\n")
    work.git("checkout", "-q", "topic")
    work.write("new.txt", "new\n")
    first = await diff_of(work, base="main")
    assert statuses(first) == {"mine": "A", "new.txt": "A"}
    assert statuses(await diff_of(work, Scope.STAGED, base="main")) == {"mine": "A"}
    work.git("checkout", "-q", "main")
    work.git("commit", "-q", "--allow-empty", "-m", "more")
    work.git("checkout", "-q", "topic")
    moved = await diff_of(work, base="main")
    assert moved.base_commit == first.base_commit and statuses(moved) == statuses(first), "the merge base stays"
    work.git("add", "-A")
    work.git("commit", "-qm", "new")
    work.git("rebase", "-q", "main")
    rebased = await diff_of(work, base="main")
    assert rebased.base_commit != first.base_commit
    assert statuses(rebased) == {"mine": "A", "new.txt": "A"}
    since = await looked_at(work).since(before(first), rebased)
    assert since.paths == (), "a rebase alone changes none of these files"
    for wrong in ("nothing", "--output=x", "HEAD:a.txt", "", "main..topic"):
        with pytest.raises(UsageError, match="not a commit"):
            await diff_of(work, base=wrong)
    with pytest.raises(UsageError, match="not with a base"):
        await diff_of(work, Scope.UNSTAGED, base="main")


async def test_branches_without_a_common_commit(work: Work) -> None:
    work.git("checkout", "-q", "--orphan", "other")
    work.git("rm", "-rqf", ".")
    work.commit(alone="alone\n")
    assert statuses(await diff_of(work, base="main"))["alone"] == "A"


async def test_a_second_work_tree(work: Work) -> None:
    there = work.folder / "there"
    work.git("worktree", "add", "-q", str(there), "-b", "topic")
    (there / "a.txt").write_text("other\n")
    (there / "new.txt").write_text("new\n")
    noted = everything(work.work), everything(there)
    diff = await looked_at(work, there).diff(Scope.ALL)
    assert diff.top == str(there) and statuses(diff) == {"a.txt": "M", "new.txt": "A"}
    assert (everything(work.work), everything(there)) == noted
    assert (await diff_of(work)).changes == (), "each work tree has its own changes"


async def test_a_subfolder_and_paths(work: Work) -> None:
    work.write("dir/c.txt", "other\n")
    work.write("a.txt", "other\n")
    repository = looked_at(work, work.work / "dir")
    assert statuses(await repository.diff(Scope.ALL)) == {"a.txt": "M", "dir/c.txt": "M"}
    assert await repository.inside(["c.txt", "../a.txt", "c.txt"]) == ("dir/c.txt", "a.txt")
    assert await repository.inside(["..", "c.txt"]) == ()
    for outside in ("../..", "/etc/passwd", "../../work2"):
        with pytest.raises(UsageError, match="not in the repository"):
            await repository.inside([outside])
    assert statuses(await repository.diff(Scope.ALL, paths=("dir",))) == {"dir/c.txt": "M"}


async def test_no_repository_and_one_without_files(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.git("clone", "-q", "--bare", ".", "../bare")
    for folder in (tmp_path / "bare", tmp_path / "home", tmp_path / "work" / ".git"):
        with pytest.raises(UsageError, match="is not in a git work tree"):
            await looked_at(work, folder).diff(Scope.ALL)


async def test_without_git(work: Work) -> None:
    with pytest.raises(UsageError, match="Reviews need git"):
        await Repository(str(work.work), {"PATH": str(work.folder / "home")}).diff(Scope.ALL)


@pytest.mark.parametrize("how", [["--no-cone"], ["--cone"], ["--cone", "--sparse-index"]], ids=" ".join)
async def test_a_sparse_checkout(work: Work, how: list[str]) -> None:
    work.commit(**{"other/x.txt": "x\n"})
    work.git("sparse-checkout", "set", *how, "dir")
    assert not (work.work / "other").exists()
    work.write("dir/c.txt", "other\n")
    work.write("dir/new.txt", "new\n")
    work.write("other/new.txt", "not in the sparse part\n")
    noted = contents(work.work)
    expected = {"dir/c.txt": "M", "dir/new.txt": "A", "other/new.txt": "A"}
    assert statuses(await diff_of(work)) == expected, "what is not checked out has not changed"
    assert statuses(await diff_of(work, Scope.UNSTAGED)) == expected
    assert (await diff_of(work, Scope.STAGED)).changes == ()
    assert contents(work.work) == noted


async def test_in_the_middle_of_a_merge_with_conflicts(work: Work) -> None:
    work.git("checkout", "-qb", "topic")
    work.commit(**{"a.txt": "topic\n", "b.txt": "topic\n"})
    work.git("checkout", "-q", "main")
    work.commit(**{"a.txt": "main\n"})
    work.git("rm", "-q", "b.txt")
    work.git("commit", "-qm", "without b")
    work.git("merge", "topic", check=False)
    work.write("new.txt", "new\n")
    noted = everything(work.work)
    conflict = await diff_of(work)
    assert statuses(conflict)["a.txt"] in "MU" and "+<<<<<<< HEAD" in conflict.text
    assert set(statuses(await diff_of(work, Scope.UNSTAGED))) == {"a.txt", "b.txt", "new.txt"}
    assert set(statuses(await diff_of(work, Scope.STAGED))) == {"a.txt", "b.txt"}
    assert everything(work.work) == noted
    work.write("a.txt", "settled\n")
    work.git("add", "-A")
    work.git("commit", "-qm", "merged")
    settled = await diff_of(work, base_commit=conflict.base_commit)
    since = await looked_at(work).since(before(conflict), settled)
    assert since.paths == ("a.txt",) and "+settled" in since.text


async def test_a_submodule_is_its_commit(work: Work) -> None:
    inner = Work(work.folder, work="inner")
    inner.commit(x="x\n")
    work.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.work), "sub")
    work.git("commit", "-qm", "with a submodule")
    (work.work / "sub" / "x").write_text("other\n")
    assert (await diff_of(work)).changes == (), "uncommitted changes in it are not read"
    work.git("-c", "user.name=U", "-c", "user.email=u@localhost", "commit", "-qam", "other", cwd=work.work / "sub")
    diff = await diff_of(work)
    assert statuses(diff) == {"sub": "M"} and "+Subproject commit" in diff.text
    shutil.rmtree(work.work / "sub")
    assert statuses(await diff_of(work)) == {"sub": "D"}


async def test_a_repository_within_that_is_no_submodule_is_left_alone(work: Work) -> None:
    inner = Work(work.work, work="inner")
    inner.commit(x="x\n")
    assert (await diff_of(work)).changes == ()


@pytest.mark.rest
async def test_five_thousand_new_files(work: Work) -> None:
    for number in range(5000):
        work.write(f"many/{number:04d}.txt", f"{number}\n")
    diff = await diff_of(work)
    assert len(diff.changes) == 5000 and len(diff.files) == 5000
    work.write("many/0042.txt", "other\n")
    since = await looked_at(work).since(before(diff), await diff_of(work))
    assert since.paths == ("many/0042.txt",)


async def test_long_lines_and_large_files(work: Work) -> None:
    line = "x" * 5_000_000
    work.write("one-line.txt", line)
    diff = await diff_of(work)
    assert len(diff.text) < 10_000 and len(diff.files["one-line.txt"]) < 200
    work.write("one-line.txt", line + "y")
    since = await looked_at(work).since(before(diff), await diff_of(work))
    assert since.paths == ("one-line.txt",), "but the change is noticed"


# Changes since an earlier diff: whatever happens in between, only the files' contents matter.


def _files(work: Work) -> dict[str, bytes]:
    return {os.fsdecode(name): held for name, (_, held) in work.files().items()}


def _happen(work: Work, chance: random.Random) -> None:
    name = chance.choice(["a.txt", "b.txt", "dir/c.txt", "dir/d.txt", "e.txt", "f"])
    path = work.work / name
    match chance.randrange(10):
        case 0 | 1 | 2 | 3:
            work.write(name, f"{chance.randrange(4)}\n" * chance.randrange(1, 6))
        case 4:
            path.unlink(missing_ok=True)
        case 5 if path.exists():
            path.rename(work.work / chance.choice(["moved.txt", "dir/moved.txt"]))
        case 6:
            work.git("add", "-A")
        case 7:
            work.commit()
        case 8:
            work.git("add", "-A")
            work.git("commit", "-q", "--amend", "--allow-empty", "-m", "amended")
        case 9:
            work.git("stash", "-q", "-u", check=False)
            work.git("stash", "pop", "-q", check=False)


@pytest.mark.rest
@pytest.mark.parametrize("seed", range(6))
async def test_what_changed_since_is_what_differs_in_the_files(work: Work, seed: int) -> None:
    chance = random.Random(seed)
    work.git("config", "gc.auto", "0")
    last = await diff_of(work)
    held = _files(work)
    for _ in range(8):
        for _ in range(chance.randrange(1, 5)):
            _happen(work, chance)
        now = await diff_of(work, base_commit=last.base_commit)
        since = await looked_at(work).since(before(last), now)
        files = _files(work)
        differ = {name for name in held.keys() | files.keys() if held.get(name) != files.get(name)}
        assert set(since.paths) == differ
        assert bool(since.text) == bool(differ)
        last, held = now, files


@pytest.fixture(autouse=True)
def _nothing_left_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary folders are removed."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []
