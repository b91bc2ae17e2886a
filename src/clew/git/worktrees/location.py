"""Where a key's work tree stands on the disk, what is noted beside it, who is in it, and whose turn it is."""

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

READABLE_MOST = 60  # characters of a name that are there for people
NESTED_MOST = 3  # as many are named
POLL_S = 0.05

_GONE = ".gone-"
_PROC = Path("/proc")


class Kept(Record):
    """What we made a tree of."""

    repository: str
    key: str
    branch: str
    own: bool  # the branch was made for the tree, and goes with it
    placed: str | None  # the commit that we last put it on


class Spot(Record):
    """The place of one key's tree."""

    folder: Path
    name: str  # for people
    digest: str  # of repository and key: this is what tells one place from another

    @property
    def place(self) -> Path:
        return self.folder / f"{self.name}-{self.digest}"

    @property
    def fetched(self) -> str:
        """The ref that keeps what was fetched for this tree alone."""
        return f"refs/clew/fetched/{self.digest}"

    def read(self) -> Kept | None:
        return _read(self._record)

    def write(self, kept: Kept) -> None:
        """Whole or not at all."""
        new = self._record.with_name(f".{self._record.name}.{uuid.uuid4().hex}")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(kept.as_dict(), file)
        new.replace(self._record)

    def forget(self) -> None:
        self._record.unlink(missing_ok=True)

    @property
    def _record(self) -> Path:
        return self.folder / f"{self.place.name}.json"


def spot(folder: Path, common_dir: str, key: str) -> Spot:
    readable = re.sub(r"[^A-Za-z0-9]+", "-", key).strip("-")[:READABLE_MOST]
    return Spot(folder, readable, _digest(f"{common_dir}\0{key}"))


def records(folder: Path) -> list[tuple[Kept, Path, bool]]:
    """Every tree that is noted, its place, and whether it is there."""
    found = [(_read(path), path.with_suffix("")) for path in sorted(folder.glob("[!.]*.json"))]
    return [(kept, place, place.is_dir()) for kept, place in found if kept is not None]


@contextlib.asynccontextmanager
async def alone(folder: Path, common_dir: str) -> AsyncIterator[int]:
    """The lock of a repository's trees. It goes with whoever holds it open, however that one ends."""
    import fcntl

    path = folder / f"{_digest(common_dir)}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(POLL_S)  # a thread that waits for it could not be cancelled
        yield handle
    finally:
        os.close(handle)


def leads_to(place: Path, git_dir: Path) -> bool:
    """Whether the tree still says that it is of that git directory. Agents can change what it says."""
    pointer = place / ".git"
    try:
        if place.is_symlink() or pointer.is_symlink() or not pointer.is_file():
            return False
        said = os.fsdecode(pointer.read_bytes()[:8192].removesuffix(b"\n"))
    except OSError:
        return False
    label, _, path = said.partition(": ")
    return label == "gitdir" and os.path.normpath(place / path) == str(git_dir)


def set_aside(place: Path) -> Path:
    """Out of the way, with all that is in it."""
    aside = place.with_name(
        f"{place.name}.aside-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex[:6]}"
    )
    return place.rename(aside)


def throw_away(place: Path) -> Path:
    """All at once, so that nobody ever finds half of it there. `sweep` deletes it."""
    return place.rename(place.with_name(f"{_GONE}{uuid.uuid4().hex}"))


def sweep(folder: Path) -> None:
    """Deletes what was thrown away, also by those who were killed before they could."""
    for gone in folder.glob(f"{_GONE}*"):
        shutil.rmtree(gone, ignore_errors=True)


def obstacle(place: Path, git_dir: Path) -> str | None:
    """Why the tree must not be removed now."""
    for name in ("index.lock", "HEAD.lock"):
        if os.path.lexists(git_dir / name):
            return f"a git is at work in it, or was killed: {git_dir / name}"
    pid = next(_occupants(place), None)
    if pid is not None:
        return f"process {pid} is in it"
    nested = _repositories(place)
    if nested:
        more = ", …" if len(nested) > NESTED_MOST else ""
        return f"it holds repositories of its own: {', '.join(nested[:NESTED_MOST])}{more}"
    return None


def _occupants(place: Path) -> Iterator[int]:
    """Those processes whose work directory is in there, as far as we may know."""
    if (_PROC / "self" / "cwd").exists():
        for process in _PROC.glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (process / "cwd").readlink().is_relative_to(place):
                    yield int(process.name)
        return
    import psutil

    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(one.cwd()).is_relative_to(place):
                yield int(one.pid)


def _repositories(place: Path) -> list[str]:
    """Those within the tree. Their commits and branches would be in no archive."""
    found = []
    for here, folders, files in os.walk(place):
        inner = Path(here).relative_to(place)
        if inner.parts and (".git" in folders or ".git" in files):
            found.append(str(inner))
            folders.clear()
    return sorted(found)


def _read(path: Path) -> Kept | None:
    """None also for what we did not write: nothing that it says would be safe to act on."""
    try:
        said = json.loads(path.read_bytes())
        kept = Kept(**said)
    except (OSError, ValueError, TypeError):
        return None
    texts = (kept.repository, kept.key, kept.branch, kept.placed or "")
    return kept if all(isinstance(text, str) for text in texts) and isinstance(kept.own, bool) else None


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Errors of the disk in our words; the advice of checkpoints is not ours."""
    try:
        yield
    except UsageError as error:
        if error.hint is not None and "--no-checkpoint" in error.hint:
            raise UsageError(error.message) from error
        raise
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}.") from error
