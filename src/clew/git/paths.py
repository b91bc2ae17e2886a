"""Paths in a work tree: which files a checkout would lose, and names in the forms that git reads.

A path is bytes, relative to the top of the tree, with slashes: any other form cannot express every file's name.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from clew.core.record import Record


class Change(Record):
    kind: str  # git's letter: A added, M modified, D deleted, T type changed
    path: bytes


def reachable(top: bytes, paths: Iterable[bytes]) -> list[bytes]:
    """The paths that are files or links, and not below a link."""
    return [
        path
        for path in paths
        if path and _kind(top, path) in ("file", "link") and _non_folder_parent(top, path) is None
    ]


def lost_files(top: bytes, changes: Iterable[Change]) -> list[bytes]:
    """The files that the changes would overwrite and that are in no snapshot: ignored ones, or a nested `.git`."""
    listed = list(changes)
    deleted = {change.path for change in listed if change.kind == "D"}
    found: set[bytes] = set()
    for change in listed:
        if change.kind == "D":
            continue
        parent = _non_folder_parent(top, change.path)
        if parent is not None:
            found |= {parent} - deleted
        elif _kind(top, change.path) == "folder":
            found |= set(_files(top, change.path)) - deleted
        elif change.kind == "A" and _kind(top, change.path) is not None:
            found.add(change.path)
    return sorted(found)


def permissions(top: bytes, changes: Iterable[Change]) -> dict[bytes, int]:
    """The permissions of the files that will be rewritten: git itself keeps only whether a file is executable."""
    found = {}
    for change in changes:
        if change.kind == "M" and _kind(top, change.path) == "file":
            found[change.path] = os.lstat(os.path.join(top, change.path)).st_mode & 0o666  # noqa: PTH118
    return found


def restore_permissions(top: bytes, found: dict[bytes, int]) -> None:
    for path, mode in found.items():
        if _kind(top, path) == "file":
            full = os.path.join(top, path)  # noqa: PTH118
            program = os.lstat(full).st_mode & stat.S_IXUSR
            os.chmod(full, mode | ((mode & 0o444) >> 2 if program else 0))  # noqa: PTH101


def exclude_patterns(top: str, git_dir: str, common_dir: str) -> bytes:
    """Patterns of what a snapshot leaves out, beside what the tree's own ignore files name.

    These are the repository's own list of patterns; its other work trees, which may be inside this one; and its git
    directory where that is not named `.git`. No index holds a path with `.git` in it, in upper or lower case.
    """
    try:
        listed = Path(common_dir, "info", "exclude").read_bytes()
    except OSError:
        listed = b""
    others = [Path(git_dir), Path(common_dir)]
    for pointer in Path(common_dir, "worktrees").glob("*/gitdir"):
        try:
            others.append(Path(os.fsdecode(pointer.read_bytes().removesuffix(b"\n"))).parent)
        except OSError:
            continue  # removed meanwhile
    lines = [b"", b".[gG][iI][tT]"]
    for other in sorted(set(others)):
        if other != Path(top) and other.is_relative_to(top):
            lines.append(b"/" + _escaped(os.fsencode(other.relative_to(top))) + b"/")
    return listed + b"\n".join([*lines, b""])


def c_quoted(path: bytes) -> bytes:
    """The path as a C string, which git accepts where a line holds a path."""
    return b'"' + path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'


def _escaped(path: bytes) -> bytes:
    """A pattern that matches the path. A list of patterns cannot hold a newline, so `?` stands for it."""
    return re.sub(rb"([\\*?\[])", rb"\\\1", path).replace(b"\n", b"?")


def _non_folder_parent(top: bytes, path: bytes) -> bytes | None:
    """The first parent of the path that is not a folder."""
    parts = path.split(b"/")
    for depth in range(1, len(parts)):
        folder = b"/".join(parts[:depth])
        kind = _kind(top, folder)
        if kind is None:
            return None
        if kind != "folder":
            return folder
    return None


def _files(top: bytes, folder: bytes) -> Iterator[bytes]:
    for here, folders, files in os.walk(os.path.join(top, folder)):  # noqa: PTH118
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]  # noqa: PTH114, PTH118
        for name in (*files, *links):
            yield os.path.relpath(os.path.join(here, name), top)  # noqa: PTH118


def _kind(top: bytes, path: bytes) -> str | None:
    try:
        mode = os.lstat(os.path.join(top, path)).st_mode  # noqa: PTH118
    except OSError:
        return None
    kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "other")
