"""The file of an archive: one thread, or the two of a pair, with all rows, as JSON that only its owner can read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from clew.core.ids import SHORT_ID
from clew.core.record import Record
from clew.core.thread import Thread
from clew.errors import NotFound, StoreError, UsageError
from clew.hosts.transfer.images import ARCHIVED, to_archive
from clew.store.transfer.codec import Dump, check_schema, is_newer, packed, unpacked
from clew.system.files import write_whole
from clew.system.folders import make_private

NO_IMAGES: Mapping[str, bytes] = MappingProxyType({})
HEAD_CHARS = 300_000  # the beginning of a file, which has the thread's own row
_NAME = re.compile(r"(?P<name>.+)-(?P<at>\d{1,12})-[^-]{1,8}(?:-\d+)?\.json\Z")
_HEAD = re.compile(
    r'\{\s*"schema": (?P<schema>\d{1,9}),\s*(?:"packed": \w+,\s*"turn_count": (?P<turns>\d{1,12}),\s*)?'
    r'(?:"also": "(?P<also>[A-Za-z0-9._ -]{0,1000})",\s*)?"thread": '
)


class ArchiveFile(Record):
    """What the beginning of an archive says."""

    path: Path
    name: str  # of the thread
    archived_at: float  # according to the file's name
    changed_at: float  # according to the file system; later than `archived_at` if the file was copied here
    size_bytes: int
    kind: str | None  # None: it cannot be read, or a newer Clew wrote it
    thread_id: str | None
    turns: int | None  # with archived ones; None: not known
    problem: str | None
    also: tuple[str, ...] = ()  # if it is a pair: the other thread's name, and the pair's
    cwd: str | None = None  # the thread's directory; None: not known


def write(
    folder: Path, thread: Thread, dumps: Sequence[Dump], at: float, images: Mapping[str, bytes] = NO_IMAGES
) -> Path:
    """Writes the dumps; the first is that of `thread`. The file is on disk when this returns. Raises StoreError."""
    own, *others = dumps
    rows = {key: value for key, value in own.items() if key != "schema"}
    count = sum(len(dump["turns"]) for dump in dumps)
    also = [dump["thread"]["name"] for dump in others] + [row["name"] for row in own.get("pairs", ())]
    named = {"also": " ".join(also)} if also else {}
    content = {"schema": own["schema"], "packed": True, "turn_count": count, **named, **packed(rows)}
    if others:
        content["companions"] = packed(list(others))
    if images:
        content[ARCHIVED] = to_archive(images)
    try:
        make_private(folder)
        path = _free_path(folder, f"{thread.name}-{int(at)}-{thread.id[:SHORT_ID]}")
        write_whole(path, json.dumps(content, indent=1).encode())
    except OSError as error:
        raise StoreError(
            f"The archive of {thread.name} cannot be written: {error.strerror}.",
            kind="full",
            hint="Nothing was deleted. Free some space, or check that the folder is yours.",
        ) from error
    return path


def _free_path(folder: Path, stem: str) -> Path:
    """A new path, numbered if needed: a thread may be archived, restored and archived again within a second."""
    path, number = folder / f"{stem}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.json"
    return path


def read(path: Path) -> list[Dump]:
    """The dumps in an archive, in the order in which they were written. Raises NotFound, or UsageError in one line."""
    try:
        if not path.is_file():
            raise NotFound(f"There is no archive {path}.", hint="clew threads archives lists them.")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(content, dict) or type(content.get("schema")) is not int:
        raise _damaged(path)
    check_schema(content["schema"], str(path))
    companions = content.pop("companions", [])
    dumps = [content, *companions] if isinstance(companions, list) else []
    if not dumps or not all(_is_dump(dump) for dump in dumps):
        raise _damaged(path)
    try:
        return unpacked(dumps) if content.get("packed") else dumps
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> UsageError:
    return UsageError(f"{path} is damaged, or not an archive.", hint="clew threads archives lists the archives.")


def _is_dump(dump: Any) -> bool:
    """Whether it has a thread and lists of rows. The rows themselves are checked when they are restored."""
    if (
        not isinstance(dump, dict)
        or not isinstance(dump.get("thread"), dict)
        or not isinstance(dump.get("turns"), list)
    ):
        return False
    return all(isinstance(row, dict) for rows in dump.values() if isinstance(rows, list) for row in rows)


def describe(path: Path) -> ArchiveFile:
    """Reads only the beginning of the file. Raises OSError."""
    status = path.stat()
    named = _NAME.match(path.name)
    found = ArchiveFile(
        path=path,
        name=named["name"] if named else path.stem,
        archived_at=float(named["at"]) if named else status.st_mtime,
        changed_at=status.st_mtime,
        size_bytes=status.st_size,
        kind=None,
        thread_id=None,
        turns=None,
        problem="damaged",
    )
    with path.open(encoding="utf-8", errors="replace") as file:
        head = file.read(HEAD_CHARS)
    begun = _HEAD.match(head)
    if begun is None:
        return found
    if is_newer(int(begun["schema"])):
        return found.replace(problem="written by a newer Clew")
    try:
        thread, _ = json.JSONDecoder().raw_decode(head, begun.end())
        name, kind, identity = str(thread["name"]), str(thread["kind"]), str(thread["id"])
        cwd = None if thread.get("cwd") is None else str(thread["cwd"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return found
    turns = None if begun["turns"] is None else int(begun["turns"])
    also = tuple((begun["also"] or "").split())
    return found.replace(
        name=name, kind=kind, thread_id=identity, turns=turns, problem=None, also=also, cwd=cwd and str(cwd)
    )


def all_in(folder: Path) -> list[ArchiveFile]:
    """The newest first."""
    found = []
    for path in folder.glob("*.json") if folder.is_dir() else ():
        try:
            if path.is_file() and not path.is_symlink():
                found.append(describe(path))
        except OSError:
            continue  # it was just removed, or belongs to another user
    return sorted(found, key=lambda file: (file.archived_at, file.path.name), reverse=True)
