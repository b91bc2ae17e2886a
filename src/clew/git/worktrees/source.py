"""The repository that work trees are made from: queries, fetches and changes.

A tree is reached through the repository, never through the `.git` file in its folder: an agent works there and may have
replaced that file. No command that the repository's settings name is run, with one exception: how to reach the remote
(its address, ssh, the credential helper) is taken from them. Nobody is ever asked for a password.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from clew.core.record import Record
from clew.errors import UsageError
from clew.git.command import QUICK_S, WHOLE_S, Done, Git, error_text, failure

FETCH_S = 180.0
FETCH_ERROR_MAX_CHARS = 300
HALF_MADE = "initializing"  # what git writes into a tree's lock while git makes the tree

_REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_SETTINGS = (
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.alternateRefsCommand=true",
    "advice.detachedHead=false",
)
_UPLOAD = "--upload-pack=git-upload-pack"  # a setting could name another program
_REMOTE_ENVIRON = {
    "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
}
# How the user reaches remotes may also be set in the environment.
_REMOTE_VARIABLES = (
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_PROXY_SSL_CAINFO",
)


class LinkedTree(Record):
    """A linked work tree, as git knows it."""

    path: Path
    git_dir: Path  # the tree's own, within the repository's git directory

    @property
    def environ(self) -> dict[str, str]:
        return {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.path)}

    def lock(self) -> str | None:
        """Why git must not touch the tree; the text may be empty. None: the tree is not locked."""
        try:
            return (self.git_dir / "locked").read_text(errors="replace").strip()
        except OSError:
            return None


class SourceRepository:
    """A repository on this machine, bare or not."""

    def __init__(self, git: Git, path: str, common_dir: str, environ: Mapping[str, str]) -> None:
        self._git, self.path, self.common_dir = git, path, common_dir
        self._outside = {name: environ[name] for name in _REMOTE_VARIABLES if name in environ} | _REMOTE_ENVIRON
        self.held: tuple[int, ...] = ()  # the open lock file, while this process holds the lock
        self._reached = False  # a fetch from the remote has succeeded
        self._guard_cache: dict[str, Mapping[str, str]] = {}

    @classmethod
    async def find(cls, repository: str, environ: Mapping[str, str]) -> SourceRepository:
        """Raises UsageError for a folder that is not the top of a repository."""
        git = Git(environ, needed_for="Work trees need", instead="", settings=_SETTINGS)
        path = os.path.realpath(repository)
        if "\0" in repository or not Path(path).is_dir():
            raise UsageError(f"The repository {repository} is not there.", hint="Set its path.")
        inside = await git.attempt("rev-parse", "--is-inside-work-tree", cwd=path, extra={})
        if inside.status != 0:
            if "safe.directory" in inside.err:
                raise UsageError(
                    f"The repository {repository} belongs to another user.",
                    hint="If you trust it, add it to git's safe.directory.",
                )
            known = "not a git repository" in inside.err
            raise UsageError(f"{repository} is not a git repository{'' if known else f': {error_text(inside.err)}'}.")
        asked = ("--show-prefix", "--absolute-git-dir", "--git-common-dir")
        output = [await git.call("rev-parse", word, cwd=path, extra={}) for word in asked]
        prefix, git_dir, common_dir = (os.fsdecode(line.removesuffix(b"\n")) for line in output)
        if os.path.realpath(git_dir) != path and (prefix or inside.out.strip() != b"true"):
            raise UsageError(
                f"{repository} is not a git repository, but a folder in one.", hint="Name the top of the repository."
            )
        return cls(git, path, os.path.realpath(Path(path, common_dir)), environ)

    def tree(self, path: Path) -> LinkedTree | None:
        """The tree that git has a record of at that place, whether or not the folder exists."""
        for pointer in Path(self.common_dir, "worktrees").glob("*/gitdir"):
            with contextlib.suppress(OSError):
                there = os.fsdecode(pointer.read_bytes().removesuffix(b"\n"))
                if os.path.normpath(pointer.parent / there) == str(path / ".git"):
                    return LinkedTree(path, pointer.parent)
        return None

    async def has_remote(self, remote: str) -> bool:
        if not _REMOTE.match(remote):
            raise UsageError(f"{remote!r} cannot name a remote.")
        return remote.encode() in (await self._call("remote")).splitlines()

    async def fetch(self, remote: str, wanted: str | None, into: str, limit_s: float) -> str | None:
        """Fetches all branches of the remote, and `wanted` as the ref `into`. Returns why it failed, or None.

        The refs to write are named, so that the repository's settings (of a mirror, say) cannot make it overwrite
        branches.
        """
        args = ["fetch", "--quiet", "--refmap=", "--no-recurse-submodules", "--no-write-fetch-head", _UPLOAD, remote]
        args += [f"+refs/heads/*:refs/remotes/{remote}/*"] + ([f"+{wanted}:{into}"] if wanted is not None else [])
        try:
            done = await self._git.attempt(*args, cwd=self.path, extra=self._outside, limit_s=limit_s)
        except UsageError as error:
            return error.message
        self._reached = done.status == 0
        return None if self._reached else f"git fetch failed: {error_text(done.err)[:FETCH_ERROR_MAX_CHARS]}"

    async def default(self, remote: str | None) -> str:
        """The remote's default branch; HEAD if there is no remote or its default branch is not known."""
        if remote is None:
            return "HEAD"
        name = f"refs/remotes/{remote}/HEAD"
        if self._reached and await self.commit(name) is None:
            with contextlib.suppress(UsageError):
                await self._record_default(remote, name)
        if await self.commit(name) is None:
            return "HEAD"
        done = await self.ask("symbolic-ref", "--quiet", name)
        return os.fsdecode(done.out.strip()) or name

    async def _record_default(self, remote: str, name: str) -> None:
        """Records the remote's default branch, as newer versions of git do when they fetch."""
        args = ("ls-remote", "--quiet", "--symref", _UPLOAD, remote, "HEAD")
        done = await self._git.attempt(*args, cwd=self.path, extra=self._outside)
        found = re.match(r"ref: refs/heads/(\S+)\tHEAD\n", os.fsdecode(done.out))
        if found is not None:
            await self.change("symbolic-ref", name, f"refs/remotes/{remote}/{found[1]}")

    async def commit(self, name: str, tree: LinkedTree | None = None) -> str | None:
        if name.startswith("-") or "\0" in name:
            return None
        done = await self.ask("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", tree=tree)
        return done.out.decode().strip() or None if done.status == 0 else None

    async def is_ref(self, name: str) -> bool:
        """Whether a ref may have that name."""
        return "\0" not in name and (await self.ask("check-ref-format", name)).status == 0

    async def checked_out_at(self, branch: str) -> str | None:
        """The work tree in which the branch is checked out."""
        return await self._field(branch, "worktreepath")

    async def branch(self, tree: LinkedTree) -> str | None:
        """The branch that is checked out in the tree. None: its HEAD is detached."""
        done = await self.ask("symbolic-ref", "--quiet", "HEAD", tree=tree)
        name = os.fsdecode(done.out.strip())
        return name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None

    async def head(self, tree: LinkedTree) -> str | None:
        return await self.commit("HEAD", tree)

    async def upstream(self, branch: str) -> str | None:
        return await self._field(branch, "upstream")

    async def _field(self, branch: str, field: str) -> str | None:
        """A field of `git for-each-ref`; None: it is empty, or there is no such branch."""
        listed = await self._call("for-each-ref", f"--format=%(refname) %({field})", f"refs/heads/{branch}")
        for line in listed.splitlines():  # branches below a folder of that name are listed too
            name, _, found = os.fsdecode(line).partition(" ")
            if name == f"refs/heads/{branch}":
                return found or None
        return None

    async def contains(self, old: str, new: str) -> bool:
        return (await self.ask("merge-base", "--is-ancestor", old, new)).status == 0

    async def count(self, commit: str, beside: str) -> int:
        """How many commits `commit` has that `beside` lacks."""
        return int(await self._call("rev-list", "--count", commit, f"^{beside}"))

    async def would_lose_commits(self, commit: str, *, branch: str | None, known: str | None) -> bool:
        """Whether deleting the branch would lose ancestors of `commit`. Those of `known` exist elsewhere."""
        known = await self.commit(known) if known else None  # git may have garbage-collected it
        args = ["rev-list", "--max-count=1", commit, "--not", *([known] if known else [])]
        args += [f"--exclude=refs/heads/{branch}"] if branch is not None else []
        args += ["--glob=refs/heads/*", "--remotes", "--tags", "--glob=refs/clew/archive/*"]
        return bool(await self._call(*args))

    async def ask(self, *args: str, tree: LinkedTree | None = None, limit_s: float = QUICK_S) -> Done:
        """A query, of the repository or of one of its trees."""
        cwd, extra = (self.path, {}) if tree is None else (str(tree.path), await self._guarded_environ(tree))
        return await self._git.attempt(*args, cwd=cwd, extra=extra, limit_s=limit_s)

    async def change(self, *args: str, tree: LinkedTree | None = None) -> Done:
        """A change, which must not be cut short by a cancellation or by the death of this process."""
        cwd, extra = self.path if tree is None else str(tree.path), await self._guarded_environ(tree)
        return await self._git.finish(*args, cwd=cwd, extra=extra, limit_s=WHOLE_S, held=self.held)

    async def _guarded_environ(self, tree: LinkedTree | None) -> dict[str, str]:
        """For calls that read or write files: no command runs that the repository's settings name."""
        extra = {} if tree is None else tree.environ
        whose = extra.get("GIT_DIR", "")
        if whose not in self._guard_cache:
            self._guard_cache[whose] = await self._git.guarded(self.path, extra)
        return {**extra, **self._guard_cache[whose]}

    async def change_or_raise(self, *args: str, tree: LinkedTree | None = None) -> None:
        done = await self.change(*args, tree=tree)
        if done.status != 0:
            raise failure(args, done, "")

    async def _call(self, *args: str) -> bytes:
        return await self._git.call(*args, cwd=self.path, extra={})
