"""Snapshots of a work tree, made with git's plumbing from a scratch repository.

The scratch repository is a git directory of its own (`clew/jobs/<name>` inside the user's). It shares only the objects
with the user's repository, and has its own settings, its own index, and attributes that switch every conversion off. So
a snapshot holds the bytes that are on the disk, whatever filters, line ends or encodings the repository asks for; none
of the repository's commands can run; and its index, locks and config are not even opened for writing. In the user's
repository a ref is moved, and nothing else.

There are two kinds of calls, with different environments: `_in_repository` queries the user's repository,
`_in_scratch` works in the scratch repository.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from clew.core.record import Record
from clew.errors import UsageError
from clew.git.command import INSTEAD, WHOLE_S, Git, error_text, failure, on_disk
from clew.git.paths import Change, reachable
from clew.git.scratch import RepositoryLayout, copy_index, keep_index, open_scratch, remove_scratch, remove_stale_lock

TRIES = 5  # a file may disappear while git reads the tree
NESTED_MAX = 50  # levels of repositories inside repositories

# The repository's settings about its file system, its sharing and its ignore file apply in the scratch repository too.
_FILE_SYSTEM_SETTINGS = (
    "^core[.](filemode|symlinks|ignorecase|precomposeunicode|trustctime|checkstat|sharedrepository|excludesfile)$"
)
_LEFT_OUT = "Ignoring path "  # git leaves out a path that no index accepts, and warns; here that is an error
_TEMPORARY = ("-c", "core.fsync=none", "-c", "core.compression=0")
_AUTHOR = {
    "GIT_AUTHOR_NAME": "Clew",
    "GIT_AUTHOR_EMAIL": "clew@localhost",
    "GIT_COMMITTER_NAME": "Clew",
    "GIT_COMMITTER_EMAIL": "clew@localhost",
}


class Snapshot(Record):
    tree: str  # the id of the git tree with all files
    folder: Path  # of this snapshot alone; removed after use
    environ: Mapping[str, str]  # for calls that use its index and objects
    settings: tuple[str, ...]  # the options for such calls: the repository's settings about its file system


class LoggedCommit(Record):
    """A commit as `GitTree.log` reads it."""

    commit: str
    tree: str
    message: str


class GitTree:
    """One work tree, and one ref in its repository."""

    def __init__(self, work_dir: str, name: str, environ: Mapping[str, str]) -> None:
        self._git = Git(environ)
        self._environ = environ
        self._work_dir = work_dir
        self._name = name
        self._layout: RepositoryLayout | None = None
        self.ref = f"refs/clew/jobs/{name}"

    async def layout(self) -> RepositoryLayout:
        """Where the parts of the repository are. Raises UsageError when checkpoints cannot be kept here."""
        if self._layout is None:
            self._layout = await self._find_layout()
        return self._layout

    async def tip(self) -> str | None:
        return await self._resolve(self.ref)

    async def head(self) -> str | None:
        return await self._resolve("HEAD")

    async def unmerged(self) -> set[bytes]:
        listed = await self._in_repository("ls-files", "-z", "-u")
        return {line.split(b"\t", 1)[1] for line in listed.split(b"\0") if line}

    async def move(self, new: str | None, old: str | None) -> bool:
        """Moves the ref from `old` to `new` (None: no such ref). False: it is not, or no longer, at `old`."""
        layout = await self.layout()
        lock = Path(layout.common_dir, f"{self.ref}.lock")
        words = ("-d", self.ref, old or "") if new is None else (self.ref, new, old or "")
        for _ in range(TRIES):
            done = await self._git.finish("update-ref", "--no-deref", *words, cwd=layout.top, extra=_repository(layout))
            if done.status == 0:
                return True
            now = await self.tip()
            if now != old:
                return now == new
            await on_disk(remove_stale_lock, lock)
        raise failure(("update-ref",), done)

    async def commit(self, tree: str, parent: str | None, message: str, at: float) -> str:
        layout = await self.layout()
        date = f"{max(int(at), 0)} +0000"
        extra = {**self._scratch_environ(layout), **_AUTHOR, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        parents = () if parent is None else ("-p", parent)
        output = await self._git.call(
            "commit-tree", tree, *parents, cwd=layout.top, extra=extra, stdin=message.encode("utf-8", "replace")
        )
        return output.decode().strip()

    async def log(self, commit: str, count: int) -> list[LoggedCommit]:
        """The commits along the first parents, newest first."""
        output = await self._in_repository("rev-list", "--first-parent", f"--max-count={count}", "--header", commit)
        return [_logged_commit(raw) for raw in output.split(b"\0") if raw.strip()]

    async def changes(self, snapshot: Snapshot, old: str, new: str) -> list[Change]:
        output = await self._in_scratch(snapshot, "diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)
        words = output.split(b"\0")
        return [Change(kind.decode(), path) for kind, path in zip(words[:-1:2], words[1::2], strict=True)]

    @contextlib.asynccontextmanager
    async def snapshot(self, base: str | None, *, temporary: bool = False) -> AsyncIterator[Snapshot]:
        """The work tree as it is now. A temporary snapshot leaves nothing in the repository's objects.

        `base` is the commit to begin from when the scratch repository has no index: a file that was in a checkpoint
        stays in the later ones, even if it is ignored by now.
        """
        layout = await self.layout()
        folder = await on_disk(open_scratch, layout, temporary)
        try:
            environ = self._scratch_environ(layout) | {"GIT_INDEX_FILE": str(folder / "index")}
            if temporary:
                environ["GIT_OBJECT_DIRECTORY"] = str(folder / "objects")
            settings = await self._settings(layout) + (_TEMPORARY if temporary else ())
            snapshot = Snapshot("", folder, environ, settings)
            yield snapshot.replace(tree=await self._read_files(snapshot, base))
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def keep(self, snapshot: Snapshot) -> None:
        """Keeps the index for the next snapshot: git then reads only files that have changed."""
        layout = await self.layout()
        await on_disk(keep_index, snapshot.folder / "index", layout.scratch / "index")

    async def check_out(self, snapshot: Snapshot, tree: str) -> None:
        """Changes the work tree from the snapshot to `tree`. Raises UsageError if a file changed since the snapshot."""
        await self._in_scratch(snapshot, "read-tree", "-m", "-u", snapshot.tree, tree)

    async def clear(self) -> None:
        """Removes the scratch repository."""
        layout = await self.layout()
        await on_disk(remove_scratch, layout.scratch)

    async def _read_files(self, snapshot: Snapshot, base: str | None) -> str:
        layout = await self.layout()
        try:
            async with asyncio.timeout(WHOLE_S):
                for left in reversed(range(TRIES)):
                    # The last try does not use the kept index, in case that index is broken.
                    kept = await on_disk(
                        copy_index, layout.scratch / "index" if left else None, snapshot.folder / "index"
                    )
                    try:
                        if not kept and base is not None:
                            await self._in_scratch(snapshot, "read-tree", base)
                        return await self._write_tree(snapshot, layout)
                    except UsageError:
                        if not left:
                            raise
        except TimeoutError as error:
            raise UsageError(f"Reading {layout.top} took longer than {WHOLE_S:.0f} s.", hint=INSTEAD) from error
        raise AssertionError("the last try returns or raises")

    async def _write_tree(self, snapshot: Snapshot, layout: RepositoryLayout) -> str:
        """Puts all files into the index, and writes the index as a tree.

        Paths are listed first and then added. `git add` would fail if a file disappeared between the two.
        """
        await self._in_scratch(snapshot, "update-index", "-q", "--refresh", accepted=(0, 1))  # 1: some files differ
        known, others = await self._changed_paths(snapshot, layout)
        # Files that the user's repository tracks although they are ignored:
        forced = await self._in_repository("ls-files", "-z", "-i", "-c", "--exclude-standard")
        there = await on_disk(reachable, os.fsencode(layout.top), {*known, *forced.split(b"\0")})
        gone = known - set(there)
        for words, paths in ((("--force-remove",), gone), (("--add", "--remove", "--replace"), [*there, *others])):
            if paths:
                stdin = b"\0".join([*paths, b""])
                await self._in_scratch(snapshot, "update-index", *words, "-z", "--stdin", stdin=stdin)
        return (await self._in_scratch(snapshot, "write-tree")).decode().strip()

    async def _changed_paths(self, snapshot: Snapshot, layout: RepositoryLayout) -> tuple[set[bytes], list[bytes]]:
        """The paths in the index that have changed or are gone, and those that are not in it.

        Git would store a repository inside the tree as a link to one of its commits, without its files. A made-up
        index entry below that repository makes git enter it like any other folder. No file has the entry's name, so git
        lists the entry as gone, and it is removed with the others.
        """
        number = b"1" * (40 if layout.hash_name == "sha1" else 64)  # the id of no object; git does not look it up
        for _ in range(NESTED_MAX):
            output = await self._in_scratch(snapshot, "ls-files", "-z", "-t", "-o", "-m", "-d", "--exclude-standard")
            lines = [line for line in output.split(b"\0") if line]
            others = [line[2:] for line in lines if line.startswith(b"?")]
            nested = [path for path in others if path.endswith(b"/")]
            if not nested:
                return {line[2:] for line in lines if not line.startswith(b"?")}, others
            entries = [b"100644 %s 0\t%s.clew-%s" % (number, path, uuid.uuid4().hex.encode()) for path in nested]
            await self._in_scratch(snapshot, "update-index", "-z", "--index-info", stdin=b"\0".join([*entries, b""]))
        raise UsageError(f"{layout.top} has more than {NESTED_MAX} levels of nested repositories.", hint=INSTEAD)

    async def _in_scratch(
        self, snapshot: Snapshot, *args: str, stdin: bytes = b"", accepted: tuple[int, ...] = (0,)
    ) -> bytes:
        layout = await self.layout()
        done = await self._git.attempt(
            *snapshot.settings, *args, cwd=layout.top, extra=snapshot.environ, stdin=stdin, limit_s=WHOLE_S
        )
        if done.status not in accepted or _LEFT_OUT in done.err:
            raise failure(args, done)
        return done.out

    async def _in_repository(self, *args: str) -> bytes:
        layout = await self.layout()
        return await self._git.call(*args, cwd=layout.top, extra=_repository(layout))

    async def _resolve(self, name: str) -> str | None:
        layout = await self.layout()
        done = await self._git.attempt(
            "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=layout.top, extra=_repository(layout)
        )
        if done.status not in (0, 1):
            raise failure(("rev-parse",), done)
        return done.out.decode().strip() or None

    def _scratch_environ(self, layout: RepositoryLayout) -> dict[str, str]:
        """For calls in the scratch repository, which is also HOME: no git settings of user or machine apply."""
        return {
            "HOME": str(layout.scratch),
            "XDG_CONFIG_HOME": str(layout.scratch),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_DIR": str(layout.scratch),
            "GIT_WORK_TREE": layout.top,
            "GIT_OBJECT_DIRECTORY": str(Path(layout.common_dir, "objects")),
        }

    async def _settings(self, layout: RepositoryLayout) -> tuple[str, ...]:
        done = await self._git.attempt(
            "config", "-z", "--get-regexp", _FILE_SYSTEM_SETTINGS, cwd=layout.top, extra=_repository(layout)
        )
        home = self._environ.get("HOME", "")
        ignore = Path(self._environ.get("XDG_CONFIG_HOME") or Path(home, ".config"), "git", "ignore")
        words = ["-c", f"core.excludesfile={ignore}"]
        for line in filter(None, os.fsdecode(done.out).split("\0")):
            key, equals, value = line.partition("\n")
            if key == "core.excludesfile" and value.startswith("~/"):
                value = f"{home}{value[1:]}"
            words += ["-c", f"{key}={value}" if equals else key]
        return tuple(words)

    async def _find_layout(self) -> RepositoryLayout:
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-object-format")
        inside = await self._git.attempt("rev-parse", "--is-inside-work-tree", cwd=self._work_dir, extra={})
        if inside.status != 0:
            own = "safe.directory" in inside.err
            raise UsageError(
                f"No checkpoints in {self._work_dir}: {error_text(inside.err)}.",
                hint=f"{'If you trust it, add it to safe.directory' if own else 'Run git init there'}. {INSTEAD}",
            )
        if inside.out.strip() != b"true":
            raise UsageError(
                f"No checkpoints in {self._work_dir}: the repository has no work tree there.",
                hint=f"Name a directory of a work tree with --cwd. {INSTEAD}",
            )
        output = [await self._git.call("rev-parse", word, cwd=self._work_dir, extra={}) for word in asked]
        top, git_dir, common_dir, hash_name = (os.fsdecode(line.removesuffix(b"\n")) for line in output)
        common_dir = os.path.realpath(Path(self._work_dir, common_dir))
        return RepositoryLayout(top, git_dir, common_dir, hash_name, Path(git_dir, "clew", "jobs", self._name))


def _repository(layout: RepositoryLayout) -> dict[str, str]:
    return {"GIT_DIR": layout.git_dir, "GIT_WORK_TREE": layout.top}


def _logged_commit(raw: bytes) -> LoggedCommit:
    """Parses the id, the header with the tree first, an empty line, and the message, indented by four spaces."""
    header, _, message = raw.decode("utf-8", "replace").partition("\n\n")
    commit, tree = header.split("\n")[:2]
    lines = [line.removeprefix("    ") for line in message.splitlines()]
    return LoggedCommit(commit, tree.removeprefix("tree "), "\n".join(lines))
