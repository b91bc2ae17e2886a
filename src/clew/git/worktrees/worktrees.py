"""A git work tree for every session key, made from the repository that the settings name, and kept between events.

The rules:

1. A key's tree is always at the same place, which depends only on the repository and the key. No two keys share one,
   and no two repositories do.
2. A tree is on a branch of its own, so its commits affect no other branch. A branch that is checked out elsewhere is
   not used.
3. It is brought up to date only when that loses nothing: it is clean, and either its branch moves forward, or it has
   no commits except those that Clew put there, and these were replaced at their origin (a forced push).
4. Closing loses nothing. Changed files, and commits that no branch, tag or remote has, are first kept under
   `refs/clew/archive/`; `git checkout` of that ref restores them. Ignored files are deleted. A tree in which a process
   works, or which contains other repositories, is not changed.
5. Only one process at a time works on a repository's trees, under a lock. The git that it runs holds the lock too: if
   that git outlives the process, no other process gets the lock before git ends. What a killed process left unfinished
   is made again.

Beside each tree is a record of what it was made from. Without the record, no branch counts as ours to delete.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from clew.core.hooks.hook import Update, split_key
from clew.core.record import Record
from clew.errors import UsageError
from clew.git.command import WHOLE_S, failure
from clew.git.snapshots import GitTree
from clew.git.worktrees.branch import TreeRequest, choose_branch, move_forward, starting_point, validated
from clew.git.worktrees.location import (
    TreeLocation,
    TreeRecord,
    empty_trash,
    location_of,
    move_aside,
    move_to_trash,
    plain_errors,
    points_to,
    repository_lock,
    tree_records,
    why_not_removable,
)
from clew.git.worktrees.source import FETCH_S, HALF_MADE, LinkedTree, SourceRepository
from clew.system.folders import make_private

ARCHIVE_TRIES = 100  # one key has fewer archives than this in one second


class WorkTree(Record):
    path: str
    branch: str | None  # the branch that the tree is on now
    made: bool  # this call made the tree
    notes: tuple[str, ...]  # what was not as expected, one line each


class CloseOutcome(StrEnum):
    REMOVED = "removed"  # it held nothing of its own
    ARCHIVED = "archived"  # what it held is kept under a ref, and it is removed
    LEFT = "left"  # it stays: a process works in it, or its content cannot be archived
    MISSING = "missing"


class ClosedTree(Record):
    outcome: CloseOutcome
    ref: str | None  # the archive's ref
    why: str  # one line, for people


class ListedTree(Record):
    repository: str
    key: str
    path: str
    branch: str  # the branch that the tree was made on
    there: bool


class WorkTrees:
    """All work trees of a folder. Safe to use from several processes at once."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        fetch_limit_s: float = FETCH_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._environ = environ
        self._fetch_limit_s = fetch_limit_s
        self._clock = clock

    async def open(
        self,
        repository: str,
        key: str,
        *,
        branch: str | None = None,
        start: str | None = None,
        remote: str = "origin",
        fetch: str | None = None,
        update: Update = Update.FORWARD,
    ) -> WorkTree:
        """The key's tree: made if there is none, else brought up to date as `update` says.

        `branch` is the one to work on, if it is not checked out elsewhere. `start` is what a new branch starts at: a
        branch of the remote, or any commit. `fetch` is a ref of the remote that is not a branch, such as
        refs/pull/7/head; a new tree then starts there.
        """
        async with self._at(repository, key) as (source, here):
            has_remote = await source.has_remote(remote)
            request = await validated(
                source, TreeRequest(branch, start, remote if has_remote else None, fetch, here.fetched)
            )
            notes: list[str] = []
            tree = await self._intact_tree(source, here, notes)
            if update is not Update.NONE or (tree is None and fetch is not None):
                notes += await self._fetched(source, request, remote)
            made = tree is None
            if tree is None:
                tree = await self._make(source, here, key, request, notes)
            record = await asyncio.to_thread(here.read)
            if record is None:  # the record was lost, and the branch may belong to somebody else
                record = TreeRecord(source.path, key, await source.branch(tree) or "", False, None)
                await asyncio.to_thread(here.write, record)
            if update is Update.FORWARD:
                moved = await move_forward(source, tree, request, record)
                notes += [moved.note] if moved.note else []
                if moved.placed != record.placed:
                    await asyncio.to_thread(here.write, record.replace(placed=moved.placed))
            return WorkTree(str(here.path), await source.branch(tree), made, tuple(notes))

    async def base(self, repository: str, *, start: str | None, remote: str) -> str | None:
        """The commit at which a new tree would start, without fetching; see `open`. None: the repository has none."""
        with plain_errors():
            source = await SourceRepository.find(repository, self._environ)
            has_remote = await source.has_remote(remote)
            found = await starting_point(source, TreeRequest(None, start, remote if has_remote else None, None, ""))
            return found[1] if found is not None else None

    async def path_of(self, repository: str, key: str) -> str:
        """Where the key's tree is, or will be."""
        return (await self.paths_of(repository, [key]))[key]

    async def paths_of(self, repository: str, keys: Iterable[str]) -> dict[str, str]:
        """Like `path_of`, for several keys of one repository."""
        with plain_errors():
            source = await SourceRepository.find(repository, self._environ)
            folder = await asyncio.to_thread(_real_folder, self._folder)
            return {key: os.path.realpath(location_of(folder, source.common_dir, key).path) for key in keys}

    async def close(self, repository: str, key: str) -> ClosedTree:
        """Removes the key's tree, after archiving what is nowhere else."""
        async with self._at(repository, key) as (source, here):
            record = await asyncio.to_thread(here.read)
            tree = source.tree(here.path)
            if not await asyncio.to_thread(os.path.lexists, here.path):
                if tree is not None:
                    await source.change_or_raise("worktree", "remove", "--force", str(here.path))
                return ClosedTree(
                    CloseOutcome.MISSING,
                    None,
                    f"{key} has no work tree.{await self._remove_rest(source, here, record)}",
                )
            if tree is None or not await asyncio.to_thread(points_to, here.path, tree.git_dir):
                return _left(f"{here.path} is no longer a work tree of {repository}")
            reason = await asyncio.to_thread(tree.lock)
            if reason is not None and reason != HALF_MADE:
                return _left(f"it is locked{f': {reason}' if reason else ''}")
            why = await asyncio.to_thread(why_not_removable, here.path, tree.git_dir)
            if why is not None:
                return _left(why)
            ref = await self._archived(source, here, tree, record) if reason is None else None
            gone = await asyncio.to_thread(move_to_trash, here.path)
            await source.change_or_raise("worktree", "remove", "--force", "--force", str(here.path))
            note = await self._remove_rest(source, here, record)
            await asyncio.to_thread(empty_trash, here.folder)
            if await asyncio.to_thread(gone.exists):
                note += f" Not all of it could be deleted: {gone}."
            if ref is None:
                return ClosedTree(CloseOutcome.REMOVED, None, f"The work tree is removed.{note}")
            return ClosedTree(
                CloseOutcome.ARCHIVED, ref, f"The work tree is removed, and what it held is kept as {ref}.{note}"
            )

    async def list(self) -> tuple[ListedTree, ...]:
        """Every tree that was made and not closed."""
        found = await asyncio.to_thread(tree_records, self._folder)
        return tuple(
            ListedTree(record.repository, record.key, str(path), record.branch, there) for record, path, there in found
        )

    @contextlib.asynccontextmanager
    async def _at(self, repository: str, key: str) -> AsyncIterator[tuple[SourceRepository, TreeLocation]]:
        try:
            split_key(key)
        except ValueError as error:
            raise UsageError(str(error)) from error
        with plain_errors():
            source = await SourceRepository.find(repository, self._environ)
            folder = await asyncio.to_thread(_real_folder, self._folder)
            async with repository_lock(folder, source.common_dir) as lock:
                source.held = (lock,)
                yield source, location_of(folder, source.common_dir, key)

    async def _intact_tree(
        self, source: SourceRepository, here: TreeLocation, notes: builtins.list[str]
    ) -> LinkedTree | None:
        """The tree, if it is as we made it. Anything else at its place is moved aside; a half-made tree is deleted."""
        tree = source.tree(here.path)
        there = await asyncio.to_thread(os.path.lexists, here.path)
        half_made = tree is not None and await asyncio.to_thread(tree.lock) == HALF_MADE
        intact = tree is not None and there and await asyncio.to_thread(points_to, here.path, tree.git_dir)
        if intact and not half_made:
            return tree
        if there and half_made:
            await asyncio.to_thread(move_to_trash, here.path)
            await asyncio.to_thread(empty_trash, here.folder)
        elif there:
            aside = await asyncio.to_thread(move_aside, here.path)
            notes.append(f"What was at the place of the work tree is now in {aside}.")
        elif tree is not None:
            notes.append("The work tree was missing, and was made again.")
        if tree is not None:
            force = ("--force", "--force") if half_made else ("--force",)
            await source.change_or_raise("worktree", "remove", *force, str(here.path))
        return None

    async def _fetched(self, source: SourceRepository, request: TreeRequest, remote: str) -> builtins.list[str]:
        if request.remote is not None:
            why = await source.fetch(request.remote, request.fetch, request.fetched, self._fetch_limit_s)
            return [] if why is None else [f"Not up to date: {why}"]
        return [f"Not up to date: there is no remote {remote}."] if request.fetch is not None else []

    async def _make(
        self, source: SourceRepository, here: TreeLocation, key: str, request: TreeRequest, notes: builtins.list[str]
    ) -> LinkedTree:
        agent, _, number = split_key(key)
        chosen = await choose_branch(
            source, request, await asyncio.to_thread(here.read), f"clew/{agent}-{number}", notes
        )
        if chosen.start is None and not chosen.exists:
            why = next((note for note in notes if note.startswith("Not up to date")), "it has no such commit.")
            wanted = request.start or request.fetch or "HEAD"
            raise UsageError(f"No work tree of {source.path} can be made at {wanted}: {why}")
        await asyncio.to_thread(here.write, TreeRecord(source.path, key, chosen.branch, chosen.own, chosen.placed))
        args = ["worktree", "add", "--quiet"]
        if chosen.exists:
            args += [str(here.path), chosen.branch]
        else:
            track = "--no-track" if chosen.track is None else "--track"
            args += [track, "-b", chosen.branch, str(here.path), chosen.track or chosen.start or ""]
        await source.change_or_raise(*args)
        tree = source.tree(here.path)
        if tree is None:
            raise UsageError(f"git made no work tree at {here.path}.")
        return tree

    async def _archived(
        self, source: SourceRepository, here: TreeLocation, tree: LinkedTree, record: TreeRecord | None
    ) -> str | None:
        """The ref that keeps what is nowhere else; None when there is nothing to keep."""
        head = await source.head(tree)
        args = ("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
        status = await source.ask(*args, tree=tree, limit_s=WHOLE_S)
        if status.status != 0:
            raise failure(args, status, "")
        own = record.branch if record is not None and record.own else None
        placed = record.placed if record is not None else None
        commit = head
        if status.out:
            commit = await self._snapshot(here, tree, head)
        elif head is None or not await source.would_lose_commits(head, branch=own, known=placed):
            return None
        assert commit is not None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock()))
        for number in range(1, ARCHIVE_TRIES):
            ref = f"refs/clew/archive/{here.name}-{stamp}" + (f"-{number}" if number > 1 else "")
            done = await source.change("update-ref", ref, commit, "")  # only if the ref does not exist
            if done.status == 0:
                return ref
            if await source.commit(ref) is None:
                break
        raise failure(("update-ref",), done, "")

    async def _snapshot(self, here: TreeLocation, tree: LinkedTree, head: str | None) -> str:
        """A commit of every file as it is now, on top of the tree's own commits."""
        snapshots = GitTree(str(here.path), "archive", self._environ)
        if (await snapshots.layout()).git_dir != str(tree.git_dir):
            raise UsageError(f"{here.path} belongs to another repository now.")
        async with snapshots.snapshot(head) as snapshot:
            message = f"Work tree {here.name}, as it was when it was closed\n"
            return await snapshots.commit(snapshot.tree, head, message, self._clock())

    async def _remove_rest(self, source: SourceRepository, here: TreeLocation, record: TreeRecord | None) -> str:
        """Removes the branch, refs and record of a tree that is gone. Returns a note when the branch stays."""
        note = ""
        if record is not None and record.own:
            tip = await source.commit(f"refs/heads/{record.branch}")
            if tip is not None:
                stays = await source.would_lose_commits(tip, branch=record.branch, known=record.placed)
                if stays or (await source.change("branch", "-D", "--quiet", record.branch)).status != 0:
                    note = f" Its branch {record.branch} stays."
        await source.change("update-ref", "-d", here.fetched)
        await asyncio.to_thread(here.forget)
        return note


def _left(why: str) -> ClosedTree:
    return ClosedTree(CloseOutcome.LEFT, None, f"The work tree is left: {why}.")


def _real_folder(folder: Path) -> Path:
    make_private(folder)
    return folder.resolve()  # git records real paths
