"""Pictures of a work tree, made with git's plumbing from a desk of our own.

The desk is a git directory of its own (`clew/jobs/<name>` within the repository's), which shares nothing with the
repository but its objects: our settings, our index, and attributes that switch every conversion off. So a picture holds
the bytes that are on the disk, whatever filters, line ends or encodings the repository asks for; none of its commands
can run; and its index, locks and config are not even opened for writing. In the repository itself a ref is moved, and
nothing else.

Two kinds of calls, told apart by their environment: `_theirs` asks the repository, `_ours` works at the desk.
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
from clew.engine.git import INSTEAD, WHOLE_S, Git, failure, last_words, on_disk
from clew.engine.git_desk import Place, clear_desk, keep_index, lay_out, open_desk, remove_stale
from clew.engine.work_tree import Change, reachable
from clew.errors import UsageError

TRIES = 5  # a tree that is being worked in may lose a file while git reads it
NESTED_MAX = 50  # repositories within repositories

# What the repository says about its file system, and whose files they are, holds for us too.
_TAKEN_OVER = (
    "^core[.](filemode|symlinks|ignorecase|precomposeunicode|trustctime|checkstat|sharedrepository|excludesfile)$"
)
_LEFT_OUT = "Ignoring path "  # a name that no index takes; git goes on without it, a checkpoint must not
_PASSING = ("-c", "core.fsync=none", "-c", "core.compression=0")
_AUTHOR = {
    "GIT_AUTHOR_NAME": "Clew",
    "GIT_AUTHOR_EMAIL": "clew@localhost",
    "GIT_COMMITTER_NAME": "Clew",
    "GIT_COMMITTER_EMAIL": "clew@localhost",
}


class Picture(Record):
    tree: str  # the id of what is there
    scratch: Path  # the picture's own folder, gone with it
    environ: Mapping[str, str]  # for calls that see its index and objects
    settings: tuple[str, ...]  # and what the repository says about its file system


class Entry(Record):
    """A commit, as far as it matters here."""

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
        self._place: Place | None = None
        self.ref = f"refs/clew/jobs/{name}"

    async def place(self) -> Place:
        """Where everything is; a UsageError when checkpoints cannot be kept here."""
        if self._place is None:
            self._place = await self._find()
        return self._place

    async def tip(self) -> str | None:
        return await self._commit_of(self.ref)

    async def head(self) -> str | None:
        return await self._commit_of("HEAD")

    async def unmerged(self) -> set[bytes]:
        listed = await self._theirs("ls-files", "-z", "-u")
        return {line.split(b"\t", 1)[1] for line in listed.split(b"\0") if line}

    async def move(self, new: str | None, old: str | None) -> bool:
        """Moves the ref (None: there is none). False when it is not, or no longer, at `old`."""
        place = await self.place()
        lock = Path(place.common_dir, f"{self.ref}.lock")
        words = ("-d", self.ref, old or "") if new is None else (self.ref, new, old or "")
        for _ in range(TRIES):
            done = await self._git.finish("update-ref", "--no-deref", *words, cwd=place.top, extra=_repository(place))
            if done.status == 0:
                return True
            now = await self.tip()
            if now != old:
                return now == new
            await on_disk(remove_stale, lock)
        raise failure(("update-ref",), done)

    async def commit(self, tree: str, parent: str | None, message: str, at: float) -> str:
        place = await self.place()
        date = f"{max(int(at), 0)} +0000"
        extra = {**self._at_desk(place), **_AUTHOR, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        parents = () if parent is None else ("-p", parent)
        said = await self._git.call(
            "commit-tree", tree, *parents, cwd=place.top, extra=extra, stdin=message.encode("utf-8", "replace")
        )
        return said.decode().strip()

    async def log(self, commit: str, count: int) -> list[Entry]:
        """The newest first, along the first parents."""
        said = await self._theirs("rev-list", "--first-parent", f"--max-count={count}", "--header", commit)
        return [_entry(entry) for entry in said.split(b"\0") if entry.strip()]

    async def changes(self, picture: Picture, old: str, new: str) -> list[Change]:
        said = await self._ours(picture, "diff-tree", "-r", "-z", "--no-renames", "--name-status", old, new)
        words = said.split(b"\0")
        return [Change(kind.decode(), path) for kind, path in zip(words[:-1:2], words[1::2], strict=True)]

    @contextlib.asynccontextmanager
    async def picture(self, base: str | None, *, passing: bool = False) -> AsyncIterator[Picture]:
        """The tree as it stands. `passing` leaves nothing of it in the repository's objects.

        `base` is the commit to begin from when the desk has no index (any more): what was once in a checkpoint stays
        in, though it be ignored by now.
        """
        place = await self.place()
        scratch = await on_disk(open_desk, place, passing)
        try:
            environ = self._at_desk(place) | {"GIT_INDEX_FILE": str(scratch / "index")}
            if passing:
                environ["GIT_OBJECT_DIRECTORY"] = str(scratch / "objects")
            settings = await self._settings(place) + (_PASSING if passing else ())
            picture = Picture("", scratch, environ, settings)
            yield picture.replace(tree=await self._take(picture, base))
        finally:
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)

    async def keep(self, picture: Picture) -> None:
        """The next picture begins from this one's index: git reads again only what has changed."""
        place = await self.place()
        await on_disk(keep_index, picture.scratch / "index", place.desk / "index")

    async def put(self, picture: Picture, tree: str) -> None:
        """Makes the work tree, which is as pictured, into that one. A file changed since then is a UsageError."""
        await self._ours(picture, "read-tree", "-m", "-u", picture.tree, tree)

    async def clear(self) -> None:
        """Removes the desk."""
        place = await self.place()
        await on_disk(clear_desk, place.desk)

    async def _take(self, picture: Picture, base: str | None) -> str:
        place = await self.place()
        try:
            async with asyncio.timeout(WHOLE_S):
                for left in reversed(range(TRIES)):
                    # The last try does without the kept index, in case that is what is broken.
                    kept = await on_disk(lay_out, place.desk / "index" if left else None, picture.scratch / "index")
                    try:
                        if not kept and base is not None:
                            await self._ours(picture, "read-tree", base)
                        return await self._fill(picture, place)
                    except UsageError:
                        if not left:
                            raise
        except TimeoutError as error:
            raise UsageError(f"Reading {place.top} took longer than {WHOLE_S:.0f} s.", hint=INSTEAD) from error
        raise AssertionError("the last try returns or raises")

    async def _fill(self, picture: Picture, place: Place) -> str:
        """All that is there goes into the index, and the index becomes a tree.

        Path by path and not with `git add`, which gives up when a file that it has listed is gone a moment later.
        """
        await self._ours(picture, "update-index", "-q", "--refresh", fine=(0, 1))  # 1: some files differ
        known, others = await self._listed(picture, place)
        forced = await self._theirs("ls-files", "-z", "-i", "-c", "--exclude-standard")  # tracked although ignored
        there = await on_disk(reachable, os.fsencode(place.top), {*known, *forced.split(b"\0")})
        gone = known - set(there)
        for words, paths in ((("--force-remove",), gone), (("--add", "--remove", "--replace"), [*there, *others])):
            if paths:
                stdin = b"\0".join([*paths, b""])
                await self._ours(picture, "update-index", *words, "-z", "--stdin", stdin=stdin)
        return (await self._ours(picture, "write-tree")).decode().strip()

    async def _listed(self, picture: Picture, place: Place) -> tuple[set[bytes], list[bytes]]:
        """The paths in the index that have changed or are gone, and those that are not in it.

        Git would take a repository within the tree for a link to one of its commits, and its files would be in no
        checkpoint. An entry below it in the index makes git walk in as in any other folder. There is no such file, so
        the entry is listed as gone, and goes.
        """
        number = b"1" * (40 if place.hash_name == "sha1" else 64)  # of no object: nobody looks it up
        for _ in range(NESTED_MAX):
            said = await self._ours(picture, "ls-files", "-z", "-t", "-o", "-m", "-d", "--exclude-standard")
            lines = [line for line in said.split(b"\0") if line]
            others = [line[2:] for line in lines if line.startswith(b"?")]
            nested = [path for path in others if path.endswith(b"/")]
            if not nested:
                return {line[2:] for line in lines if not line.startswith(b"?")}, others
            entries = [b"100644 %s 0\t%s.clew-%s" % (number, path, uuid.uuid4().hex.encode()) for path in nested]
            await self._ours(picture, "update-index", "-z", "--index-info", stdin=b"\0".join([*entries, b""]))
        raise UsageError(f"{place.top} holds too many repositories within repositories.", hint=INSTEAD)

    async def _ours(self, picture: Picture, *args: str, stdin: bytes = b"", fine: tuple[int, ...] = (0,)) -> bytes:
        place = await self.place()
        done = await self._git.attempt(
            *picture.settings, *args, cwd=place.top, extra=picture.environ, stdin=stdin, limit_s=WHOLE_S
        )
        if done.status not in fine or _LEFT_OUT in done.err:
            raise failure(args, done)
        return done.out

    async def _theirs(self, *args: str) -> bytes:
        place = await self.place()
        return await self._git.call(*args, cwd=place.top, extra=_repository(place))

    async def _commit_of(self, name: str) -> str | None:
        place = await self.place()
        done = await self._git.attempt(
            "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=place.top, extra=_repository(place)
        )
        if done.status not in (0, 1):
            raise failure(("rev-parse",), done)
        return done.out.decode().strip() or None

    def _at_desk(self, place: Place) -> dict[str, str]:
        """Neither the user's settings nor the machine's: the home is the desk."""
        return {
            "HOME": str(place.desk),
            "XDG_CONFIG_HOME": str(place.desk),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_DIR": str(place.desk),
            "GIT_WORK_TREE": place.top,
            "GIT_OBJECT_DIRECTORY": str(Path(place.common_dir, "objects")),
        }

    async def _settings(self, place: Place) -> tuple[str, ...]:
        done = await self._git.attempt(
            "config", "-z", "--get-regexp", _TAKEN_OVER, cwd=place.top, extra=_repository(place)
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

    async def _find(self) -> Place:
        asked = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-object-format")
        inside = await self._git.attempt("rev-parse", "--is-inside-work-tree", cwd=self._work_dir, extra={})
        if inside.status != 0:
            own = "safe.directory" in inside.err
            raise UsageError(
                f"No checkpoints in {self._work_dir}: {last_words(inside.err)}.",
                hint=f"{'If you trust it, add it to safe.directory' if own else 'Run git init there'}. {INSTEAD}",
            )
        if inside.out.strip() != b"true":
            raise UsageError(
                f"No checkpoints in {self._work_dir}: the repository has no work tree there.",
                hint=f"Name a directory of a work tree with --cwd. {INSTEAD}",
            )
        said = [await self._git.call("rev-parse", word, cwd=self._work_dir, extra={}) for word in asked]
        top, git_dir, common_dir, hash_name = (os.fsdecode(line.removesuffix(b"\n")) for line in said)
        common_dir = os.path.realpath(Path(self._work_dir, common_dir))
        return Place(top, git_dir, common_dir, hash_name, Path(git_dir, "clew", "jobs", self._name))


def _repository(place: Place) -> dict[str, str]:
    return {"GIT_DIR": place.git_dir, "GIT_WORK_TREE": place.top}


def _entry(raw: bytes) -> Entry:
    """The id, the header with the tree first, an empty line, and the message, each line of it behind four blanks."""
    header, _, message = raw.decode("utf-8", "replace").partition("\n\n")
    commit, tree = header.split("\n")[:2]
    lines = [line.removeprefix("    ") for line in message.splitlines()]
    return Entry(commit, tree.removeprefix("tree "), "\n".join(lines))
