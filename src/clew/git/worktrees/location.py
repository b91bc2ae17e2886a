"""Where a key's work tree is on the disk, the record beside it, who uses it, and the lock of its repository."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from clew.core.record import Record
from clew.errors import UsageError
from clew.system.files import write_whole

READABLE_MAX_CHARS = 60  # the length of the readable part of a folder's name
NESTED_MAX = 3  # how many nested repositories a message names
POLL_S = 0.05

_TRASH = ".gone-"
_PROC = Path("/proc")


class TreeRecord(Record):
    """What a tree was made from. It is stored beside the tree."""

    repository: str
    key: str
    branch: str
    own: bool  # the branch was made for the tree, and is deleted with it
    placed: str | None  # the commit that Clew last moved the branch to


class TreeLocation(Record):
    """The place of one key's tree."""

    folder: Path
    name: str  # readable, not unique
    digest: str  # of repository and key: unique

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}-{self.digest}"

    @property
    def fetched(self) -> str:
        """The ref of a commit that was fetched for this tree alone."""
        return f"refs/clew/fetched/{self.digest}"

    def read(self) -> TreeRecord | None:
        return _read(self._record)

    def write(self, record: TreeRecord) -> None:
        """Replaces the record atomically."""
        write_whole(self._record, json.dumps(record.as_dict()).encode())

    def forget(self) -> None:
        self._record.unlink(missing_ok=True)

    @property
    def _record(self) -> Path:
        return self.folder / f"{self.path.name}.json"


def location_of(folder: Path, common_dir: str, key: str) -> TreeLocation:
    readable = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")[:READABLE_MAX_CHARS]
    return TreeLocation(folder, readable, _digest(f"{common_dir}\0{key}"))


def tree_records(folder: Path) -> list[tuple[TreeRecord, Path, bool]]:
    """Every tree that has a record: the record, the tree's path, and whether the tree exists."""
    found = [(_read(path), path.with_suffix("")) for path in sorted(folder.glob("[!.]*.json"))]
    return [(record, path, path.is_dir()) for record, path in found if record is not None]


@contextlib.asynccontextmanager
async def repository_lock(folder: Path, common_dir: str) -> AsyncIterator[int]:
    """Holds the lock of a repository's trees. After a crash, it is free once every git that inherited it has ended."""
    import fcntl

    path = folder / f"{_digest(common_dir)}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(POLL_S)  # waiting in a thread could not be cancelled
        yield handle
    finally:
        os.close(handle)


def points_to(path: Path, git_dir: Path) -> bool:
    """Whether the tree's `.git` file still points to that git directory. An agent can change the file."""
    pointer = path / ".git"
    try:
        if path.is_symlink() or pointer.is_symlink() or not pointer.is_file():
            return False
        content = os.fsdecode(pointer.read_bytes()[:8192].removesuffix(b"\n"))
    except OSError:
        return False
    label, _, target = content.partition(": ")
    return label == "gitdir" and os.path.normpath(path / target) == str(git_dir)


def move_aside(path: Path) -> Path:
    """Renames the folder, with all that is in it."""
    aside = path.with_name(f"{path.name}.aside-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex[:6]}")
    return path.rename(aside)


def move_to_trash(path: Path) -> Path:
    """Renames the folder, so that no process finds a half-deleted one. `empty_trash` deletes it."""
    return path.rename(path.with_name(f"{_TRASH}{uuid.uuid4().hex}"))


def empty_trash(folder: Path) -> None:
    """Deletes what is in the trash, also what a killed process left there."""
    for gone in folder.glob(f"{_TRASH}*"):
        shutil.rmtree(gone, ignore_errors=True)


def why_not_removable(path: Path, git_dir: Path) -> str | None:
    """Why the tree must not be removed now. None: it may be removed."""
    for name in ("index.lock", "HEAD.lock"):
        if os.path.lexists(git_dir / name):
            return f"git is running in it, or was killed: {git_dir / name}"
    pid = next(_occupants(path), None)
    if pid is not None:
        return f"process {pid} works in it"
    nested = _repositories(path)
    if nested:
        more = ", …" if len(nested) > NESTED_MAX else ""
        return f"it contains other repositories: {', '.join(nested[:NESTED_MAX])}{more}"
    return None


def _occupants(path: Path) -> Iterator[int]:
    """The processes whose current directory is in the tree, as far as this user may see them."""
    if (_PROC / "self" / "cwd").exists():
        for process in _PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").readlink().is_relative_to(path):
                    yield int(process.name)
        return
    import psutil

    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(one.cwd()).is_relative_to(path):
                yield int(one.pid)


def _repositories(path: Path) -> list[str]:
    """The repositories inside the tree. Their commits and branches would be in no archive."""
    found = []
    for here, folders, files in os.walk(path):
        inner = Path(here).relative_to(path)
        if inner.parts and (".git" in folders or ".git" in files):
            found.append(str(inner))
            folders.clear()
    return sorted(found)


def _read(path: Path) -> TreeRecord | None:
    """None: there is no record, or the file is not as Clew writes it, and would not be safe to act on."""
    try:
        record = TreeRecord(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    texts = (record.repository, record.key, record.branch, record.placed or "")
    return record if all(isinstance(text, str) for text in texts) and isinstance(record.own, bool) else None


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turns errors of the disk into UsageErrors, and removes the hint that is meant for checkpoints."""
    try:
        yield
    except UsageError as error:
        if error.hint is not None and "--no-checkpoint" in error.hint:
            raise UsageError(error.message) from error
        raise
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}.") from error
