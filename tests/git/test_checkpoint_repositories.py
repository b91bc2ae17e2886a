"""Checkpoints in every kind of repository that a user may have, and a clear error where there can be none."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.git.checkpoints import Checkpoints
from git.repository import Repository

pytestmark = pytest.mark.process


async def comes_back(repository: Repository, *names: str, cwd: Path | None = None) -> None:
    """Saves, changes, compares and restores the files; the user's state must not change."""
    checkpoints = repository.checkpoints(cwd=cwd)
    await checkpoints.check()
    before, files = repository.state(), repository.files()
    assert await checkpoints.save("start") is not None
    for name in names:
        path = repository.work / name
        if path.exists():
            path.unlink()
        else:
            repository.write(name, "by the agent\n")
    assert (await checkpoints.difference()).changed == tuple(sorted(names))
    await checkpoints.restore()
    assert (await checkpoints.difference()).changed == ()
    assert repository.files() == files
    assert repository.state() == before
    assert repository.is_sound() or (repository.work / ".git/index.lock").exists()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.commit(a="one\n", b="two\n")
    return made


async def test_repository_without_a_commit(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.write("a", "one\n")
    await comes_back(repository, "a", "b")
    first = (await repository.checkpoints().list())[0]
    assert repository.git("log", "--format=%P", first.commit).strip() == b"", "it has no parent"


async def test_empty_tree(tmp_path: Path) -> None:
    await comes_back(Repository(tmp_path), "a")


async def test_repository_with_longer_hashes(tmp_path: Path) -> None:
    repository = Repository(tmp_path, "--object-format=sha256")
    repository.commit(a="one\n")
    nested = Repository(repository.work, work="nested")
    nested.commit(inside="x\n")
    await comes_back(repository, "a", "b", "nested/inside")


async def test_job_in_a_subfolder_checkpoints_the_whole_tree(repository: Repository) -> None:
    repository.write("below/c", "three\n")
    await comes_back(repository, "a", "below/c", "below/d", "new", cwd=repository.work / "below")


async def test_path_with_odd_characters(tmp_path: Path) -> None:
    repository = Repository(tmp_path, work=os.fsdecode(b'we:"ird\n\xff \\name'))
    repository.commit(a="one\n")
    await comes_back(repository, "a", "b")


async def test_linked_work_tree_has_checkpoints_of_its_own(repository: Repository) -> None:
    linked = repository.folder / "linked"
    repository.git("worktree", "add", "-q", str(linked), "-b", "other")
    main = await repository.checkpoints("main").save("start")
    there = repository.checkpoints("there", cwd=linked)
    (linked / "a").write_text("in the linked one\n")
    saved = await there.save("start")
    assert main is not None
    assert saved is not None
    assert repository.kept(saved.commit)[b"a"] == ("file", b"in the linked one\n")
    (linked / "a").unlink()
    await there.restore()
    assert (linked / "a").read_text() == "in the linked one\n"
    assert (repository.work / "a").read_text() == "one\n"
    assert (await repository.checkpoints("main").difference()).changed == ()
    assert await repository.checkpoints("there").last() == saved, "refs belong to the repository, not to a work tree"
    assert repository.is_sound()


async def test_a_linked_work_tree_inside_the_tree_is_left_out(repository: Repository) -> None:
    inner = repository.work / "trees [1]" / "x*"
    repository.git("worktree", "add", "-q", str(inner), "-b", "other")
    checkpoints = repository.checkpoints()
    saved = await checkpoints.save("start")
    assert saved is not None
    assert set(repository.kept(saved.commit)) == {b"a", b"b"}
    (inner / "a").write_text("another job's work\n")
    repository.write("a", "changed\n")
    assert (await checkpoints.difference()).changed == ("a",)
    await checkpoints.restore()
    assert (inner / "a").read_text() == "another job's work\n"


@pytest.mark.rest
async def test_submodules_and_other_repositories_within_are_saved_as_files(repository: Repository) -> None:
    other = Repository(repository.folder, work="other")
    other.commit(inside="x\n")
    repository.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.work), "sub")
    repository.git("commit", "-q", "-m", "with a submodule")
    repository.write("sub/dirty", "not committed anywhere\n")
    Repository(repository.work, work="born").write("file", "in a repository without a commit\n")
    deep = Repository(repository.work / "born", work="deep")
    deep.commit(deeper="y\n")
    (repository.work / "bare-of-files").mkdir()
    repository.git("init", "-q", str(repository.work / "bare-of-files"))
    shutil.rmtree(repository.work / "home")
    shutil.rmtree(repository.work / "born" / "home")

    saved = await repository.checkpoints().save("start")
    assert saved is not None
    assert repository.kept(saved.commit) == repository.files()
    assert repository.kept(saved.commit)[b"sub/dirty"] == ("file", b"not committed anywhere\n")
    heads = [repository.git("rev-parse", "HEAD", cwd=repository.work / name) for name in ("sub", "born/deep")]
    await repository.checkpoints().drop()
    indexes = [path.read_bytes() for path in sorted(repository.work.rglob("index"))]
    await comes_back(repository, "a", "sub/inside", "sub/dirty", "sub/new", "born/deep/deeper", "bare-of-files/now")
    assert [path.read_bytes() for path in sorted(repository.work.rglob("index")) if "clew" not in path.parts] == indexes
    assert [repository.git("rev-parse", "HEAD", cwd=repository.work / name) for name in ("sub", "born/deep")] == heads


async def test_repository_made_after_the_checkpoint_keeps_its_own_folder(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    made = Repository(repository.work, work="made")
    made.commit(precious="commits of its own\n")
    shutil.rmtree(repository.work / "home")
    await checkpoints.restore()
    assert set(repository.files()) == {b"a", b"b"}
    repository.git("checkout", "-q", "--", ".", cwd=made.work)
    assert (made.work / "precious").read_text() == "commits of its own\n"


async def test_bytes_are_kept_whatever_conversions_the_repository_asks_for(repository: Repository) -> None:
    repository.git("config", "core.autocrlf", "true")
    repository.git("config", "core.eol", "crlf")
    repository.git("config", "core.safecrlf", "true")
    repository.git("config", "filter.upper.clean", "tr a-z A-Z")
    repository.git("config", "filter.upper.smudge", "tr A-Z a-z")
    repository.git("config", "filter.upper.required", "true")
    (repository.folder / "home/.gitconfig").write_text("[core]\n\tattributesFile = ~/attributes\n")
    (repository.folder / "home/attributes").write_text("* text=auto\n")
    rules = ("[attr]wild text eol=crlf ident", "*.w wild", "*.up filter=upper", "*.u16 working-tree-encoding=UTF-16")
    repository.write(".gitattributes", "\n".join(rules))
    repository.write(".git/info/attributes", "*.i ident text\n")
    odd = {"mixed.w": b"1\r\n2\n3\r", "name.up": b"Mixed Case\n", "wide.u16": b"\0not that", "id.i": b"$Id: x $\r\n"}
    for name, content in odd.items():
        repository.write(name, content)
    files = repository.files()
    checkpoints = repository.checkpoints()
    saved = await checkpoints.save("start")
    assert saved is not None
    assert repository.kept(saved.commit) == files
    for name in odd:
        repository.write(name, "changed\n")
    await checkpoints.restore()
    assert repository.files() == files


async def test_tracked_files_count_although_they_are_ignored(repository: Repository) -> None:
    repository.write(".gitignore", "*.log\nbuilt/\n")
    repository.write("built/forced", "tracked\n")
    repository.write("built/other", "ignored\n")
    repository.write("kept.log", "tracked\n")
    repository.git("add", "-f", "built/forced", "kept.log")
    (repository.work / ".gitignore").chmod(0o644)
    saved = await repository.checkpoints().save("start")
    assert saved is not None
    assert set(repository.kept(saved.commit)) == {b"a", b"b", b".gitignore", b"built/forced", b"kept.log"}
    await repository.checkpoints().drop()
    await comes_back(repository, "built/forced", "kept.log")
    assert (repository.work / "built/other").read_text() == "ignored\n"


async def test_every_list_of_ignored_files_counts(repository: Repository) -> None:
    home = repository.folder / "home"
    (home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    (home / "mine").write_text("by-user\n")
    repository.write(".git/info/exclude", "by-repository")
    repository.write("folder/.gitignore", "by-folder\n")
    for name in ("by-user", "by-repository", "folder/by-folder", "seen"):
        repository.write(name, "x\n")
    saved = await repository.checkpoints().save("start")
    assert saved is not None
    assert set(repository.kept(saved.commit)) == {b"a", b"b", b"folder/.gitignore", b"seen"}

    (home / ".gitconfig").unlink()
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("seen-no-more\n")
    repository.write("seen-no-more", "x\n")
    assert (await repository.checkpoints().difference()).changed == ("by-user",)


async def test_sparse_tree_is_what_is_on_the_disk(repository: Repository) -> None:
    repository.commit(**{"in/x": "in\n", "out/y": "out\n"})
    repository.git("sparse-checkout", "set", "--cone", "in")
    assert not (repository.work / "out").exists()
    repository.write("out/made", "outside of the cone\n")
    await comes_back(repository, "in/x", "out/made", "in/new")
    assert not (repository.work / "out/y").exists()


async def test_the_users_index_lock_does_not_matter(repository: Repository) -> None:
    (repository.work / ".git/index.lock").touch()
    await comes_back(repository, "a", "c")
    assert (repository.work / ".git/index.lock").exists()


@pytest.mark.parametrize("how", ["merge", "rebase", "cherry-pick"])
async def test_unmerged_paths_are_named_and_left(repository: Repository, how: str) -> None:
    repository.git("checkout", "-q", "-b", "other")
    repository.commit(a="theirs\n", b="theirs\n")
    repository.git("checkout", "-q", "main")
    repository.commit(a="ours\n", b="ours\n")
    repository.git(how, "other", check=False)
    await comes_back(repository, "a", "c")
    assert (await repository.checkpoints().difference()).unmerged == ("a", "b")


async def test_packed_and_shallow_repository(repository: Repository) -> None:
    repository.commit(a="three\n")
    clone = repository.folder / "clone"
    repository.git("clone", "-q", "--depth=1", f"file://{repository.work}", str(clone))
    repository.work = clone
    await comes_back(repository, "a", "c")
    repository.git("gc", "-q", "--prune=now")
    assert [one.why for one in await repository.checkpoints().list()] == ["start", "before_restore"]
    repository.write("a", "more\n")
    assert await repository.checkpoints().save("interval") is not None
    await repository.checkpoints().drop()
    assert b"clew" not in repository.git("for-each-ref")


async def test_names_that_look_like_gits_own_are_left_out(repository: Repository) -> None:
    repository.write(".GIT/x", "no index takes it\n")
    saved = await repository.checkpoints().save("start")
    assert saved is not None
    assert set(repository.kept(saved.commit)) == {b"a", b"b"}


async def test_pipes_and_sockets_are_skipped(repository: Repository) -> None:
    os.mkfifo(repository.work / "pipe")
    await comes_back(repository, "a", "c")
    assert (repository.work / "pipe").is_fifo()


# --- where there can be none ----------------------------------------------------------------------------------------


async def test_no_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a git repository") as raised:
        await Checkpoints(str(tmp_path), "job", {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}).check()
    assert raised.value.hint is not None
    assert "git init" in raised.value.hint
    assert "--no-checkpoint" in raised.value.hint


async def test_bare_repository_and_the_inside_of_one(repository: Repository) -> None:
    bare = repository.folder / "bare"
    repository.git("init", "-q", "--bare", str(bare))
    for folder in (bare, repository.work / ".git"):
        with pytest.raises(UsageError, match="no work tree"):
            await repository.checkpoints(cwd=folder).check()


async def test_missing_git(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="need git") as raised:
        await repository.checkpoints(environ={"PATH": str(tmp_path)}).check()
    assert raised.value.hint is not None
    assert "Install git" in raised.value.hint


async def test_missing_work_directory(repository: Repository) -> None:
    with pytest.raises(UsageError, match="is gone"):
        await repository.checkpoints(cwd=repository.folder / "nowhere").check()


async def test_repository_of_another_user_is_not_trusted_by_us_either(repository: Repository) -> None:
    environ = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    script = "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1"
    with pytest.raises(UsageError, match="dubious ownership") as raised:
        await repository.checkpoints(environ=environ | repository.wrapped(script)).check()
    assert raised.value.hint is not None
    assert "safe.directory" in raised.value.hint


async def test_file_that_cannot_be_stored_is_named(repository: Repository) -> None:
    (repository.work / ".gitmodules").symlink_to("a")
    with pytest.raises(UsageError, match=r"\.gitmodules"):
        await repository.checkpoints().save("start")
    assert await repository.checkpoints().list() == []
