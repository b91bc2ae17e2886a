"""Checkpoints of a work tree: its files as they are on the disk, kept in the user's own repository.

The rules:

1. A checkpoint is a commit of every file that is not ignored, under `refs/clew/jobs/<name>`. Its parent is the
   checkpoint before it; the parent of the first one is HEAD. The user's branch, HEAD, index, stash, reflog, config and
   hooks are neither changed nor used, and saving changes no file.
2. It holds the bytes on the disk, not what a commit of the user would hold: no filters, no line-end conversion, and
   the files of submodules and of other repositories in the tree. It is made to be restored, not to be merged.
3. The ref moves last, and only from the value that was read. So a save that is killed leaves the last checkpoint as it
   was, and two concurrent saves do not lose each other's checkpoint.
4. A restore loses nothing. It saves the present files first, as a checkpoint of the same history. Such a checkpoint is
   never the one that is restored, so an interrupted restore can simply be repeated.

Paths are relative to the top of the work tree, even when the job works in a folder below it.
"""

from __future__ import annotations

import builtins
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from clew.core.record import Record
from clew.errors import Conflict, NotFound, UsageError
from clew.git.command import INSTEAD, on_disk
from clew.git.paths import lost_files, permissions, restore_permissions
from clew.git.snapshots import GitTree, LoggedCommit, Snapshot

BEFORE_RESTORE = "before_restore"
TRIES = 20  # another process may move the ref in between
RESTORE_TRIES = 3  # a restored ignore file may reveal files that were ignored before

_BUSY = "End the process that changes them, and restore again. The files were saved before."
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LINE = re.compile(r"^Clew-(\w+): (.*)$", re.MULTILINE)


class Checkpoint(Record):
    commit: str
    at: float  # epoch seconds
    why: str  # "start", "interval", "cut_off", "before_restore", …


class Difference(Record):
    unmerged: tuple[str, ...]  # conflicts in the user's index: a merge is in progress
    changed: tuple[str, ...]  # added, modified or deleted since the last checkpoint


class _History(Record):
    """The ref as it was read, and the checkpoints that it leads to."""

    tip: str | None
    count: int
    last: Checkpoint | None  # the newest one that was not made before a restore
    tree: str  # the git tree of `last`; "": there is none


class Checkpoints:
    """The checkpoints of one job. Safe to use from several processes at once."""

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
        """Raises UsageError, with a hint, when checkpoints cannot be kept here."""
        layout = await self._tree.layout()
        for folder in (layout.git_dir, f"{layout.common_dir}/objects", f"{layout.common_dir}/refs"):
            if not await on_disk(os.access, folder, os.W_OK | os.X_OK):
                raise UsageError(f"{folder} cannot be written to.", hint=f"Change its permissions. {INSTEAD}")
        await self._history()

    async def save(self, why: str) -> Checkpoint | None:
        """Saves a checkpoint. None: nothing has changed since the last one."""
        for _ in range(TRIES):
            history = await self._history()
            async with self._tree.snapshot(None if history.last is None else history.last.commit) as snapshot:
                made = None
                if history.last is None or snapshot.tree != history.tree:
                    made = await self._append(snapshot, history, why)
                    if made is None:
                        continue
                await self._tree.keep(snapshot)
                return made
        raise _contended(self._name)

    async def last(self) -> Checkpoint | None:
        """The checkpoint that `restore` would restore."""
        return (await self._history()).last

    async def difference(self) -> Difference:
        """What has changed since the last checkpoint. Leaves nothing in the repository."""
        history = await self._history()
        last = self._needed(history)
        unmerged = await self._tree.unmerged()
        async with self._tree.snapshot(last.commit, temporary=True) as snapshot:
            changes = (
                [] if snapshot.tree == history.tree else await self._tree.changes(snapshot, history.tree, snapshot.tree)
            )
        return Difference(_names(unmerged), _names(change.path for change in changes))

    async def restore(self) -> Checkpoint:
        """Restores the last checkpoint, after saving the present files. Ignored files and the user's index stay."""
        for _ in range(RESTORE_TRIES):
            history = await self._history()
            last = self._needed(history)
            async with self._tree.snapshot(last.commit) as snapshot:
                if snapshot.tree != history.tree:
                    await self._replace(snapshot, history)
                await self._tree.keep(snapshot)
            if snapshot.tree == history.tree:
                await on_disk(Path(self._work_dir).mkdir, parents=True, exist_ok=True)  # git removes empty folders
                return last
        raise Conflict(
            f"The files in {self._work_dir} change while they are restored.",
            hint=_BUSY,
        )

    async def list(self) -> builtins.list[Checkpoint]:
        """The checkpoints, oldest first, including those made before a restore."""
        history = await self._history()
        entries = [] if history.tip is None else await self._tree.log(history.tip, history.count)
        return [_checkpoint(entry) for entry in reversed(entries)]

    async def drop(self) -> None:
        """Removes the checkpoints. Git's next garbage collection removes their content."""
        for _ in range(TRIES):
            tip = await self._tree.tip()
            if tip is None or await self._tree.move(None, tip):
                await self._tree.clear()
                return
        raise _contended(self._name)

    async def _append(self, snapshot: Snapshot, history: _History, why: str) -> Checkpoint | None:
        """Commits the snapshot as the newest checkpoint. None: another process has moved the ref."""
        at, why = self._clock(), " ".join(why.split())
        parent = history.tip or await self._tree.head()
        number = history.count + 1
        message = (
            f"Checkpoint {number} of job {self._name}: {why}\n\n"
            f"Clew-Job: {self._name}\nClew-Number: {number}\nClew-At: {at!r}\nClew-Why: {why}\n"
        )
        commit = await self._tree.commit(snapshot.tree, parent, message, at)
        return Checkpoint(commit, at, why) if await self._tree.move(commit, history.tip) else None

    async def _replace(self, snapshot: Snapshot, history: _History) -> None:
        top = os.fsencode((await self._tree.layout()).top)
        changes = await self._tree.changes(snapshot, snapshot.tree, history.tree)
        lost = await on_disk(lost_files, top, changes)
        if lost:
            raise Conflict(
                f"The restore would overwrite ignored files: {', '.join(_names(lost))}.",
                hint="Move them elsewhere, and restore again.",
            )
        if await self._append(snapshot, history, BEFORE_RESTORE) is None:
            raise _contended(self._name)
        modes = await on_disk(permissions, top, changes)
        try:
            await self._tree.check_out(snapshot, history.tree)
        except UsageError as error:
            raise Conflict(f"The checkpoint could not be restored: {error.message}", hint=_BUSY) from error
        await on_disk(restore_permissions, top, modes)

    async def _history(self) -> _History:
        tip = await self._tree.tip()
        if tip is None:
            return _History(None, 0, None, "")
        entries = await self._tree.log(tip, 1)
        count = int(_fields(entries[0]).get("Number", 0))
        if count == 0:
            raise Conflict(
                f"{self._tree.ref} is not a checkpoint of Clew.", hint=f"Remove it: git update-ref -d {self._tree.ref}"
            )
        if _checkpoint(entries[0]).why == BEFORE_RESTORE:
            entries = await self._tree.log(tip, count)
        for entry in entries:
            found = _checkpoint(entry)
            if found.why != BEFORE_RESTORE:
                return _History(tip, count, found, entry.tree)
        return _History(tip, count, None, "")

    def _needed(self, history: _History) -> Checkpoint:
        if history.last is None:
            raise NotFound(f"Job {self._name} has no checkpoint.", hint="Keep the files as they are: retry --keep.")
        return history.last


def _fields(entry: LoggedCommit) -> dict[str, str]:
    return dict(_LINE.findall(entry.message))


def _checkpoint(entry: LoggedCommit) -> Checkpoint:
    fields = _fields(entry)
    return Checkpoint(entry.commit, float(fields["At"]), fields["Why"])


def _names(paths: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(sorted({os.fsdecode(path) for path in paths}))


def _contended(name: str) -> Conflict:
    return Conflict(f"Another process keeps moving the checkpoints of job {name}.", hint="Try again.")
