"""Checkpoints of a work tree: what is on the disk, kept in the user's own repository, and out of the user's way.

The rules:

1. A checkpoint is a commit of every file that is not ignored, under `refs/clew/jobs/<name>`. Its parent is the
   checkpoint before it; the first one's is HEAD. The user's branch, HEAD, index, stash, reflog, config and hooks are
   neither changed nor used, and saving changes no file.
2. It holds bytes, not what a commit of the user's would hold: no filters, no line-end conversion, and the files of
   submodules and other repositories in the tree as files. It is there to be put back, not to be merged.
3. The ref moves last, from the value that was read: a killed save leaves the last checkpoint, and of two savers at
   once neither loses one.
4. Nothing is lost by a restore. What is there is saved first, in the same row; such a one is never the last one, so a
   restore that was cut off is simply done again.

Paths are relative to the top of the work tree, also when the job works in a folder below it.
"""

from __future__ import annotations

import builtins
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from clew.core.record import Record
from clew.engine.git import INSTEAD, on_disk
from clew.engine.git_tree import Entry, GitTree, Picture
from clew.engine.work_tree import give_back, in_the_way, permissions
from clew.errors import Conflict, NotFound, UsageError

BEFORE_RESTORE = "before_restore"
TRIES = 20  # others may move the ref in between
ROUNDS = 3  # a restored ignore file may uncover more that was not there

_BUSY = "End what is at work there, and restore again. What was there is saved."
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LINE = re.compile(r"^Clew-(\w+): (.*)$", re.MULTILINE)


class Checkpoint(Record):
    commit: str
    at: float  # epoch seconds
    why: str  # "start", "interval", "cut_off", "before_restore", …


class Difference(Record):
    unmerged: tuple[str, ...]  # in the user's index: somebody is in the middle of a merge
    changed: tuple[str, ...]  # added, modified or deleted since the last checkpoint


class _Row(Record):
    """The ref as it was read, and what it leads to."""

    tip: str | None
    count: int
    last: Checkpoint | None  # not counting those made before a restore
    tree: str  # of the last one


class Checkpoints:
    """The checkpoints of one job. Any number of these, in any number of processes, may be at work on the same name."""

    def __init__(
        self, work_dir: str, name: str, environ: Mapping[str, str], *, clock: Callable[[], float] = time.time
    ) -> None:
        if not _NAME.fullmatch(name) or name.endswith(".lock"):
            raise UsageError(f"{name!r} cannot name checkpoints.", hint="Use letters, digits, - and _.")
        self._work_dir = work_dir
        self._name = name
        self._clock = clock
        self._tree = GitTree(work_dir, name, environ)

    async def check(self) -> None:
        """A UsageError when checkpoints cannot be kept here, with what to do."""
        place = await self._tree.place()
        for folder in (place.git_dir, f"{place.common_dir}/objects", f"{place.common_dir}/refs"):
            if not await on_disk(os.access, folder, os.W_OK | os.X_OK):
                raise UsageError(f"{folder} cannot be written to.", hint=f"Change its permissions. {INSTEAD}")
        await self._row()

    async def save(self, why: str) -> Checkpoint | None:
        """Keeps what is there. None: it is as in the last checkpoint."""
        for _ in range(TRIES):
            row = await self._row()
            async with self._tree.picture(None if row.last is None else row.last.commit) as picture:
                made = None
                if row.last is None or picture.tree != row.tree:
                    made = await self._append(picture, row, why)
                    if made is None:
                        continue
                await self._tree.keep(picture)
                return made
        raise _contended(self._name)

    async def last(self) -> Checkpoint | None:
        """The one that a restore would put back."""
        return (await self._row()).last

    async def difference(self) -> Difference:
        """The tree now against the last checkpoint. Leaves nothing in the repository."""
        row = await self._row()
        last = self._needed(row)
        unmerged = await self._tree.unmerged()
        async with self._tree.picture(last.commit, passing=True) as picture:
            changes = [] if picture.tree == row.tree else await self._tree.changes(picture, row.tree, picture.tree)
        return Difference(_names(unmerged), _names(change.path for change in changes))

    async def restore(self) -> Checkpoint:
        """Puts the last checkpoint back, after saving what is there. Ignored files stay, so does the user's index."""
        for _ in range(ROUNDS):
            row = await self._row()
            last = self._needed(row)
            async with self._tree.picture(last.commit) as picture:
                if picture.tree != row.tree:
                    await self._replace(picture, row)
                await self._tree.keep(picture)
            if picture.tree == row.tree:
                await on_disk(Path(self._work_dir).mkdir, parents=True, exist_ok=True)  # git removes empty folders
                return last
        raise Conflict(
            f"The files in {self._work_dir} change while they are put back.",
            hint=_BUSY,
        )

    async def list(self) -> builtins.list[Checkpoint]:
        """All of them, the oldest first, also those made before a restore."""
        row = await self._row()
        entries = [] if row.tip is None else await self._tree.log(row.tip, row.count)
        return [_checkpoint(entry) for entry in reversed(entries)]

    async def drop(self) -> None:
        """Removes the checkpoints. Their content goes when git next tidies up."""
        for _ in range(TRIES):
            tip = await self._tree.tip()
            if tip is None or await self._tree.move(None, tip):
                await self._tree.clear()
                return
        raise _contended(self._name)

    async def _append(self, picture: Picture, row: _Row, why: str) -> Checkpoint | None:
        """None: somebody else was faster."""
        at, why = self._clock(), " ".join(why.split())
        parent = row.tip or await self._tree.head()
        number = row.count + 1
        message = (
            f"Checkpoint {number} of job {self._name}: {why}\n\n"
            f"Clew-Job: {self._name}\nClew-Number: {number}\nClew-At: {at!r}\nClew-Why: {why}\n"
        )
        commit = await self._tree.commit(picture.tree, parent, message, at)
        return Checkpoint(commit, at, why) if await self._tree.move(commit, row.tip) else None

    async def _replace(self, picture: Picture, row: _Row) -> None:
        top = os.fsencode((await self._tree.place()).top)
        changes = await self._tree.changes(picture, picture.tree, row.tree)
        lost = await on_disk(in_the_way, top, changes)
        if lost:
            raise Conflict(
                f"Ignored files are in the way of the checkpoint: {', '.join(_names(lost))}.",
                hint="Move them away, and restore again.",
            )
        if await self._append(picture, row, BEFORE_RESTORE) is None:
            raise _contended(self._name)
        modes = await on_disk(permissions, top, changes)
        try:
            await self._tree.put(picture, row.tree)
        except UsageError as error:
            raise Conflict(f"The checkpoint could not be put back: {error.message}", hint=_BUSY) from error
        await on_disk(give_back, top, modes)

    async def _row(self) -> _Row:
        tip = await self._tree.tip()
        if tip is None:
            return _Row(None, 0, None, "")
        entries = await self._tree.log(tip, 1)
        count = int(_fields(entries[0]).get("Number", 0))
        if count == 0:
            raise Conflict(
                f"{self._tree.ref} is no checkpoint of ours.", hint=f"Remove it: git update-ref -d {self._tree.ref}"
            )
        if _checkpoint(entries[0]).why == BEFORE_RESTORE:
            entries = await self._tree.log(tip, count)
        for entry in entries:
            found = _checkpoint(entry)
            if found.why != BEFORE_RESTORE:
                return _Row(tip, count, found, entry.tree)
        return _Row(tip, count, None, "")

    def _needed(self, row: _Row) -> Checkpoint:
        if row.last is None:
            raise NotFound(f"Job {self._name} has no checkpoint.", hint="Keep what is there: retry --keep.")
        return row.last


def _fields(entry: Entry) -> dict[str, str]:
    return dict(_LINE.findall(entry.message))


def _checkpoint(entry: Entry) -> Checkpoint:
    fields = _fields(entry)
    return Checkpoint(entry.commit, float(fields["At"]), fields["Why"])


def _names(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted({os.fsdecode(path) for path in paths}))


def _contended(name: str) -> Conflict:
    return Conflict(f"Another process keeps moving the checkpoints of job {name}.", hint="Try again.")
