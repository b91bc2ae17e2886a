"""The files of a pair's directory when its worker stopped, to detect what somebody else has changed since.

In a git work tree these are the files that differ from the commit; elsewhere they are all files except hidden ones.
Nothing is written to the directory, and no content is kept: only sizes, modification times and, for smaller files in a
git work tree, digests. A scan takes a few seconds at most. A directory with too many files is not scanned.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from clew.core.record import Record
from clew.errors import ClewError
from clew.git.changes import Repository
from clew.store.rows.pairs import KeptFile, KeptFiles

log = logging.getLogger("clew.hosts.pairs.pairs")

SCAN_TIMEOUT_S = 5.0
TIMED_OUT = f"they take over {SCAN_TIMEOUT_S:.0f} seconds"
MAX_CHANGED_FILES = 5_000  # in a git work tree
MAX_FILES = 20_000  # elsewhere
MAX_HASHED_BYTES = 1_000_000  # of one file; a larger file is compared by its size and time
MAX_HASHED_TOTAL_BYTES = 20_000_000
GONE = KeptFile(-1, 0, None)
NO_GIT = ""  # the base commit of a scan outside of git


class TooManyFiles(Exception):
    """The directory is not scanned. The message says why."""


class FileScan(Record):
    """The files now, and the names of those that have changed since the last scan."""

    files: KeptFiles | None  # None: they are not known
    changed: tuple[str, ...] = ()
    skipped_because: str = ""  # why the directory was not scanned


async def scan_files(
    cwd: str,
    environ: Mapping[str, str],
    run_id: str | None,
    before: KeptFiles | None = None,
    *,
    max_changed: int = MAX_CHANGED_FILES,
    max_files: int = MAX_FILES,
) -> FileScan:
    """Scans the files. `run_id` is the worker's newest run, `before` the result of the last scan."""
    repository = Repository(cwd, environ)
    try:
        async with asyncio.timeout(SCAN_TIMEOUT_S):
            try:
                top = await repository.top()
            except ClewError:
                return await _scan_folder(cwd, run_id, before, max_files)
            return await _scan_work_tree(repository, top, run_id, before, max_changed)
    except TooManyFiles as error:
        return FileScan(None, skipped_because=str(error))
    except TimeoutError:
        return FileScan(None, skipped_because=TIMED_OUT)
    except (ClewError, OSError) as error:
        log.debug("the files were not scanned: %r", error)
        return FileScan(None)


async def _scan_work_tree(
    repository: Repository, top: str, run_id: str | None, before: KeptFiles | None, max_changed: int
) -> FileScan:
    base, names = await repository.touched()
    now = await _read_all(top, names, max_changed)
    files = KeptFiles(run_id, base, now)
    if before is None or before.base_commit == NO_GIT:
        return FileScan(files)
    if before.base_commit != base:
        _, names = await repository.touched(before.base_commit)  # includes what was committed since
    known = now | await _read_all(top, {*before.files, *names} - now.keys(), max_changed)
    return FileScan(files, _changed(before, names, known))


async def _scan_folder(cwd: str, run_id: str | None, before: KeptFiles | None, max_files: int) -> FileScan:
    now = await asyncio.to_thread(_all_below, cwd, max_files, time.monotonic() + SCAN_TIMEOUT_S)
    files = KeptFiles(run_id, NO_GIT, now)
    if before is None or before.base_commit != NO_GIT:
        return FileScan(files)
    return FileScan(files, _changed(before, now, now))


def _changed(before: KeptFiles, names: Iterable[str], now: Mapping[str, KeptFile]) -> tuple[str, ...]:
    named = dict.fromkeys([*before.files, *names])
    return tuple(name for name in named if not _is_same(before.files.get(name), now.get(name, GONE)))


def _all_below(cwd: str, max_files: int, until: float) -> dict[str, KeptFile]:
    """All files below `cwd` except hidden ones, which include those of Clew and the agents. Raises TooManyFiles."""
    found, folders = dict[str, KeptFile](), [""]
    while folders:
        folder = folders.pop()
        with contextlib.suppress(OSError), os.scandir(Path(cwd, folder)) as entries:
            for entry in entries:
                if time.monotonic() > until:
                    raise TooManyFiles(TIMED_OUT)
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{entry.name}/")
                    continue
                if len(found) == max_files:
                    raise TooManyFiles(f"there are more than {max_files:,}")
                seen = entry.stat(follow_symlinks=False)
                found[f"{folder}{entry.name}"] = KeptFile(seen.st_size, seen.st_mtime_ns, None)
    return dict(sorted(found.items()))


def _is_same(before: KeptFile | None, now: KeptFile) -> bool:
    """`before` is None for a file that is new, or that did not differ from the commit at the last scan."""
    if before is None or before.size_bytes != now.size_bytes:
        return False
    if before.digest is not None and now.digest is not None:
        return before.digest == now.digest
    return before.changed_ns == now.changed_ns


async def _read_all(top: str, names: Collection[str], max_changed: int) -> dict[str, KeptFile]:
    """Raises TooManyFiles."""
    if len(names) > max_changed:
        raise TooManyFiles(f"{len(names):,} have changed")
    return await asyncio.to_thread(_read, top, sorted(names), time.monotonic() + SCAN_TIMEOUT_S)


def _read(top: str, names: Sequence[str], until: float) -> dict[str, KeptFile]:
    found, left_bytes = dict[str, KeptFile](), MAX_HASHED_TOTAL_BYTES
    for name in names:
        if time.monotonic() > until:
            raise TooManyFiles(TIMED_OUT)
        found[name] = _file(Path(top, name), min(left_bytes, MAX_HASHED_BYTES))
        if found[name].digest is not None:
            left_bytes -= found[name].size_bytes
    return found


def _file(path: Path, max_bytes: int) -> KeptFile:
    """A file that cannot be read, or is larger than `max_bytes`, has no digest."""
    try:
        seen = path.lstat()
    except OSError:
        return GONE
    digest = None
    with contextlib.suppress(OSError):
        if stat.S_ISLNK(seen.st_mode):
            digest = hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        elif stat.S_ISREG(seen.st_mode) and seen.st_size <= max_bytes:
            with path.open("rb") as file:
                digest = hashlib.sha256(file.read(max_bytes + 1)).hexdigest()
    return KeptFile(seen.st_size, seen.st_mtime_ns, digest)
