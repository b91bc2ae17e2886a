"""What has changed in a repository, and what has changed since an earlier diff. Nothing is written there.

New files are added to the diff by means of a copy of the index; git writes its few objects beside that copy. Commands
that the repository's settings name (filters, text converters, external diffs, hooks) do not run.

A diff is kept with the contents of its files. So the changes since then can be found without the repository's help:
commits, rebases and stashes in between do not matter.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clew.core.record import Record
from clew.core.reviews.review import FileChange, Scope
from clew.errors import UsageError
from clew.git.command import WHOLE_S, Done, Git, failure, on_disk

NAME_MAX_CHARS = 4_096
ODD_MAX = 100  # at most this many tracked files may have become pipes or devices
FILE_MAX_BYTES = 1_000_000  # of a larger file only a digest is kept
ALL_MAX_BYTES = 20_000_000
UNKNOWN_OPTION: Final = 129  # the exit status of a git that is too old for an option
LARGE: Final = b"\0clew: large file "

# The header of a file that exists in only one of the two folders: git names that folder twice.
_ONE_SIDED = re.compile(rb'^diff --git ("?)([ab])/(.*) \1\2/\3$', re.MULTILINE)
_SHOWN = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", "-M", "--no-relative"),
    "--ignore-submodules=dirty",  # else git would run inside each submodule, with that repository's settings
)
_SETTINGS = (
    "core.quotePath=false",
    "core.bigFileThreshold=1m",
    "core.untrackedCache=false",
    "core.preloadIndex=false",
    "index.sparse=false",  # git 2.39 corrupts the copy of a sparse index
    "core.splitIndex=false",  # a shared part would be written beside the user's own index
    "diff.suppressBlankEmpty=false",
    "diff.submodule=short",
    "diff.orderFile=/dev/null",
    "diff.algorithm=histogram",
    "color.ui=false",
)


class Diff(Record):
    """What was compared, and the difference as text and as contents."""

    top: str
    base_commit: str | None  # None: it was compared with the index
    head_commit: str | None
    text: str
    changes: tuple[FileChange, ...]
    files: Mapping[str, bytes]  # the present contents of the changed files, without deleted ones


class ChangesSince(Record):
    """What has changed since an earlier diff."""

    text: str
    paths: tuple[str, ...]


class EarlierDiff(Record):
    """What is needed of an earlier diff to find the changes since."""

    base_commit: str | None
    changes: tuple[FileChange, ...]
    files: Mapping[str, bytes]


class Repository:
    """A git repository with a work tree, read only."""

    def __init__(self, work_dir: str, environ: Mapping[str, str]) -> None:
        self._git = Git(environ, needed_for="Reviews need", instead="", settings=_SETTINGS)
        self._work_dir = work_dir
        self._top: str | None = None
        self._guard: Mapping[str, str] = {}

    async def top(self) -> str:
        if self._top is None:
            done = await self._git.attempt("rev-parse", "--show-toplevel", cwd=self._work_dir, extra={})
            if done.status != 0:
                if "not a git repository" in done.err or "must be run in a work tree" in done.err:
                    raise UsageError(
                        f"{self._work_dir} is not in a git work tree.", hint="Name a directory in one, with --cwd."
                    )
                output = done.err.strip().splitlines()[:1] or ["git failed"]
                raise UsageError(f"{self._work_dir}: {output[0].removeprefix('fatal: ')}")
            self._top = os.fsdecode(done.out.rstrip(b"\n"))
            self._guard = await self._git.guarded(self._top, {})
        return self._top

    async def inside(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Makes paths of the work directory relative to the top. Raises UsageError for a path outside of the top."""
        top = Path(await self.top())
        found = []
        for path in paths:
            if "\0" in path or len(path) > NAME_MAX_CHARS:
                raise UsageError(f"{path[:100]!r} is not a path.")
            # Links in the path are not resolved: the path itself must be inside, not what a link leads to.
            whole = os.path.normpath(Path(os.path.realpath(self._work_dir), path))
            if os.path.commonpath([whole, top]) != str(top):
                raise UsageError(f"{path} is not in the repository {top}.")
            found.append(os.path.relpath(whole, top))
        return tuple(dict.fromkeys(path for path in found if path != ".")) if "." not in found else ()

    async def require(self, paths: Sequence[str]) -> None:
        """Raises UsageError for a path that neither exists nor is known to git."""
        for path in paths:
            there = await asyncio.to_thread(os.path.lexists, Path(await self.top(), path))
            if not there and not await self._call("ls-files", "-z", "--", path):
                raise UsageError(f"There is no {path} in the repository.", hint="Check the spelling.")

    async def diff(
        self, scope: Scope, *, base: str | None = None, base_commit: str | None = None, paths: Sequence[str] = ()
    ) -> Diff:
        """`base` is replaced by its merge base with HEAD; `base_commit` is used unchanged, if it exists."""
        top = await self.top()
        head = await self._commit("HEAD")
        compared = await self._base(scope, base, base_commit, head)
        with tempfile.TemporaryDirectory(prefix="clew-review-") as scratch:
            extra = await self._scratch_environ(scratch)
            if scope is not Scope.STAGED:
                await self._add_new(paths, extra)
            args = ["diff", *_SHOWN]
            args += ["--cached"] if scope is Scope.STAGED else []
            args += [compared] if compared is not None else []
            listed = await self._readable(*args, "--raw", "--numstat", "-z", "--", *paths, extra=extra)
            text = await self._call(*args, "-p", "--", *paths, extra=extra)
            changes, blobs = _listed(listed)
            files = await (
                self._blobs({path: blob for path, blob in blobs.items() if blob.strip("0")})
                if scope is Scope.STAGED
                else on_disk(_contents, top, changes)
            )
        return Diff(
            top=top,
            base_commit=compared,
            head_commit=head,
            text=text.decode("utf-8", "replace"),
            changes=tuple(changes),
            files=files,
        )

    async def touched(self, base_commit: str | None = None) -> tuple[str | None, tuple[str, ...]]:
        """The base of the comparison, and the names of the files that differ from it, including new ones.

        Like `diff` without the contents, so that git reads as little as possible.
        """
        base = await self._base(Scope.ALL, None, base_commit, await self._commit("HEAD"))
        options = ("--name-only", "--no-renames", "--no-ext-diff", "--no-relative", "--ignore-submodules=dirty")
        changed = await self._call("diff", *options, "-z", *([base] if base is not None else []), "--")
        new = await self._call("ls-files", "-z", "--others", "--exclude-standard")
        names = (os.fsdecode(name) for name in (changed + new).split(b"\0"))
        return base, tuple(dict.fromkeys(name for name in names if name and not name.endswith("/")))

    async def since(self, before: EarlierDiff, now: Diff) -> ChangesSince:
        """What has changed since `before`, in every file that either diff names."""
        names = dict.fromkeys([*_names(before.changes), *_names(now.changes)])
        old = await self._state(before, names)
        new = await self._state(EarlierDiff(now.base_commit, now.changes, now.files), names)
        changed = [name for name in names if old.get(name) != new.get(name)]
        if not changed:
            return ChangesSince("", ())
        with tempfile.TemporaryDirectory(prefix="clew-review-") as scratch:
            await on_disk(_write_files, scratch, "a", {name: old[name] for name in changed if name in old})
            await on_disk(_write_files, scratch, "b", {name: new[name] for name in changed if name in new})
            shown = [*_SHOWN, "--src-prefix=", "--dst-prefix="]
            args = ("diff", "--no-index", *shown, "-p", "--", "a", "b")
            alone = {"GIT_CEILING_DIRECTORIES": str(Path(scratch).resolve().parent)}
            done = await self._git.attempt(*args, cwd=scratch, extra=alone, limit_s=WHOLE_S)
        if done.status not in (0, 1):
            raise UsageError(f"git diff failed: {done.err.strip()}")
        text = _ONE_SIDED.sub(rb"diff --git \1a/\3 \1b/\3", done.out)
        return ChangesSince(text.decode("utf-8", "replace"), tuple(changed))

    async def _state(self, seen: EarlierDiff, names: Mapping[str, object]) -> dict[str, bytes]:
        """The content of each file: from the diff, or from its base if the diff does not name the file."""
        gone = {change.path for change in seen.changes if change.status == "D"}
        gone |= {change.old_path for change in seen.changes if change.old_path and change.status == "R"}
        known = {name: seen.files[name] for name in names if name in seen.files}
        asked = [name for name in names if name not in known and name not in gone and "\n" not in name]
        if asked:
            known |= await self._blobs({name: f"{seen.base_commit or ''}:{name}" for name in asked})
        return known

    async def _blobs(self, wanted: Mapping[str, str]) -> dict[str, bytes]:
        """Contents by path, without what does not exist or is not a file."""
        given = "".join(f"{each}\n" for each in wanted.values()).encode("utf-8", "surrogateescape")
        out = await self._call("cat-file", "--batch", stdin=given)
        found: dict[str, bytes] = {}
        place = 0
        for path in wanted:
            end = out.index(b"\n", place)
            head = out[place:end].rsplit(b" ", 2)
            place = end + 1
            if len(head) != 3 or head[1] not in (b"blob", b"tree", b"commit", b"tag") or not head[2].isdigit():
                continue  # "… missing", "… ambiguous"
            size = int(head[2])
            if head[1] == b"blob":
                found[path] = stored_content(out[place : place + size])
            place += size + 1
        return found

    async def _base(self, scope: Scope, base: str | None, base_commit: str | None, head: str | None) -> str | None:
        if scope is Scope.UNSTAGED:
            if base is not None:
                raise UsageError("Unstaged changes are compared with the staged ones, not with a base.")
            return None
        if base is None:
            if base_commit is not None and await self._commit(base_commit, "tree") is not None:
                return base_commit  # a commit, or the empty tree if there was no commit yet
            return head or (await self._call("hash-object", "-t", "tree", "--stdin")).decode().strip()
        commit = await self.tip(base)
        if commit is None and base_commit is not None and await self._commit(base_commit) is not None:
            return base_commit  # the branch that `base` names was deleted since
        if commit is None:
            raise UsageError(
                f"{base[:100]!r} is not a commit of this repository.", hint="Name a branch, a tag or a commit."
            )
        if head is None:
            return commit
        done = await self._git.attempt("merge-base", commit, head, cwd=await self.top(), extra={})
        return done.out.decode().split()[0] if done.status == 0 and done.out.strip() else commit

    async def _commit(self, name: str, kind: str = "commit") -> str | None:
        top = await self.top()
        if "\0" in name:
            return None
        done = await self._git.attempt("rev-parse", "--verify", "--quiet", f"{name}^{{{kind}}}", cwd=top, extra={})
        return done.out.decode().strip() if done.status == 0 else None

    async def tip(self, base: str) -> str | None:
        """The commit that a base names now, and not where HEAD left it."""
        return None if base.startswith(("-", "^")) or len(base) > NAME_MAX_CHARS else await self._commit(base)

    async def _scratch_environ(self, scratch: str) -> dict[str, str]:
        """An environment in which the index is a copy, and git writes its objects beside it."""
        top = await self.top()
        output = await self._call("rev-parse", "--git-path", "index", "--git-path", "objects")
        theirs, objects = (Path(top, os.fsdecode(line)).resolve() for line in output.splitlines())
        index = Path(scratch, "index")
        if await asyncio.to_thread(theirs.exists):
            await on_disk(shutil.copy2, theirs, index)  # with its modification time, which git compares with the files'
        await on_disk(Path(scratch, "objects").mkdir)
        return {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(Path(scratch, "objects")),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(objects)),
        }

    async def _add_new(self, paths: Sequence[str], extra: Mapping[str, str]) -> None:
        """Adds new files to the index, also where a sparse checkout leaves out a part of the tree."""
        others = await self._call("ls-files", "-z", "--others", "--exclude-standard", "--", *paths, extra=extra)
        new = b"\0".join(name for name in others.split(b"\0") if name and not name.endswith(b"/"))
        if not new:
            return
        args = ("add", "--intent-to-add", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
        for options in (("--sparse",), ()):
            done = await self._attempt(*args, *options, extra=extra, stdin=new)
            if done.status in (0, 1):  # 1: some of them cannot be read
                return
            if done.status != UNKNOWN_OPTION:
                break
        raise failure(args, done, "")

    async def _readable(self, *args: str, extra: Mapping[str, str]) -> bytes:
        """Like `_call`. A tracked file that is now a pipe or a device counts as deleted."""
        for _ in range(ODD_MAX):
            done = await self._attempt(*args, extra=extra)
            odd = re.search(r"^error: (.*): unsupported file type$", done.err, re.MULTILINE)
            if done.status == 0 or odd is None:
                break
            await self._call("update-index", "--force-remove", "-z", "--stdin", extra=extra, stdin=odd[1].encode())
        if done.status != 0:
            raise failure(args, done, "")
        return done.out

    async def _call(self, *args: str, extra: Mapping[str, str] | None = None, stdin: bytes = b"") -> bytes:
        done = await self._attempt(*args, extra=extra, stdin=stdin)
        if done.status != 0:
            raise failure(args, done, "")
        return done.out

    async def _attempt(self, *args: str, extra: Mapping[str, str] | None, stdin: bytes = b"") -> Done:
        top = await self.top()
        return await self._git.attempt(
            *args, cwd=top, extra={**self._guard, **(extra or {})}, stdin=stdin, limit_s=WHOLE_S
        )


def stored_content(data: bytes) -> bytes:
    """A file's content as it is stored: of a large file only a digest."""
    if len(data) <= FILE_MAX_BYTES:
        return data
    return LARGE + hashlib.sha256(data).hexdigest().encode()


def _listed(out: bytes) -> tuple[list[FileChange], dict[str, str]]:
    """Reads `--raw --numstat -z`: the changes, and the blob id of each changed file's new content."""
    args = iter(out.split(b"\0"))
    changes: list[FileChange] = []
    blobs: dict[str, str] = {}
    counts: dict[str, tuple[int | None, int | None]] = {}
    for word in args:
        if word.startswith(b":"):
            fields = word[1:].decode().split(" ")
            status = fields[4][:1]
            first = os.fsdecode(next(args))
            path = os.fsdecode(next(args)) if status in "RC" else first
            blobs[path] = fields[3]
            if changes and changes[-1].path == path and changes[-1].status == "U":
                continue  # in a comparison with the index, a file in conflict is named twice
            changes.append(FileChange(path, status, None, None, first if status in "RC" else None))
        elif word:
            added, removed, path_word = word.split(b"\t", 2)
            if not path_word:
                next(args)  # the old name of a renamed file
                path_word = next(args)
            counts[os.fsdecode(path_word)] = (_count(added), _count(removed))
    return [
        change.replace(added=counts.get(change.path, (None, None))[0], removed=counts.get(change.path, (None, None))[1])
        for change in changes
    ], blobs


def _count(word: bytes) -> int | None:
    return int(word) if word.isdigit() else None


def _names(changes: Sequence[FileChange]) -> list[str]:
    return [name for change in changes for name in (change.path, change.old_path) if name is not None]


def _contents(top: str, changes: Sequence[FileChange]) -> dict[str, bytes]:
    """The contents on the disk, without files that cannot be read. Beyond the total limit, only digests are kept."""
    found: dict[str, bytes] = {}
    room = ALL_MAX_BYTES
    for change in changes:
        if change.status == "D":
            continue  # the path may still lead to a file, if a parent folder is now a link
        path = Path(top, change.path)
        try:
            if path.is_symlink():
                data = os.fsencode(path.readlink())
            elif path.is_file():
                data = path.read_bytes() if path.stat().st_size <= FILE_MAX_BYTES else _large(path)
            else:
                continue
        except OSError:
            continue
        data = data if len(data) <= room else LARGE + hashlib.sha256(data).hexdigest().encode()
        room -= len(data)
        found[change.path] = data
    return found


def _large(path: Path) -> bytes:
    with path.open("rb") as file:
        return LARGE + hashlib.file_digest(file, "sha256").hexdigest().encode()


def _write_files(scratch: str, side: str, files: Mapping[str, bytes]) -> None:
    root = Path(scratch, side)
    root.mkdir()
    for name, data in files.items():
        path = Path(os.path.normpath(root / name))
        if root not in path.parents:
            continue  # an index cannot hold such a name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _quoted(path: str) -> str:
    """Quotes a path for a list of folders, because the path may contain the separator."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
