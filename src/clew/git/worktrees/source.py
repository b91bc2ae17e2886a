"""The repository that work trees are made from: what it is asked, what is fetched for it, what is changed in it.

A tree is reached by way of the repository, never by the `.git` in its folder: an agent works there and may have put
anything in its place. Nor does anything run there that settings of the repository name, with one exception: how to
reach the remote (its address, ssh, who keeps the passwords) is for them to say. Nobody is ever asked for a password.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from clew.core.record import Record
from clew.engine.git import QUICK_S, WHOLE_S, Done, Git, failure, last_words
from clew.errors import UsageError

FETCH_S = 180.0
SAID_MOST = 300  # characters of what a failed fetch says
HALF_MADE = "initializing"  # git's word in the lock of a tree that it has not yet made

_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_SETTINGS = tuple(
    word
    for setting in (
        "submodule.recurse=false",
        "gc.auto=0",
        "maintenance.auto=false",
        "core.alternateRefsCommand=true",
        "advice.detachedHead=false",
    )
    for word in ("-c", setting)
)
_UPLOAD = "--upload-pack=git-upload-pack"  # a setting could name another program
_OUTSIDE = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
# How the user reaches remotes may also stand in the environment.
_THEIRS = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO")


class Tree(Record):
    """A work tree that git knows of."""

    place: Path
    git_dir: Path  # its own, within the repository's

    @property
    def environ(self) -> dict[str, str]:
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.place)}

    def lock(self) -> str | None:
        """Why git is to leave it alone, if it is; it may be left unsaid."""
        try:
            return (self.git_dir / "locked").read_text(errors="replace").strip()
        except OSError:
            return None


class Source:
    """One repository of this machine, with a work tree of its own or without."""

    def __init__(self, git: Git, path: str, common_dir: str, environ: Mapping[str, str]) -> None:
        self._git, self.path, self.common_dir = git, path, common_dir
        self._outside = {name: environ[name] for name in _THEIRS if name in environ} | _OUTSIDE
        self.held: tuple[int, ...] = ()  # the lock, while it is ours
        self._answers = False  # the remote has been reached
        self._guards: dict[str, Mapping[str, str]] = {}

    @classmethod
    async def find(cls, repository: str, environ: Mapping[str, str]) -> Source:
        """UsageError for what is not the top of a repository."""
        git = Git(environ, needed_for="Work trees need", instead="")
        path = os.path.realpath(repository)
        if "\0" in repository or not Path(path).is_dir():
            raise UsageError(f"The repository {repository} is not there.", hint="Say where it is now.")
        inside = await git.attempt("rev-parse", "--is-inside-work-tree", cwd=path, extra={})
        if inside.status != 0:
            if "safe.directory" in inside.err:
                raise UsageError(
                    f"The repository {repository} belongs to somebody else.",
                    hint="If you trust it, add it to git's safe.directory.",
                )
            known = "not a git repository" in inside.err
            raise UsageError(f"{repository} is no git repository{'' if known else f': {last_words(inside.err)}'}.")
        asked = ("--show-prefix", "--absolute-git-dir", "--git-common-dir")
        said = [await git.call("rev-parse", word, cwd=path, extra={}) for word in asked]
        prefix, git_dir, common_dir = (os.fsdecode(line.removesuffix(b"\n")) for line in said)
        if os.path.realpath(git_dir) != path and (prefix or inside.out.strip() != b"true"):
            raise UsageError(f"{repository} is no git repository: it lies within one.", hint="Name its top.")
        return cls(git, path, os.path.realpath(Path(path, common_dir)), environ)

    def tree(self, place: Path) -> Tree | None:
        """The tree that the repository has at that place, whether or not anything is there."""
        for pointer in Path(self.common_dir, "worktrees").glob("*/gitdir"):
            with contextlib.suppress(OSError):
                there = os.fsdecode(pointer.read_bytes().removesuffix(b"\n"))
                if os.path.normpath(pointer.parent / there) == str(place / ".git"):
                    return Tree(place, pointer.parent)
        return None

    async def has_remote(self, remote: str) -> bool:
        if not _REMOTE.match(remote):
            raise UsageError(f"{remote!r} cannot name a remote.")
        return remote.encode() in (await self._call("remote")).splitlines()

    async def fetch(self, remote: str, wanted: str | None, into: str, limit_s: float) -> str | None:
        """All branches of the remote, and `wanted` as the ref `into`. Why it could not be done, if it could not.

        The refs to write are named, so that settings (of a mirror, say) cannot have it write to branches.
        """
        words = ["fetch", "--quiet", "--refmap=", "--no-recurse-submodules", "--no-write-fetch-head", _UPLOAD, remote]
        words += [f"+refs/heads/*:refs/remotes/{remote}/*"] + ([f"+{wanted}:{into}"] if wanted is not None else [])
        try:
            done = await self._git.attempt(*_SETTINGS, *words, cwd=self.path, extra=self._outside, limit_s=limit_s)
        except UsageError as error:
            return error.message
        self._answers = done.status == 0
        return None if self._answers else f"git fetch failed: {last_words(done.err)[:SAID_MOST]}"

    async def default(self, remote: str | None) -> str:
        """The branch that the remote (None: the repository) has as its own."""
        if remote is None:
            return "HEAD"
        name = f"refs/remotes/{remote}/HEAD"
        if self._answers and await self.commit(name) is None:
            with contextlib.suppress(UsageError):
                await self._learn(remote, name)
        if await self.commit(name) is None:
            return "HEAD"
        done = await self.ask("symbolic-ref", "--quiet", name)
        return os.fsdecode(done.out.strip()) or name

    async def _learn(self, remote: str, name: str) -> None:
        """Notes which branch it is, as newer gits do when they fetch."""
        words = ("ls-remote", "--quiet", "--symref", _UPLOAD, remote, "HEAD")
        done = await self._git.attempt(*_SETTINGS, *words, cwd=self.path, extra=self._outside)
        found = re.match(r"ref: refs/heads/(\S+)\tHEAD\n", os.fsdecode(done.out))
        if found is not None:
            await self.change("symbolic-ref", name, f"refs/remotes/{remote}/{found[1]}")

    async def commit(self, name: str) -> str | None:
        if name.startswith("-") or "\0" in name:
            return None
        done = await self.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return done.out.decode().strip() or None if done.status == 0 else None

    async def is_ref(self, name: str) -> bool:
        """Whether a ref may have that name."""
        return "\0" not in name and (await self.ask("check-ref-format", name)).status == 0

    async def checked_out_at(self, branch: str) -> str | None:
        """The work tree that has the branch, if one has."""
        listed = await self._call("for-each-ref", "--format=%(refname) %(worktreepath)", f"refs/heads/{branch}")
        for line in listed.splitlines():
            name, _, path = os.fsdecode(line).partition(" ")
            if name == f"refs/heads/{branch}":
                return path or None
        return None

    async def branch(self, tree: Tree) -> str | None:
        """The one that the tree is on. None: it is on none."""
        done = await self.ask("symbolic-ref", "--quiet", "HEAD", tree=tree)
        name = os.fsdecode(done.out.strip())
        return name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None

    async def head(self, tree: Tree) -> str | None:
        done = await self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}", tree=tree)
        return done.out.decode().strip() or None if done.status == 0 else None

    async def upstream(self, branch: str) -> str | None:
        listed = await self._call("for-each-ref", "--format=%(refname) %(upstream)", f"refs/heads/{branch}")
        for line in listed.splitlines():
            name, _, found = os.fsdecode(line).partition(" ")
            if name == f"refs/heads/{branch}":
                return found or None
        return None

    async def contains(self, old: str, new: str) -> bool:
        return (await self.ask("merge-base", "--is-ancestor", old, new)).status == 0

    async def count(self, commit: str, beside: str) -> int:
        """How many commits the one has that the other lacks."""
        return int(await self._call("rev-list", "--count", commit, f"^{beside}"))

    async def only_here(self, commit: str, *, but: str | None, known: str | None) -> bool:
        """Whether some of its commits would be lost with the branch `but`. What `known` holds came from elsewhere."""
        known = await self.commit(known) if known else None  # git may have tidied it up
        words = ["rev-list", "--max-count=1", commit, "--not", *([known] if known else [])]
        words += [f"--exclude=refs/heads/{but}"] if but is not None else []
        words += ["--glob=refs/heads/*", "--remotes", "--tags", "--glob=refs/clew/archive/*"]
        return bool(await self._call(*words))

    async def ask(self, *words: str, tree: Tree | None = None, limit_s: float = QUICK_S) -> Done:
        """A question, to the repository or to one of its trees."""
        cwd, extra = (self.path, {}) if tree is None else (str(tree.place), await self._safely(tree))
        return await self._git.attempt(*_SETTINGS, *words, cwd=cwd, extra=extra, limit_s=limit_s)

    async def change(self, *words: str, tree: Tree | None = None) -> Done:
        """Something that must not be cut off, neither by a cancel nor by our own death."""
        cwd, extra = self.path if tree is None else str(tree.place), await self._safely(tree)
        return await self._git.finish(*_SETTINGS, *words, cwd=cwd, extra=extra, limit_s=WHOLE_S, held=self.held)

    async def _safely(self, tree: Tree | None) -> dict[str, str]:
        """For what reads or writes files: without the commands that settings of the repository name."""
        extra = {} if tree is None else tree.environ
        whose = extra.get("GIT_DIR", "")
        if whose not in self._guards:
            self._guards[whose] = await self._git.guarded(self.path, extra)
        return {**extra, **self._guards[whose]}

    async def must(self, *words: str, tree: Tree | None = None) -> None:
        done = await self.change(*words, tree=tree)
        if done.status != 0:
            raise failure(words, done, "")

    async def _call(self, *words: str) -> bytes:
        done = await self.ask(*words)
        if done.status != 0:
            raise failure(words, done, "")
        return done.out
