"""An archive: one thread, or the two of a pair, with all rows, in a JSON file that only its owner reads.

Texts stand in it as in the database (`packed`), because JSON cannot tell two halves of a character from the whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from clew.core.record import Record
from clew.core.thread import Thread
from clew.errors import NotFound, StoreError, UsageError
from clew.private_folder import make_private
from clew.store import sql
from clew.store.restoring import TABLES
from clew.store.text import pack, unpack

HEAD_CHARS = 300_000  # of a file, in which the thread's own row is looked for
_NAME = re.compile(r"(?P<name>.+)-(?P<at>\d{1,12})-[^-]{1,8}(?:-\d+)?\.json\Z")
_HEAD = re.compile(
    r'\{\s*"schema": (?P<schema>\d{1,9}),\s*(?:"packed": \w+,\s*"turn_count": (?P<turns>\d{1,12}),\s*)?'
    r'(?:"also": "(?P<also>[A-Za-z0-9._ -]{0,1000})",\s*)?"thread": '
)

Dump = Mapping[str, Any]
Tables = dict[str, list[dict[str, Any]]]


class ArchiveFile(Record):
    """What a look at an archive tells."""

    path: Path
    name: str  # of the thread
    archived_at: float  # as its name says
    changed_at: float  # the file: a copy that was just put here is newer than its name
    size_bytes: int
    kind: str | None  # None: it cannot be read, or is of a newer Clew
    thread_id: str | None
    turns: int | None  # that it had, archived ones too; None: not known
    problem: str | None
    also: tuple[str, ...] = ()  # of a pair: the other thread's name, and its own


def write(folder: Path, thread: Thread, dumps: Sequence[Dump], at: float) -> Path:
    """The thread's own dump comes first. The file is on disk when this returns. Raises StoreError."""
    own, *others = dumps
    rows = {key: value for key, value in own.items() if key != "schema"}
    count = sum(len(dump["turns"]) for dump in dumps)
    also = [dump["thread"]["name"] for dump in others] + [row["name"] for row in own.get("pairs", ())]
    named = {"also": " ".join(also)} if also else {}
    content = {"schema": own["schema"], "packed": True, "turn_count": count, **named, **_texts(rows, pack)}
    if others:
        content["companions"] = _texts(list(others), pack)
    try:
        make_private(folder)
        path = _free_path(folder, f"{thread.name}-{int(at)}-{thread.id[:8]}")
        _write_whole(path, content)
    except OSError as error:
        raise StoreError(
            f"The archive of {thread.name} cannot be written: {error.strerror}.",
            kind="full",
            hint="Nothing was deleted. Free some space, or see that the folder is yours.",
        ) from error
    return path


def _write_whole(path: Path, content: Dump) -> None:
    """Under its name only when all of it is on disk; else there is no file."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _free_path(folder: Path, stem: str) -> Path:
    """Put away, brought back and put away again within a second."""
    path, number = folder / f"{stem}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.json"
    return path


def read(path: Path) -> list[Dump]:
    """The dumps in it, the thread's own first. Raises NotFound, or UsageError in one line."""
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
    if content["schema"] > len(sql.migrations()):
        raise UsageError(f"{path} was written by a newer Clew.", hint="Update Clew.")
    companions = content.pop("companions", [])
    dumps = [content, *companions] if isinstance(companions, list) else []
    if not dumps or not all(_is_dump(dump) for dump in dumps):
        raise _damaged(path)
    try:
        return _texts(dumps, unpack) if content.get("packed") else dumps
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error


def _damaged(path: Path) -> UsageError:
    return UsageError(f"{path} is damaged, or no archive.", hint="clew threads archives lists those that are there.")


def _is_dump(dump: Any) -> bool:
    """Its thread, and lists of rows: what is in them is looked at by who restores it."""
    if (
        not isinstance(dump, dict)
        or not isinstance(dump.get("thread"), dict)
        or not isinstance(dump.get("turns"), list)
    ):
        return False
    return all(isinstance(row, dict) for rows in dump.values() if isinstance(rows, list) for row in rows)


def _texts(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _texts(each, change) for key, each in value.items()}
    return [_texts(each, change) for each in value] if isinstance(value, list) else value


def look_at(path: Path) -> ArchiveFile:
    """Without reading the whole of it. Raises OSError."""
    seen = path.stat()
    named = _NAME.match(path.name)
    found = ArchiveFile(
        path=path,
        name=named["name"] if named else path.stem,
        archived_at=float(named["at"]) if named else seen.st_mtime,
        changed_at=seen.st_mtime,
        size_bytes=seen.st_size,
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
    if int(begun["schema"]) > len(sql.migrations()):
        return found.replace(problem="of a newer Clew")
    try:
        thread, _ = json.JSONDecoder().raw_decode(head, begun.end())
        name, kind, identity = str(thread["name"]), str(thread["kind"]), str(thread["id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return found
    turns = None if begun["turns"] is None else int(begun["turns"])
    also = tuple((begun["also"] or "").split())
    return found.replace(name=name, kind=kind, thread_id=identity, turns=turns, problem=None, also=also)


def all_in(folder: Path) -> list[ArchiveFile]:
    """The newest first."""
    found = []
    for path in folder.glob("*.json") if folder.is_dir() else ():
        try:
            if path.is_file() and not path.is_symlink():
                found.append(look_at(path))
        except OSError:
            continue  # it went while we looked, or is not ours
    return sorted(found, key=lambda file: (file.archived_at, file.path.name), reverse=True)


def merged(content: Sequence[Dump]) -> Tables:
    """Rows by table. A pair of which only one thread is in the file is none."""
    tables: Tables = {"threads": [dict(dump["thread"]) for dump in content]}
    for table in (*TABLES, "pins", "pin_absorbed"):
        rows = [dict(row) for dump in content for row in dump.get(table, ())]
        tables[table] = [row for place, row in enumerate(rows) if row not in rows[:place]] if "pair" in table else rows
    ids = {row.get("id") for row in tables["threads"]}
    whole = {
        row.get("id")
        for row in tables["pairs"]
        if {row.get("instructor_thread_id"), row.get("worker_thread_id")} <= ids
    }
    tables["pairs"] = [row for row in tables["pairs"] if row.get("id") in whole]
    tables["pair_rounds"] = [row for row in tables["pair_rounds"] if row.get("pair_id") in whole]
    return tables
