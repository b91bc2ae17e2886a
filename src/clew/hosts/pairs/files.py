"""The files of a pair's directory when its worker stopped, to tell what somebody else has changed since.

In a git work tree those that are not as the commit has them, elsewhere all but hidden ones. Nothing is written there,
and of no file is kept what stands in it: its size, the time of its last change and, of the smaller ones in a git work
tree, a digest. A look takes a few seconds at most; where there is too much for that, it is not looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from clew.core.record import Record
from clew.errors import ClewError
from clew.git.changes import Repository
from clew.store.rows.pairs import KeptFile, KeptFiles

log = logging.getLogger("clew.hosts.pairs.pairs")

LOOK_S = 5.0
FILES_MOST = 5_000  # that have changed in a git work tree
LONG = f"they take over {LOOK_S:.0f} seconds"
PLAIN_MOST = 20_000  # in all, elsewhere
READ_MOST = 1_000_000  # bytes of a file whose digest is taken; a larger one is told by its size and time
READ_ALL_MOST = 20_000_000
GONE = KeptFile(-1, 0, None)
NO_GIT = ""  # instead of a commit


class TooMuch(Exception):
    """Why nobody looks."""


class Look(Record):
    """The files as they are now, and which of them are not as they were."""

    files: KeptFiles | None  # None: they are not known
    changed: tuple[str, ...] = ()
    too_much: str = ""  # why nobody looks


async def look(
    cwd: str,
    environ: Mapping[str, str],
    run_id: str | None,
    before: KeptFiles | None = None,
    *,
    most: int = FILES_MOST,
    plain_most: int = PLAIN_MOST,
) -> Look:
    """`run_id`: the worker's newest; `most`: files that have changed; `plain_most`: files where there is no git."""
    repository = Repository(cwd, environ)
    try:
        async with asyncio.timeout(LOOK_S):
            try:
                top = await repository.top()
            except ClewError:
                return await _plain(cwd, run_id, before, plain_most)
            return await _in_git(repository, top, run_id, before, most)
    except TooMuch as error:
        return Look(None, too_much=str(error))
    except TimeoutError:
        return Look(None, too_much=LONG)
    except (ClewError, OSError) as error:
        log.debug("no look at the files: %r", error)
        return Look(None)


async def _in_git(repository: Repository, top: str, run_id: str | None, before: KeptFiles | None, most: int) -> Look:
    base, names = await repository.touched()
    now = await _kept(top, names, most)
    changed: tuple[str, ...] = ()
    if before is not None and before.base_commit != NO_GIT:
        since = names
        if before.base_commit != base:
            _, since = await repository.touched(before.base_commit)  # with what was committed since
        known = now | await _kept(top, {*before.files, *since} - now.keys(), most)
        named = dict.fromkeys([*before.files, *since])
        changed = tuple(name for name in named if not _is_same(before.files.get(name), known[name]))
    return Look(KeptFiles(run_id, base, now), changed)


async def _plain(cwd: str, run_id: str | None, before: KeptFiles | None, most: int) -> Look:
    now = await asyncio.to_thread(_all_below, cwd, most, time.monotonic() + LOOK_S)
    changed: tuple[str, ...] = ()
    if before is not None and before.base_commit == NO_GIT:
        named = dict.fromkeys([*before.files, *now])
        changed = tuple(name for name in named if not _is_same(before.files.get(name), now.get(name, GONE)))
    return Look(KeptFiles(run_id, NO_GIT, now), changed)


def _all_below(cwd: str, most: int, until: float) -> dict[str, KeptFile]:
    """Without hidden ones: Clew's own, and the agents', would be among them. Raises TooMuch."""
    found, folders = dict[str, KeptFile](), [""]
    while folders:
        folder = folders.pop()
        with contextlib.suppress(OSError), os.scandir(Path(cwd, folder)) as entries:
            for entry in entries:
                if time.monotonic() > until:
                    raise TooMuch(LONG)
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{entry.name}/")
                    continue
                if len(found) == most:
                    raise TooMuch(f"there are more than {most:,}")
                seen = entry.stat(follow_symlinks=False)
                found[f"{folder}{entry.name}"] = KeptFile(seen.st_size, seen.st_mtime_ns, None)
    return dict(sorted(found.items()))


def _is_same(before: KeptFile | None, now: KeptFile) -> bool:
    """`before` is None: it was as the commit has it, and is not any more."""
    if before is None or before.size_bytes != now.size_bytes:
        return False
    if before.digest is not None and now.digest is not None:
        return before.digest == now.digest
    return before.changed_ns == now.changed_ns


async def _kept(top: str, names: Collection[str], most: int) -> dict[str, KeptFile]:
    """Raises TooMuch."""
    if len(names) > most:
        raise TooMuch(f"{len(names):,} have changed")
    return await asyncio.to_thread(_read, top, sorted(names), time.monotonic() + LOOK_S)


def _read(top: str, names: Sequence[str], until: float) -> dict[str, KeptFile]:
    found, room = dict[str, KeptFile](), READ_ALL_MOST
    for name in names:
        if time.monotonic() > until:
            raise TooMuch(LONG)
        found[name] = _file(Path(top, name), min(room, READ_MOST))
        if found[name].digest is not None:
            room -= found[name].size_bytes
    return found


def _file(path: Path, most: int) -> KeptFile:
    """A file that cannot be read, or is larger than `most`, is told by its size and time alone."""
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
