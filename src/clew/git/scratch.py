"""The scratch repository: a git directory of our own, inside the user's, from which snapshots of a work tree are made.

All of it can be lost without harm: the index that is kept there only saves reading files again. Each snapshot works in
a folder of its own in there, so what a killed process leaves behind disturbs no other.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from pathlib import Path

from clew.core.durations import DAY_S
from clew.core.record import Record
from clew.git.paths import c_quoted, exclude_patterns
from clew.system.files import write_whole

STALE_LOCK_S = 60.0  # an older lock is stale: moving a ref takes milliseconds
STALE_SNAPSHOT_S = DAY_S

# These attributes take precedence over all others: a snapshot holds plain bytes, whatever the files in the tree say.
_ATTRIBUTES = b"* -text !eol !crlf -ident !filter !working-tree-encoding\n"
_CONFIG = """\
[core]
\trepositoryformatversion = {version}
\tbare = false
\tprotectNTFS = false
\tprotectHFS = false
\tfsync = committed
\tfsyncMethod = batch
\tcompression = 1
\tbigFileThreshold = 32m
[extensions]{extensions}
"""


class RepositoryLayout(Record):
    """Where the parts of a repository are."""

    top: str  # the root of the work tree
    git_dir: str  # the git directory of this work tree; a linked work tree has its own
    common_dir: str  # where refs and objects are
    hash_name: str  # sha1 or sha256
    scratch: Path  # the scratch repository


def open_scratch(layout: RepositoryLayout, temporary: bool) -> Path:
    """Makes the scratch repository, or brings it up to date; returns a new folder in it for one snapshot.

    A temporary snapshot writes its objects into that folder.
    """
    scratch = layout.scratch
    scratch.parent.mkdir(parents=True, exist_ok=True)  # shared by all users of the repository
    for each in (scratch, scratch / "refs", scratch / "info"):
        each.mkdir(0o700, exist_ok=True)
    modern = layout.hash_name != "sha1"
    extensions = f"\n\tobjectFormat = {layout.hash_name}" if modern else ""
    _write(scratch / "HEAD", b"ref: refs/heads/none\n")
    _write(scratch / "config", _CONFIG.format(version=int(modern), extensions=extensions).encode())
    _write(scratch / "info" / "attributes", _ATTRIBUTES)
    _write(scratch / "info" / "exclude", exclude_patterns(layout.top, layout.git_dir, layout.common_dir))
    for left in scratch.glob("snapshot-*"):  # left behind by a process that was killed
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE_SNAPSHOT_S:
                shutil.rmtree(left, ignore_errors=True)
    folder = scratch / f"snapshot-{uuid.uuid4().hex}"
    folder.mkdir(0o700)
    if temporary:
        (folder / "objects" / "info").mkdir(parents=True)
        objects = os.fsencode(Path(layout.common_dir, "objects"))
        (folder / "objects" / "info" / "alternates").write_bytes(c_quoted(objects) + b"\n")
    return folder


def _write(path: Path, content: bytes) -> None:
    """Writes the file atomically, and only if it differs: another process may be reading it."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    write_whole(path, content)


def copy_index(kept: Path | None, index: Path) -> bool:
    """Copies the kept index with its modification time: git needs that to find files that may have changed unnoticed.

    False: no index was kept.
    """
    for left in (index, index.with_name("index.lock")):
        left.unlink(missing_ok=True)
    if kept is None or not kept.exists():
        return False
    shutil.copy2(kept, index)
    return True


def keep_index(index: Path, kept: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # an empty tree has no index
        index.replace(kept)


def remove_scratch(scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    for folder in (scratch.parent, scratch.parent.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_stale_lock(lock: Path) -> None:
    """Removes the lock if it is old. It is on a ref of our own, so a live git holds it only for milliseconds."""
    with contextlib.suppress(FileNotFoundError):
        if time.time() - lock.stat().st_mtime > STALE_LOCK_S:
            lock.unlink()
