"""What has changed in a repository, and what has changed since somebody last looked. Nothing is written there.

New files are made part of the diff by an index of our own, a copy beside which git puts what little it must write.
Commands that the repository's settings name (filters, text converters, external diffs, hooks) do not run.

What a diff leads to is kept as the files' contents, so that what changed since can be told without the help of the
repository: commits, rebases and stashes in between do not matter.
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
from clew.core.review import FileChange, Scope
from clew.engine.git import WHOLE_S, Git, failure, on_disk
from clew.errors import UsageError

NAME_MOST = 4_096
ODD_MOST = 100  # files that are none any more
FILE_MOST = 1_000_000  # bytes of a file that are kept; of a larger one only that it changed
ALL_MOST = 20_000_000
UNKNOWN_OPTION: Final = 129  # git's exit status: an older one
LARGE: Final = b"\0clew: large file "

# Of a file that only one of two folders has, git names that folder twice.
_ONE_SIDED = re.compile(rb'^diff --git ("?)([ab])/(.*) \1\2/\3$', re.MULTILINE)
_SHOWN = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", "-M", "--no-relative"),
    "--ignore-submodules=dirty",  # to look into one, git would run there, by the settings of that repository
)
_SETTINGS = tuple(
    word
    for setting in (
        "core.quotePath=false",
        "core.bigFileThreshold=1m",
        "core.untrackedCache=false",
        "core.preloadIndex=false",
        "index.sparse=false",  # git 2.39 garbles the copy of a sparse one
        "core.splitIndex=false",  # a shared part would be written beside the user's own index
        "diff.suppressBlankEmpty=false",
        "diff.submodule=short",
        "diff.orderFile=/dev/null",
        "diff.algorithm=histogram",
        "color.ui=false",
    )
    for word in ("-c", setting)
)


class Diff(Record):
    """What is compared with what, as text and as contents."""

    top: str
    base_commit: str | None  # None: with the index
    head_commit: str | None
    text: str
    changes: tuple[FileChange, ...]
    files: Mapping[str, bytes]  # what the changed files hold now; those that are gone are not in it


class Since(Record):
    """What has changed since an earlier diff."""

    text: str
    paths: tuple[str, ...]


class Before(Record):
    """An earlier diff, as far as it matters for what changed since."""

    base_commit: str | None
    changes: tuple[FileChange, ...]
    files: Mapping[str, bytes]


class Repository:
    """A git repository's work tree, to look at."""

    def __init__(self, work_dir: str, environ: Mapping[str, str]) -> None:
        self._git = Git(environ, needed_for="Reviews need", instead="")
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
                said = done.err.strip().splitlines()[:1] or ["git failed"]
                raise UsageError(f"{self._work_dir}: {said[0].removeprefix('fatal: ')}")
            self._top = os.fsdecode(done.out.rstrip(b"\n"))
            self._guard = await self._git.guarded(self._top, {})
        return self._top

    async def inside(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Paths as given in the work directory, relative to the top. UsageError for one that leads out of it."""
        top = Path(await self.top())
        found = []
        for path in paths:
            if "\0" in path or len(path) > NAME_MOST:
                raise UsageError(f"{path[:100]!r} is no path.")
            # The links in between are the repository's own affair: only where the name leads counts.
            whole = os.path.normpath(Path(os.path.realpath(self._work_dir), path))
            if os.path.commonpath([whole, top]) != str(top):
                raise UsageError(f"{path} is not in the repository {top}.")
            found.append(os.path.relpath(whole, top))
        return tuple(dict.fromkeys(path for path in found if path != ".")) if "." not in found else ()

    async def require(self, paths: Sequence[str]) -> None:
        """UsageError for a path that is neither there nor known to git."""
        for path in paths:
            there = await asyncio.to_thread(os.path.lexists, Path(await self.top(), path))
            if not there and not await self._call("ls-files", "-z", "--", path):
                raise UsageError(f"There is no {path} in the repository.", hint="Is it spelled right?")

    async def diff(
        self, scope: Scope, *, base: str | None = None, base_commit: str | None = None, paths: Sequence[str] = ()
    ) -> Diff:
        """`base` is compared from where it and HEAD parted; `base_commit` is taken as it is, if it is still there."""
        top = await self.top()
        head = await self._commit("HEAD")
        compared = await self._base(scope, base, base_commit, head)
        with tempfile.TemporaryDirectory(prefix="clew-review-") as scratch:
            extra = await self._desk(scratch)
            if scope is not Scope.STAGED:
                await self._add_new(paths, extra)
            words = ["diff", *_SHOWN]
            words += ["--cached"] if scope is Scope.STAGED else []
            words += [compared] if compared is not None else []
            listed = await self._readable(*words, "--raw", "--numstat", "-z", "--", *paths, extra=extra)
            text = await self._call(*words, "-p", "--", *paths, extra=extra)
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
        """What was compared with, and the names of the files that are not as it has them, new ones too.

        As `diff` without the contents: nothing is read that git need not read to tell.
        """
        base = await self._base(Scope.ALL, None, base_commit, await self._commit("HEAD"))
        options = ("--name-only", "--no-renames", "--no-ext-diff", "--no-relative", "--ignore-submodules=dirty")
        changed = await self._call("diff", *options, "-z", *([base] if base is not None else []), "--")
        new = await self._call("ls-files", "-z", "--others", "--exclude-standard")
        names = (os.fsdecode(name) for name in (changed + new).split(b"\0"))
        return base, tuple(dict.fromkeys(name for name in names if name and not name.endswith("/")))

    async def since(self, before: Before, now: Diff) -> Since:
        """What is different from what `before` led to, in any file that either of them is about."""
        names = dict.fromkeys([*_names(before.changes), *_names(now.changes)])
        old = await self._state(before, names)
        new = await self._state(Before(now.base_commit, now.changes, now.files), names)
        changed = [name for name in names if old.get(name) != new.get(name)]
        if not changed:
            return Since("", ())
        with tempfile.TemporaryDirectory(prefix="clew-review-") as scratch:
            await on_disk(_lay_out, scratch, "a", {name: old[name] for name in changed if name in old})
            await on_disk(_lay_out, scratch, "b", {name: new[name] for name in changed if name in new})
            shown = [*_SHOWN, "--src-prefix=", "--dst-prefix="]
            words = (*_SETTINGS, "diff", "--no-index", *shown, "-p", "--", "a", "b")
            alone = {"GIT_CEILING_DIRECTORIES": str(Path(scratch).resolve().parent)}
            done = await self._git.attempt(*words, cwd=scratch, extra=alone, limit_s=WHOLE_S)
        if done.status not in (0, 1):
            raise UsageError(f"git diff failed: {done.err.strip()}")
        text = _ONE_SIDED.sub(rb"diff --git \1a/\3 \1b/\3", done.out)
        return Since(text.decode("utf-8", "replace"), tuple(changed))

    async def _state(self, seen: Before, names: Mapping[str, object]) -> dict[str, bytes]:
        """What each file held: as the diff left it, or as its base has it when the diff is not about it."""
        gone = {change.path for change in seen.changes if change.status == "D"}
        gone |= {change.old_path for change in seen.changes if change.old_path and change.status == "R"}
        known = {name: seen.files[name] for name in names if name in seen.files}
        asked = [name for name in names if name not in known and name not in gone and "\n" not in name]
        if asked:
            known |= await self._blobs({name: f"{seen.base_commit or ''}:{name}" for name in asked})
        return known

    async def _blobs(self, wanted: Mapping[str, str]) -> dict[str, bytes]:
        """Contents by path; what is not there, or is no file, is left out."""
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
                found[path] = kept(out[place : place + size])
            place += size + 1
        return found

    async def _base(self, scope: Scope, base: str | None, base_commit: str | None, head: str | None) -> str | None:
        if scope is Scope.UNSTAGED:
            if base is not None:
                raise UsageError("What is unstaged is compared with what is staged, not with a base.")
            return None
        if base is None:
            if base_commit is not None and await self._commit(base_commit, "tree") is not None:
                return base_commit  # before the first commit it is the empty tree
            return head or (await self._call("hash-object", "-t", "tree", "--stdin")).decode().strip()
        commit = None if base.startswith(("-", "^")) or len(base) > NAME_MOST else await self._commit(base)
        if commit is None and base_commit is not None and await self._commit(base_commit) is not None:
            return base_commit  # the branch was deleted since, as they are
        if commit is None:
            raise UsageError(
                f"{base[:100]!r} is no commit of this repository.", hint="Name a branch, a tag or a commit."
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

    async def _desk(self, scratch: str) -> dict[str, str]:
        """An environment in which the index is a copy, and what git writes lands beside it."""
        top = await self.top()
        said = await self._call("rev-parse", "--git-path", "index", "--git-path", "objects")
        theirs, objects = (Path(top, os.fsdecode(line)).resolve() for line in said.splitlines())
        index = Path(scratch, "index")
        if await asyncio.to_thread(theirs.exists):
            await on_disk(shutil.copy2, theirs, index)  # with its time: git tells by it what changed in the same moment
        await on_disk(Path(scratch, "objects").mkdir)
        return {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": str(Path(scratch, "objects")),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(str(objects)),
        }

    async def _add_new(self, paths: Sequence[str], extra: Mapping[str, str]) -> None:
        """New files join the index, also where a sparse checkout leaves a part of the tree out."""
        top = await self.top()
        others = await self._call("ls-files", "-z", "--others", "--exclude-standard", "--", *paths, extra=extra)
        new = b"\0".join(name for name in others.split(b"\0") if name and not name.endswith(b"/"))
        if not new:
            return
        given = {**self._guard, **extra}
        words = ("add", "--intent-to-add", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
        for options in (("--sparse",), ()):
            done = await self._git.attempt(
                *_SETTINGS, *words, *options, cwd=top, extra=given, stdin=new, limit_s=WHOLE_S
            )
            if done.status in (0, 1):  # 1: not all of them can be read
                return
            if done.status != UNKNOWN_OPTION:
                break
        raise failure(words, done, "")

    async def _readable(self, *words: str, extra: Mapping[str, str]) -> bytes:
        """As `_call`. A tracked file in whose place there is a pipe or a device counts as deleted."""
        for _ in range(ODD_MOST):
            done = await self._git.attempt(
                *_SETTINGS, *words, cwd=await self.top(), extra={**self._guard, **extra}, limit_s=WHOLE_S
            )
            odd = re.search(r"^error: (.*): unsupported file type$", done.err, re.MULTILINE)
            if done.status == 0 or odd is None:
                break
            await self._call("update-index", "--force-remove", "-z", "--stdin", extra=extra, stdin=odd[1].encode())
        if done.status != 0:
            raise failure(words, done, "")
        return done.out

    async def _call(self, *words: str, extra: Mapping[str, str] | None = None, stdin: bytes = b"") -> bytes:
        top = await self.top()
        given = {**self._guard, **(extra or {})}
        return await self._git.call(*_SETTINGS, *words, cwd=top, extra=given, stdin=stdin, limit_s=WHOLE_S)


def kept(data: bytes) -> bytes:
    """A file's content as it is remembered: of a large one, only what tells it from another."""
    if len(data) <= FILE_MOST:
        return data
    return LARGE + hashlib.sha256(data).hexdigest().encode()


def _listed(out: bytes) -> tuple[list[FileChange], dict[str, str]]:
    """Reads `--raw --numstat -z`: the changes, and the ids of the blobs that they lead to."""
    words = iter(out.split(b"\0"))
    changes: list[FileChange] = []
    blobs: dict[str, str] = {}
    counts: dict[str, tuple[int | None, int | None]] = {}
    for word in words:
        if word.startswith(b":"):
            fields = word[1:].decode().split(" ")
            status = fields[4][:1]
            first = os.fsdecode(next(words))
            path = os.fsdecode(next(words)) if status in "RC" else first
            blobs[path] = fields[3]
            if changes and changes[-1].path == path and changes[-1].status == "U":
                continue  # a file in conflict is named twice where it is compared with the index
            changes.append(FileChange(path, status, None, None, first if status in "RC" else None))
        elif word:
            added, removed, path_word = word.split(b"\t", 2)
            if not path_word:
                next(words)  # the old name of a renamed one
                path_word = next(words)
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
    """What is on the disk; a file that cannot be read is left out, and so is what would be too much."""
    found: dict[str, bytes] = {}
    room = ALL_MOST
    for change in changes:
        if change.status == "D":
            continue  # by a link in its place that name may still lead somewhere
        path = Path(top, change.path)
        try:
            if path.is_symlink():
                data = os.fsencode(path.readlink())
            elif path.is_file():
                data = path.read_bytes() if path.stat().st_size <= FILE_MOST else _large(path)
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


def _lay_out(scratch: str, side: str, files: Mapping[str, bytes]) -> None:
    root = Path(scratch, side)
    root.mkdir()
    for name, data in files.items():
        path = Path(os.path.normpath(root / name))
        if root not in path.parents:
            continue  # no index holds such a name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _quoted(path: str) -> str:
    """In a list of folders, one whose name holds the separator."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
