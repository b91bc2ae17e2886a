"""The desk: a git directory of our own, within the repository's, from which pictures of its work tree are made.

Everything on it can be lost without harm: the kept index only saves reading files again. A picture works in a folder of
its own on the desk, so what a killed one leaves behind is in nobody's way.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from pathlib import Path

from clew.core.record import Record
from clew.engine.work_tree import excluded, quoted

STALE_LOCK_S = 60.0  # moving a ref takes milliseconds
STALE_PICTURE_S = 24 * 3600.0

# The highest of all places where attributes stand: a picture is bytes, whatever the files in the tree say.
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


class Place(Record):
    top: str  # the work tree's root
    git_dir: str  # this work tree's own; a linked one has another than the main one
    common_dir: str  # where refs and objects are
    hash_name: str  # sha1 or sha256
    desk: Path


def open_desk(place: Place, passing: bool) -> Path:
    """The desk, made or brought up to date, and a folder on it for one picture."""
    desk = place.desk
    desk.parent.mkdir(parents=True, exist_ok=True)  # for all who share the repository; a desk is its owner's alone
    for folder in (desk, desk / "refs", desk / "info"):
        folder.mkdir(0o700, exist_ok=True)
    modern = place.hash_name != "sha1"
    extensions = f"\n\tobjectFormat = {place.hash_name}" if modern else ""
    _write(desk / "HEAD", b"ref: refs/heads/none\n")
    _write(desk / "config", _CONFIG.format(version=int(modern), extensions=extensions).encode())
    _write(desk / "info" / "attributes", _ATTRIBUTES)
    _write(desk / "info" / "exclude", excluded(place.top, place.git_dir, place.common_dir))
    for left in desk.glob("picture-*"):  # by somebody who was killed
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE_PICTURE_S:
                shutil.rmtree(left, ignore_errors=True)
    scratch = desk / f"picture-{uuid.uuid4().hex}"
    scratch.mkdir(0o700)
    if passing:
        (scratch / "objects" / "info").mkdir(parents=True)
        objects = os.fsencode(Path(place.common_dir, "objects"))
        (scratch / "objects" / "info" / "alternates").write_bytes(quoted(objects) + b"\n")
    return scratch


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all, and only when it differs: another process may be reading it."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_bytes() == content:
            return
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    new.write_bytes(content)
    new.replace(path)


def lay_out(kept: Path | None, index: Path) -> bool:
    """Copies the kept index, with its time: git tells by it which files may have changed unnoticed."""
    for left in (index, index.with_name("index.lock")):
        left.unlink(missing_ok=True)
    if kept is None or not kept.exists():
        return False
    shutil.copy2(kept, index)
    return True


def keep_index(index: Path, kept: Path) -> None:
    with contextlib.suppress(FileNotFoundError):  # an empty tree has none
        index.replace(kept)


def clear_desk(desk: Path) -> None:
    shutil.rmtree(desk, ignore_errors=True)
    for folder in (desk.parent, desk.parent.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def remove_stale(lock: Path) -> None:
    """The lock is of our own ref, so nobody else's git can hold it for long."""
    with contextlib.suppress(FileNotFoundError):
        if time.time() - lock.stat().st_mtime > STALE_LOCK_S:
            lock.unlink()
