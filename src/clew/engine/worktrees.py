"""A git work tree for every key, made from the repository that the settings name, and kept from event to event.

The rules:

1. A key's tree is always at the same place, which follows from the repository and the key, and from nothing else. Two
   keys never share one, nor do two repositories.
2. A tree is on a branch of its own, so its commits are in nobody's way. A branch that somebody else has checked out
   is left to them.
3. It is brought up to date only when that loses nothing: it is clean, and either its branch only moves on, or there is
   nothing on it but what we put there, and that was replaced where it came from (a forced push).
4. Nothing is lost by closing. Changed files, and commits that no branch, tag or remote has, are first kept under
   `refs/clew/archive/`; `git checkout` of that brings them back. Files that git ignores go. A tree in which somebody
   is at work, or which holds repositories of its own, is left as it is.
5. One process at a time works on a repository's trees, by a lock that its git holds too: it is never taken from a git
   that outlives us. What a killed one left half made is made again.

Beside each tree stands a record of what we made it of. Without it, no branch is taken to be ours to delete.
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

from clew.core.hook import Update, split_key
from clew.core.record import Record
from clew.engine.git import WHOLE_S, failure
from clew.engine.git_tree import GitTree
from clew.engine.tree_branch import Wish, checked, forward, plan
from clew.engine.tree_place import (
    Kept,
    Spot,
    alone,
    leads_to,
    obstacle,
    plainly,
    records,
    set_aside,
    spot,
    sweep,
    throw_away,
)
from clew.engine.tree_source import FETCH_S, HALF_MADE, Source, Tree
from clew.errors import UsageError
from clew.private_folder import make_private

TRIES = 100  # archives of one key in one second


class WorkTree(Record):
    path: str
    branch: str | None  # the one that it is on now
    made: bool  # just now
    notes: tuple[str, ...]  # what was not as it should be, for people


class Outcome(StrEnum):
    REMOVED = "removed"  # nothing in it was its own
    ARCHIVED = "archived"  # what was its own is kept, and it is gone
    LEFT = "left"  # it stays: somebody is in it, or it cannot be kept otherwise
    MISSING = "missing"


class Closed(Record):
    outcome: Outcome
    ref: str | None  # of the archive
    why: str  # one line for people


class Listed(Record):
    repository: str
    key: str
    path: str
    branch: str  # the one that it was made on
    there: bool


class WorkTrees:
    """All work trees of a folder. Any number of these, in any number of processes, may be at work on it."""

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
        """The key's tree: made when there is none, else brought up to date as `update` says.

        `branch` is the one to work on, if it is free. `start` is what a new branch begins at: a branch of the remote,
        or any commit. `fetch` is a ref of the remote's beyond its branches, such as refs/pull/7/head; a tree that has
        one begins there.
        """
        async with self._at(repository, key) as (source, here):
            has_remote = await source.has_remote(remote)
            wish = await checked(source, Wish(branch, start, remote if has_remote else None, fetch, here.fetched))
            notes: list[str] = []
            tree = await self._standing(source, here, notes)
            if update is not Update.NONE or (tree is None and fetch is not None):
                notes += await self._fetched(source, wish, remote)
            made = tree is None
            if tree is None:
                tree = await self._make(source, here, key, wish, notes)
            kept = await asyncio.to_thread(here.read)
            if kept is None:  # the record was lost; the branch may be anybody's
                kept = Kept(source.path, key, await source.branch(tree) or "", False, None)
                await asyncio.to_thread(here.write, kept)
            if update is Update.FORWARD:
                moved = await forward(source, tree, wish, kept)
                notes += [moved.note] if moved.note else []
                if moved.placed != kept.placed:
                    await asyncio.to_thread(here.write, kept.replace(placed=moved.placed))
            return WorkTree(str(here.place), await source.branch(tree), made, tuple(notes))

    async def place(self, repository: str, key: str) -> str:
        """Where the key's tree is, or will be."""
        return (await self.places(repository, [key]))[key]

    async def places(self, repository: str, keys: Iterable[str]) -> dict[str, str]:
        """The same of many keys of one repository."""
        with plainly():
            source = await Source.find(repository, self._environ)
            folder = await asyncio.to_thread(_ready, self._folder)
            return {key: os.path.realpath(spot(folder, source.common_dir, key).place) for key in keys}

    async def close(self, repository: str, key: str) -> Closed:
        """Removes the key's tree, after keeping what nobody else has."""
        async with self._at(repository, key) as (source, here):
            kept = await asyncio.to_thread(here.read)
            tree = source.tree(here.place)
            if not await asyncio.to_thread(os.path.lexists, here.place):
                if tree is not None:
                    await source.must("worktree", "remove", "--force", str(here.place))
                return Closed(Outcome.MISSING, None, f"{key} has no work tree.{await self._tidy(source, here, kept)}")
            if tree is None or not await asyncio.to_thread(leads_to, here.place, tree.git_dir):
                return _left(f"{here.place} is no work tree of {repository} any more")
            reason = await asyncio.to_thread(tree.lock)
            if reason is not None and reason != HALF_MADE:
                return _left(f"it is locked{f': {reason}' if reason else ''}")
            why = await asyncio.to_thread(obstacle, here.place, tree.git_dir)
            if why is not None:
                return _left(why)
            ref = await self._archived(source, here, tree, kept) if reason is None else None
            gone = await asyncio.to_thread(throw_away, here.place)
            await source.must("worktree", "remove", "--force", "--force", str(here.place))
            told = await self._tidy(source, here, kept)
            await asyncio.to_thread(sweep, here.folder)
            if await asyncio.to_thread(gone.exists):
                told += f" Not all of it could be deleted: {gone}."
            if ref is None:
                return Closed(Outcome.REMOVED, None, f"The work tree is removed.{told}")
            return Closed(Outcome.ARCHIVED, ref, f"The work tree is removed, and what it held is kept as {ref}.{told}")

    async def list(self) -> tuple[Listed, ...]:
        """Every tree that was made and not closed."""
        found = await asyncio.to_thread(records, self._folder)
        return tuple(Listed(kept.repository, kept.key, str(place), kept.branch, there) for kept, place, there in found)

    @contextlib.asynccontextmanager
    async def _at(self, repository: str, key: str) -> AsyncIterator[tuple[Source, Spot]]:
        try:
            split_key(key)
        except ValueError as error:
            raise UsageError(str(error)) from error
        with plainly():
            source = await Source.find(repository, self._environ)
            folder = await asyncio.to_thread(_ready, self._folder)
            async with alone(folder, source.common_dir) as lock:
                source.held = (lock,)
                yield source, spot(folder, source.common_dir, key)

    async def _standing(self, source: Source, here: Spot, notes: builtins.list[str]) -> Tree | None:
        """The tree, if it stands as we made it. What is left of any other is cleared away, and nothing of it lost."""
        tree = source.tree(here.place)
        there = await asyncio.to_thread(os.path.lexists, here.place)
        half_made = tree is not None and await asyncio.to_thread(tree.lock) == HALF_MADE
        stands = tree is not None and there and await asyncio.to_thread(leads_to, here.place, tree.git_dir)
        if stands and not half_made:
            return tree
        if there and half_made:
            await asyncio.to_thread(throw_away, here.place)
            await asyncio.to_thread(sweep, here.folder)
        elif there:
            aside = await asyncio.to_thread(set_aside, here.place)
            notes.append(f"What was in the place of the work tree is now in {aside}.")
        elif tree is not None:
            notes.append("The work tree was gone, and was made again.")
        if tree is not None:
            force = ("--force", "--force") if half_made else ("--force",)
            await source.must("worktree", "remove", *force, str(here.place))
        return None

    async def _fetched(self, source: Source, wish: Wish, remote: str) -> builtins.list[str]:
        if wish.remote is not None:
            why = await source.fetch(wish.remote, wish.fetch, wish.fetched, self._fetch_limit_s)
            return [] if why is None else [f"Not up to date: {why}"]
        return [f"Not up to date: there is no remote {remote}."] if wish.fetch is not None else []

    async def _make(self, source: Source, here: Spot, key: str, wish: Wish, notes: builtins.list[str]) -> Tree:
        agent, _, number = split_key(key)
        chosen = await plan(source, wish, await asyncio.to_thread(here.read), f"clew/{agent}-{number}", notes)
        if chosen.start is None and not chosen.exists:
            said = next((note for note in notes if note.startswith("Not up to date")), "it has no such commit.")
            wanted = wish.start or wish.fetch or "HEAD"
            raise UsageError(f"No work tree of {source.path} can be made at {wanted}: {said}")
        await asyncio.to_thread(here.write, Kept(source.path, key, chosen.branch, chosen.own, chosen.placed))
        words = ["worktree", "add", "--quiet"]
        if chosen.exists:
            words += [str(here.place), chosen.branch]
        else:
            track = "--no-track" if chosen.track is None else "--track"
            words += [track, "-b", chosen.branch, str(here.place), chosen.track or chosen.start or ""]
        await source.must(*words)
        tree = source.tree(here.place)
        if tree is None:
            raise UsageError(f"git made no work tree at {here.place}.")
        return tree

    async def _archived(self, source: Source, here: Spot, tree: Tree, kept: Kept | None) -> str | None:
        """The ref that keeps what nobody else has; None when there is nothing such."""
        head = await source.head(tree)
        words = ("status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
        status = await source.ask(*words, tree=tree, limit_s=WHOLE_S)
        if status.status != 0:
            raise failure(words, status, "")
        own = kept.branch if kept is not None and kept.own else None
        placed = kept.placed if kept is not None else None
        commit = head
        if status.out:
            commit = await self._picture(here, tree, head)
        elif head is None or not await source.only_here(head, but=own, known=placed):
            return None
        assert commit is not None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock()))
        for number in range(1, TRIES):
            ref = f"refs/clew/archive/{here.name}-{stamp}" + (f"-{number}" if number > 1 else "")
            done = await source.change("update-ref", ref, commit, "")  # only if there is none
            if done.status == 0:
                return ref
            if await source.commit(ref) is None:
                break
        raise failure(("update-ref",), done, "")

    async def _picture(self, here: Spot, tree: Tree, head: str | None) -> str:
        """A commit of every file as it stands, on top of the tree's own commits."""
        pictures = GitTree(str(here.place), "archive", self._environ)
        if (await pictures.place()).git_dir != str(tree.git_dir):
            raise UsageError(f"{here.place} has another repository now.")
        async with pictures.picture(head) as picture:
            message = f"Work tree {here.name}, as it was when it was closed\n"
            return await pictures.commit(picture.tree, head, message, self._clock())

    async def _tidy(self, source: Source, here: Spot, kept: Kept | None) -> str:
        """Removes what belonged to a tree that is gone; tells of a branch that stays."""
        told = ""
        if kept is not None and kept.own:
            tip = await source.commit(f"refs/heads/{kept.branch}")
            if tip is not None:
                stays = await source.only_here(tip, but=kept.branch, known=kept.placed)
                if stays or (await source.change("branch", "-D", "--quiet", kept.branch)).status != 0:
                    told = f" Its branch {kept.branch} stays."
        await source.change("update-ref", "-d", here.fetched)
        await asyncio.to_thread(here.forget)
        return told


def _left(why: str) -> Closed:
    return Closed(Outcome.LEFT, None, f"The work tree is left: {why}.")


def _ready(folder: Path) -> Path:
    make_private(folder)
    return folder.resolve()  # git notes real paths
