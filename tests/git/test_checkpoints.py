"""Checkpoints: files are restored to the byte, the user's state is not touched, and nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from clew.engine.process.family import family
from clew.errors import Conflict, NotFound, StoreError, UsageError
from clew.git.checkpoints import Checkpoint, Checkpoints
from git.repository import PATH, Repository, Tree

pytestmark = pytest.mark.process

SAVE = """
import asyncio, os, sys
from clew.git.checkpoints import Checkpoints
asyncio.run(Checkpoints(sys.argv[1], "job-1", dict(os.environ)).save(sys.argv[2]))
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """One commit, something staged, something changed, something untracked, something stashed, something ignored."""
    made = Repository(tmp_path)
    made.commit(**{"a": "one\n", "folder/b": "two\n", "run": "#!/bin/sh\n", ".gitignore": "*.log\n"})
    made.write("a", "stashed\n")
    made.git("stash")
    made.write("staged", "staged\n")
    made.git("add", "staged")
    made.write("folder/b", "changed\n")
    made.write("new", "untracked\n")
    made.write("noise.log", "ignored\n")
    (made.work / "run").chmod(0o755)
    (made.work / "link").symlink_to("folder")
    return made


async def test_checkpoint_holds_tracked_and_untracked_files_and_no_ignored_ones(repository: Repository) -> None:
    saved = await repository.checkpoints().save("start")
    there = repository.files()
    assert saved is not None
    assert there.pop(b"noise.log") == ("file", b"ignored\n")
    assert repository.kept(saved.commit) == there


async def test_nothing_of_the_users_is_touched(repository: Repository) -> None:
    before, files = repository.state(), repository.files()
    checkpoints = repository.checkpoints()
    await checkpoints.check()
    await checkpoints.save("start")
    await checkpoints.difference()
    assert (repository.state(), repository.files()) == (before, files)

    repository.write("a", "by the agent\n")
    repository.write("more", "by the agent\n")
    await checkpoints.restore()
    assert (repository.state(), repository.files()) == (before, files)

    await checkpoints.drop()
    assert (repository.state(), repository.files()) == (before, files)
    assert not (repository.work / ".git/clew").exists()
    assert b"clew" not in repository.git("for-each-ref")


async def test_checkpoints_are_a_chain_of_commits_by_clew(repository: Repository) -> None:
    times = iter([1_700_000_000.25, 1_700_000_100.5])
    checkpoints = Checkpoints(str(repository.work), "job-1", repository.environ, clock=lambda: next(times))
    first = await checkpoints.save("start")
    assert await checkpoints.save("interval") is None, "nothing has changed"
    repository.write("a", "more\n")
    second = await checkpoints.save("cut_off")

    assert first == Checkpoint(first.commit, 1_700_000_000.25, "start")
    assert second == Checkpoint(second.commit, 1_700_000_100.5, "cut_off")
    assert await checkpoints.list() == [first, second]
    assert await repository.checkpoints().last() == second, "another process sees it too"
    said = repository.git("log", "--format=%H %P %ae %ce %at", "-n", "2", "refs/clew/jobs/job-1").decode().splitlines()
    head = repository.git("rev-parse", "HEAD").decode().strip()
    assert said == [
        f"{second.commit} {first.commit} clew@localhost clew@localhost 1700000100",
        f"{first.commit} {head} clew@localhost clew@localhost 1700000000",
    ]


async def test_difference_names_what_was_added_modified_and_deleted(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    objects = set((repository.work / ".git/objects").rglob("*"))
    assert (await checkpoints.difference()).changed == ()

    repository.write("a", "other\n")
    repository.write("z/added", "")
    (repository.work / "new").unlink()
    (repository.work / "run").chmod(0o644)
    (repository.work / "staged").touch()
    repository.write("more.log", "ignored\n")
    assert (await checkpoints.difference()).changed == ("a", "new", "run", "z/added")
    assert set((repository.work / ".git/objects").rglob("*")) == objects, "comparing leaves nothing behind"


async def test_difference_sees_a_change_that_keeps_size_and_time(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    path = repository.work / "a"
    was = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (await checkpoints.difference()).changed == ("a",)


async def test_restore_saves_the_present_files_and_restores_the_last_checkpoint(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    start = await checkpoints.save("start")
    files = repository.files()

    shutil.rmtree(repository.work / "folder")
    repository.write("folder", "a file now\n")
    (repository.work / "run").unlink()
    repository.write("run/inside", "a folder now\n")
    repository.write("added/deep", "lost?\n")
    repository.write("late.log", "ignored\n")
    there = repository.files()
    assert await checkpoints.restore() == start

    late = {b"late.log": ("file", b"ignored\n")}
    assert repository.files() == files | late
    assert (await checkpoints.difference()).changed == ()
    assert await checkpoints.last() == start
    [_, saved] = await checkpoints.list()
    ignored = {b"late.log", b"noise.log"}
    assert saved.why == "before_restore"
    assert repository.kept(saved.commit) == {path: file for path, file in there.items() if path not in ignored}


async def test_restore_of_an_unchanged_tree_does_nothing(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    start = await checkpoints.save("start")
    assert await checkpoints.restore() == start
    assert await checkpoints.list() == [start]


async def test_save_after_a_restore_continues_the_chain(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    start = await checkpoints.save("start")
    repository.write("a", "wrong\n")
    await checkpoints.restore()
    assert await checkpoints.save("interval") is None
    repository.write("a", "right\n")
    after = await checkpoints.save("interval")
    assert [one.why for one in await checkpoints.list()] == ["start", "before_restore", "interval"]
    repository.write("a", "wrong\n")
    assert await checkpoints.restore() == after != start
    assert (repository.work / "a").read_text() == "right\n"


async def test_restore_removes_what_only_a_later_ignore_file_hid(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    files = repository.files()
    repository.write(".gitignore", "*.log\nbuilt\n")
    repository.write("built", "product\n")
    await checkpoints.restore()
    assert repository.files() == files
    saved = [repository.kept(one.commit) for one in await checkpoints.list() if one.why == "before_restore"]
    assert ("file", b"product\n") in [tree.get(b"built") for tree in saved]


async def test_file_of_a_checkpoint_stays_in_when_it_is_ignored_later(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    repository.write(".gitignore", "new\n")
    repository.write("new", "changed\n")
    shutil.rmtree(repository.work / ".git/clew")  # also without the kept index
    assert (await checkpoints.difference()).changed == (".gitignore", "new", "noise.log")


async def test_restore_stops_before_it_would_lose_an_ignored_file(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    (repository.work / "a").unlink()
    repository.write("a/precious.log", "ignored, and in no checkpoint\n")
    there = repository.files()
    with pytest.raises(Conflict, match=r"a/precious\.log"):
        await checkpoints.restore()
    assert repository.files() == there
    assert [one.why for one in await checkpoints.list()] == ["start"]


async def test_restored_file_is_no_more_readable_than_the_one_it_replaces(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    for name, mode in (("a", 0o600), ("run", 0o700)):
        (repository.work / name).chmod(mode)
        repository.write(name, "secret\n")
    await checkpoints.restore()
    modes = [stat.S_IMODE((repository.work / name).stat().st_mode) for name in ("a", "run")]
    assert modes == [0o600, 0o700]


async def test_work_directory_is_there_after_a_restore(repository: Repository) -> None:
    below = repository.work / "empty" / "below"
    below.mkdir(parents=True)
    checkpoints = repository.checkpoints(cwd=below)
    await checkpoints.save("start")
    (below / "made").write_text("x")
    await checkpoints.restore()
    assert below.is_dir()
    assert not list(below.iterdir())


async def test_without_a_checkpoint_there_is_nothing_to_compare_or_restore(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    assert await checkpoints.last() is None
    assert await checkpoints.list() == []
    for asked in (checkpoints.difference, checkpoints.restore):
        with pytest.raises(NotFound):
            await asked()
    await checkpoints.drop()


async def test_each_job_has_its_own_checkpoints(repository: Repository) -> None:
    one, two = repository.checkpoints("one"), repository.checkpoints("two")
    first = await one.save("start")
    repository.write("a", "more\n")
    second = await two.save("start")
    await two.drop()
    assert await one.list() == [first] != [second]
    assert (await one.difference()).changed == ("a",)
    assert await two.list() == []


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", ".a", "a.lock", "a b", "a\n", "é"])
def test_name_that_git_would_not_take_is_refused(repository: Repository, name: str) -> None:
    with pytest.raises(UsageError):
        repository.checkpoints(name)


async def test_ref_that_is_not_ours_is_left_alone(repository: Repository) -> None:
    repository.git("update-ref", "refs/clew/jobs/job-1", "HEAD")
    with pytest.raises(Conflict, match="not a checkpoint of Clew"):
        await repository.checkpoints().save("start")
    assert repository.git("rev-parse", "refs/clew/jobs/job-1") == repository.git("rev-parse", "HEAD")


# --- what a repository could make git run ---------------------------------------------------------------------------


async def test_no_command_that_the_repository_names_is_ever_run(repository: Repository, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {ran}\nexit 1\n')
    trap.chmod(0o755)
    hooks = (
        "pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "post-merge",
        "post-rewrite", "post-index-change", "reference-transaction", "fsmonitor-watchman", "update",
    )  # fmt: skip
    for folder in (repository.work / ".git/hooks", tmp_path / "hooks"):
        folder.mkdir(exist_ok=True)
        for hook in hooks:
            shutil.copy(trap, folder / hook)
    repository.write(".gitattributes", "* filter=trap diff=trap merge=trap\n")
    for key in (
        "core.fsmonitor", "filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.trap.command",
        "diff.trap.textconv", "merge.trap.driver", "gpg.program", "core.pager", "core.editor", "core.sshCommand",
        "core.askPass", "credential.helper", "diff.external", "core.alternateRefsCommand",
    ):  # fmt: skip
        repository.git("config", key, str(trap))
    for key, value in (
        ("core.hooksPath", str(tmp_path / "hooks")), ("filter.trap.required", "true"), ("commit.gpgSign", "true"),
        ("log.showSignature", "true"), ("core.untrackedCache", "true"),
    ):  # fmt: skip
        repository.git("config", key, value)
    ran.unlink(missing_ok=True)

    checkpoints = repository.checkpoints()
    await checkpoints.check()
    await checkpoints.save("start")
    files = repository.files()
    repository.write("a", "changed\n")
    repository.write("more", "more\n")
    assert (await checkpoints.difference()).changed == ("a", "more")
    await checkpoints.save("interval")
    repository.write("folder/b", "changed again\n")
    await checkpoints.restore()
    await checkpoints.list()
    await checkpoints.drop()
    assert repository.files() != files
    assert not ran.exists(), ran.read_text()
    repository.git("status", check=False)
    assert ran.exists(), "plain git runs them, so the test proves something"


async def test_git_variables_of_the_caller_do_not_count(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    stray = {
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_WORK_TREE": str(tmp_path / "elsewhere"),
        "GIT_INDEX_FILE": str(repository.work / ".git/index"),
        "GIT_OBJECT_DIRECTORY": str(tmp_path / "elsewhere"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_TRACE": str(tmp_path / "trace"),
    }
    before = repository.state()
    saved = await repository.checkpoints(environ=stray).save("start")
    assert saved is not None
    assert b"new" in repository.kept(saved.commit)
    assert repository.state() == before
    assert not (tmp_path / "trace").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


# --- two at once, and death -----------------------------------------------------------------------------------------


@pytest.mark.rest
async def test_concurrent_saves_lose_no_checkpoint(repository: Repository) -> None:
    async def work(number: int) -> list[Checkpoint]:
        checkpoints, made = repository.checkpoints(), []
        for turn in range(3):
            repository.write(f"by-{number}", f"{turn}\n")
            made.append(await checkpoints.save(f"{number}"))
        return [one for one in made if one is not None]

    made = [one for some in await asyncio.gather(*(work(number) for number in range(3))) for one in some]
    listed = await repository.checkpoints().list()
    assert len(made) > 3
    assert sorted(one.commit for one in listed) == sorted(one.commit for one in made)
    assert (await repository.checkpoints().difference()).changed == ()
    assert not list((repository.work / ".git/clew/jobs/job-1").glob("snapshot-*"))


def die_saving(repository: Repository, script: str) -> int:
    """Another process saves, with a git that runs the script first."""
    environ = {**repository.environ, **repository.wrapped(script), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", SAVE, str(repository.work), "cut_off"], env=environ).returncode


@pytest.mark.parametrize(
    ("moment", "made"),
    [
        ('[ "$verb" = add ] && kill -9 $PPID && exit 1', False),
        ('[ "$verb" = add ] && "$git" "$@" && kill -9 $PPID && exit 0', False),
        ('[ "$verb" = write-tree ] && "$git" "$@" && kill -9 $PPID && exit 0', False),
        ('[ "$verb" = commit-tree ] && "$git" "$@" && kill -9 $PPID && exit 0', False),
        ('[ "$verb" = update-ref ] && kill -9 $PPID && exit 1', False),
        ('[ "$verb" = update-ref ] && kill -9 $PPID', True),  # git itself continues
        ('[ "$verb" = update-ref ] && "$git" "$@" && kill -9 $PPID && exit 0', True),
    ],
    ids=["before-add", "after-add", "after-tree", "after-commit", "before-ref", "at-ref", "after-ref"],
)
async def test_killed_save_leaves_the_last_checkpoint_and_no_lock(
    repository: Repository, moment: str, made: bool
) -> None:
    checkpoints = repository.checkpoints()
    start = await checkpoints.save("start")
    before = repository.state()
    repository.write("a", "by the agent\n")
    assert die_saving(repository, moment) == -signal.SIGKILL
    if moment.endswith("kill -9 $PPID"):
        await appears(lambda: repository.git("rev-parse", "refs/clew/jobs/job-1").decode().strip() != start.commit)
    repository.write("a", "one\n")
    assert repository.state() == before
    assert repository.is_sound()
    assert [one.why for one in await checkpoints.list()] == ["start", "cut_off"][: 1 + made]
    repository.write("b", "and on\n")
    assert await checkpoints.save("interval") is not None
    assert repository.is_sound()


@pytest.mark.rest
async def test_save_killed_with_its_git_in_the_middle_of_reading_leaves_no_lock(repository: Repository) -> None:
    await repository.checkpoints().save("start")
    before = repository.git("rev-parse", "refs/clew/jobs/job-1")
    for number in range(300):
        repository.write(f"many/{number}", os.urandom(100_000))
    environ = {**repository.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    objects = repository.work / ".git/objects"
    process = subprocess.Popen([sys.executable, "-c", SAVE, str(repository.work), "cut_off"], env=environ)
    try:
        await appears(lambda: any(objects.glob("tmp_objdir*/*/*")))
    finally:
        for one in family("none", process.pid):
            os.kill(one.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert repository.is_sound()
    assert repository.git("rev-parse", "refs/clew/jobs/job-1") == before
    saved = await repository.checkpoints().save("cut_off")
    assert saved is not None
    assert len(repository.kept(saved.commit)) > 300


async def test_lock_of_a_dead_git_on_our_ref_is_removed_and_a_fresh_one_is_not(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    lock = repository.work / ".git/refs/clew/jobs/job-1.lock"
    lock.touch()
    repository.write("a", "more\n")
    with pytest.raises(UsageError, match="update-ref"):
        await checkpoints.save("interval")
    assert lock.exists()
    os.utime(lock, (time.time() - 3600, time.time() - 3600))
    assert await checkpoints.save("interval") is not None
    assert not lock.exists()


async def test_cancelled_save_ends_its_git_and_leaves_nothing(repository: Repository, tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    script = f'[ "$verb" = add ] && echo $$ > {sign} && exec sleep 600'
    saving = asyncio.create_task(repository.checkpoints(environ=repository.wrapped(script)).save("start"))
    await appears(lambda: sign.exists() and sign.read_text().strip())
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert not Path(f"/proc/{sign.read_text().strip()}").exists()
    assert not list((repository.work / ".git/clew/jobs/job-1").glob("snapshot-*"))
    assert await repository.checkpoints().save("start") is not None


async def test_leftovers_of_a_killed_save_are_cleared_in_time(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    old, young = (repository.work / ".git/clew/jobs/job-1" / f"snapshot-{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir()
        (folder / "index").touch()
    os.utime(old, (time.time() - 3 * 24 * 3600,) * 2)
    await checkpoints.save("interval")
    assert (old.exists(), young.exists()) == (False, True)


async def test_a_broken_kept_index_is_replaced(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    await checkpoints.save("start")
    (repository.work / ".git/clew/jobs/job-1/index").write_bytes(b"torn")
    assert await checkpoints.save("interval") is None
    repository.write("a", "more\n")
    assert (await checkpoints.difference()).changed == ("a",)


@pytest.mark.rest
async def test_a_tree_that_changes_while_it_is_read_is_still_saved(repository: Repository) -> None:
    """Changes files without a pause, far faster than any agent."""

    def churn() -> None:
        for number in itertools.count():
            path = repository.work / "busy" / f"{number * 7 % 150}"
            path.unlink() if path.exists() else path.write_bytes(b"x" * (number % 5_000))
            if over.is_set():
                return

    (repository.work / "busy").mkdir()
    over = threading.Event()
    worker = threading.Thread(target=churn)
    worker.start()
    try:
        saved = [await repository.checkpoints().save("interval") for _ in range(5)]
    finally:
        over.set()
        worker.join()
    assert all(repository.kept(one.commit)[b"new"] == ("file", b"untracked\n") for one in saved if one is not None)
    await repository.checkpoints().save("cut_off")
    assert (await repository.checkpoints().difference()).changed == ()


async def test_read_that_fails_is_tried_again(repository: Repository) -> None:
    sign = repository.folder / "reads"
    script = (
        f'if [ "$verb" = add ] && [ "$(cat {sign} 2>/dev/null | wc -l)" -lt 2 ]; then echo x >> {sign}; '
        "echo 'fatal: Unable to process path gone' >&2; exit 128; fi"
    )
    saved = await repository.checkpoints(environ=repository.wrapped(script)).save("interval")
    assert saved is not None
    assert repository.kept(saved.commit)[b"new"] == ("file", b"untracked\n")


async def test_a_full_disk_is_reported_and_the_last_checkpoint_stays(repository: Repository) -> None:
    checkpoints = repository.checkpoints()
    start = await checkpoints.save("start")
    repository.write("a", "more\n")
    script = '[ "$verb" = add ] && echo "error: unable to write file: No space left on device" >&2 && exit 128'
    with pytest.raises(StoreError) as raised:
        await repository.checkpoints(environ=repository.wrapped(script)).save("interval")
    assert raised.value.kind == "full"
    assert await checkpoints.list() == [start]
    assert repository.is_sound()


# --- any tree at all ------------------------------------------------------------------------------------------------

ODD = 'a|b|c d|-rf|--|*|:(top)x|"q"|new\nline|tab\t|\udcff\udcfe|back\\slash|~|$HOME| |#|!|.gitattributes|git~1|é|A|\r'
NAMES = st.one_of(
    st.sampled_from(ODD.split("|")),
    st.binary(min_size=1, max_size=6)
    .map(os.fsdecode)
    .filter(lambda name: not set("\0/") & set(name) and name not in (".", "..") and ".git" not in name.lower()),
)
FILES = st.one_of(
    st.tuples(
        st.sampled_from(["file", "program"]),
        st.one_of(st.binary(max_size=20), st.sampled_from([b"x\r\ny\n", b"$Id$\n", b"* text=auto eol=crlf ident\n"])),
    ),
    st.tuples(st.just("link"), NAMES.map(os.fsencode)),
)
PATHS = st.lists(NAMES.map(os.fsencode), min_size=1, max_size=3).map(b"/".join)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Files with paths of which none is a parent of another."""
    tree: Tree = {}
    for path, file in draw(st.lists(st.tuples(PATHS, FILES), max_size=8)):
        parts = path.split(b"/")
        above = {b"/".join(parts[:depth]) for depth in range(1, len(parts) + 1)}
        if not above & tree.keys() and not any(other.startswith(path + b"/") for other in tree):
            tree[path] = file
    return tree


def make(top: Path, tree: Tree, was: Tree) -> None:
    """Writes only the files that differ, as an agent would."""
    for path in [path for path, file in was.items() if tree.get(path) != file]:
        gone = top / os.fsdecode(path)
        gone.unlink()
        for folder in gone.relative_to(top).parents:
            if folder != Path() and not any((top / folder).iterdir()):
                (top / folder).rmdir()
    for path, (kind, content) in tree.items():
        if was.get(path) != (kind, content):
            full = top / os.fsdecode(path)
            full.parent.mkdir(parents=True, exist_ok=True)
            if kind == "link":
                full.symlink_to(os.fsdecode(content))
            else:
                full.write_bytes(content)
                full.chmod(0o755 if kind == "program" else 0o644)


@pytest.fixture(scope="module")
def ground() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.rest
@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(trees(), trees())
@example({b"a": ("file", b"1")}, {b"a/b": ("link", b"a")})
@example({b"a": ("link", b"d"), b"d/x": ("file", b"")}, {b"a/x": ("file", b""), b"d": ("link", b"a")})
@example({}, {b"-rf": ("program", b"")})
@example({b"git~1": ("file", b""), b".gitattributes": ("file", b"* text=auto eol=crlf ident\n")}, {})
def test_any_tree_is_restored_after_any_change(ground: Path, tree: Tree, then: Tree) -> None:
    async def play() -> None:
        checkpoints = repository.checkpoints()
        make(repository.work, tree, {})
        saved = await checkpoints.save("start")
        assert saved is not None
        assert repository.kept(saved.commit) == tree
        make(repository.work, then, tree)
        differing = {os.fsdecode(path) for path in tree | then if tree.get(path) != then.get(path)}
        assert set((await checkpoints.difference()).changed) == differing
        assert await checkpoints.restore() == saved
        assert repository.files() == tree
        if differing:
            assert repository.kept((await checkpoints.list())[-1].commit) == then

    folder = Path(tempfile.mkdtemp(dir=ground))
    repository = Repository(folder)
    asyncio.run(play())
    shutil.rmtree(folder)


async def test_a_file_of_the_same_size_and_time_is_not_read_again(tmp_path: Path) -> None:
    """The kept index makes the save of a large tree fast: git compares the files with it."""
    repository = Repository(tmp_path)
    repository.git("config", "core.trustctime", "false")  # git ignores the ctime, which `utime` cannot set back
    an_hour_ago = (time.time() - 3600,) * 2

    def write(text: str) -> None:
        for number in range(20):
            os.utime(repository.write(f"{number % 5}/{number}", text), an_hour_ago)

    write("read\n")
    checkpoints = repository.checkpoints()
    saved = await checkpoints.save("start")
    assert saved is not None
    write("left\n")
    assert await checkpoints.save("interval") is None, "not one of them was read"
    repository.write("0/0", "read\n")
    assert await checkpoints.save("interval") is None, "one was read, and is unchanged"
    repository.write("0/0", "more\n")
    assert await checkpoints.save("interval") is not None


async def test_as_many_processes_save_a_large_tree_as_a_small_one(tmp_path: Path) -> None:
    started = tmp_path / "started"
    git = tmp_path / "bin/git"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\necho "$*" >> {started}\nexec {shutil.which("git", path=PATH)} "$@"\n')
    git.chmod(0o755)
    counts = []
    for files in (5, 500):
        (tmp_path / str(files)).mkdir()
        repository = Repository(tmp_path / str(files))
        for number in range(files):
            repository.write(f"{number % 50}/{number}", f"{number}\n")
        checkpoints = repository.checkpoints(environ={"PATH": f"{git.parent}:{PATH}"})
        await checkpoints.save("start")
        started.unlink()
        assert await checkpoints.save("interval") is None
        counts.append(len(started.read_text().splitlines()))
    assert counts == [7, 7], started.read_text()


async def appears(seen: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not seen():
            await asyncio.sleep(0.005)
