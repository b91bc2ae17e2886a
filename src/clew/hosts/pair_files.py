"""The files of a pair's directory when its worker stopped, to tell what somebody else has changed since.

Only in a git work tree: elsewhere nothing is told. Nothing is written there, and of no file is kept what stands in it:
its size, the time of its last change and, of the smaller ones, a digest. A look takes a few seconds at most; a tree
that is too large for that is not looked at.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from clew.core.record import Record
from clew.engine.changes import Repository
from clew.errors import ClewError
from clew.store.pair_rows import KeptFile, KeptFiles

log = logging.getLogger("clew.hosts.pair")

LOOK_S = 5.0
FILES_MOST = 5_000
READ_MOST = 1_000_000  # bytes of a file whose digest is taken; a larger one is told by its size and time
READ_ALL_MOST = 20_000_000
GONE = KeptFile(-1, 0, None)


class Look(Record):
    """The files as they are now, and which of them are not as they were."""

    files: KeptFiles
    changed: tuple[str, ...] = ()


async def look(
    cwd: str,
    environ: Mapping[str, str],
    run_id: str | None,
    before: KeptFiles | None = None,
    *,
    most: int = FILES_MOST,
) -> Look | None:
    """`run_id`: the worker's newest; `most`: files that have changed. None: there is nothing to tell by."""
    repository = Repository(cwd, environ)
    try:
        async with asyncio.timeout(LOOK_S):
            base, names = await repository.touched()
            now = await _kept(await repository.top(), names, most)
            changed: tuple[str, ...] = ()
            if before is not None:
                since = names
                if before.base_commit != base:
                    _, since = await repository.touched(before.base_commit)  # with what was committed since
                known = now | await _kept(await repository.top(), {*before.files, *since} - now.keys(), most)
                named = dict.fromkeys([*before.files, *since])
                changed = tuple(name for name in named if not _is_same(before.files.get(name), known[name]))
    except (ClewError, OSError, TimeoutError) as error:
        log.debug("no look at the files: %r", error)
        return None
    return Look(KeptFiles(run_id, base, now), changed)


def _is_same(before: KeptFile | None, now: KeptFile) -> bool:
    """`before` is None: it was as the commit has it, and is not any more."""
    if before is None or before.size_bytes != now.size_bytes:
        return False
    if before.digest is not None and now.digest is not None:
        return before.digest == now.digest
    return before.changed_ns == now.changed_ns


async def _kept(top: str, names: Collection[str], most: int) -> dict[str, KeptFile]:
    """Raises TimeoutError when it takes too long, or is too much."""
    if len(names) > most:
        raise TimeoutError(f"{len(names):,} files have changed")
    return await asyncio.to_thread(_read, top, sorted(names), time.monotonic() + LOOK_S)


def _read(top: str, names: Sequence[str], until: float) -> dict[str, KeptFile]:
    found, room = dict[str, KeptFile](), READ_ALL_MOST
    for name in names:
        if time.monotonic() > until:
            raise TimeoutError("the files take too long")
        found[name] = _file(Path(top, name), min(room, READ_MOST))
        if found[name].digest is not None:
            room -= found[name].size_bytes
    return found


def _file(path: Path, most: int) -> KeptFile:
    """A file that cannot be read is told by its size and time alone."""
    try:
        seen = path.lstat()
    except OSError:
        return GONE
    digest = None
    try:
        if stat.S_ISLNK(seen.st_mode):
            digest = hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        elif stat.S_ISREG(seen.st_mode) and seen.st_size <= most:
            with path.open("rb") as file:
                digest = hashlib.sha256(file.read(most + 1)).hexdigest()
    except OSError:
        pass
    return KeptFile(seen.st_size, seen.st_mtime_ns, digest)
