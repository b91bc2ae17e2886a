"""A thread in pieces, so that a push sends what is new and little else.

    rows             every row of the thread, one to a line: what a run added stands together, what changes stands last
    sessions/A/ID    the agent's own session file

Rules
1. A piece is some lines, cut where the lines themselves say so: what was appended or changed makes new pieces of the
   places where it stands, and all the others keep their names. A name is the digest of what is in it.
2. A list of pieces is a tree: of every 32 names there is a piece that lists them. So what tells which pieces a thread
   has is about as small for a session of 50 MB as for one of 50 KB.
3. Nothing of a remote is believed: a name must fit what is in it, and nothing may grow beyond its bounds.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from clew.core.record import Record
from clew.errors import UsageError
from clew.hosts.portable_file import FILE_MOST, PARTS_MOST, as_json, from_json, session_part
from clew.hosts.portable_rows import HISTORY, STATE, Tables
from clew.store.foreign import COUNT_MOST, TIME_MOST

FORMAT = "clew-remote-thread"
VERSION = 1
ROWS = "rows"
PIECE_LEAST, PIECE_MEAN, PIECE_MOST = 4 * 1024, 32 * 1024, 1024**2
FAN = 32
LEVELS_MOST = 6
MANIFEST_MOST = 1024**2
DIGITS = 8  # of a manifest's number, so that names are in order
KEY = re.compile(r"[A-Za-z0-9-]{1,100}\Z")  # of a thread: its id, and a part of a path

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_GROWING = ("turns", "turn_revisions", "pin_absorbed")  # tables whose rows come one by one, and seldom change


class Part(Record):
    """What the manifest says of one."""

    name: str
    size_bytes: int
    sha256: str
    pieces: tuple[tuple[str, ...], ...]  # the names that no piece lists yet, by level; the lowest first


class Manifest(Record):
    """A thread as it was pushed once."""

    thread_id: str
    number: int  # 1, 2, 3, …
    parent: str | None  # the digest of the one before
    state: str  # what its rows said, in one digest
    schema: int
    name: str
    names: tuple[str, ...]  # of all threads in it: a pair is two
    kind: str
    agent: str
    turns: int
    pushed_at: float
    parts: tuple[Part, ...]
    digest: str = ""  # of itself, as it was read or written


def cut(content: bytes) -> Iterator[bytes]:
    """Into pieces. A longer line is the more likely to end one, so that pieces are about alike in size."""
    start, place = 0, 0
    while place < len(content):
        found = content.find(b"\n", place)
        end = len(content) if found < 0 else found + 1
        while end - start > PIECE_MOST:
            yield content[start : start + PIECE_MOST]
            start += PIECE_MOST
        line = content[max(place, start) : end]
        if end - start >= PIECE_LEAST and zlib.crc32(line) * PIECE_MEAN < len(line) << 32:
            yield content[start:end]
            start = end
        place = end
    if start < len(content):
        yield content[start:]


def fold(names: Sequence[str], keep: Callable[[bytes], str]) -> tuple[tuple[str, ...], ...]:
    """The tree of a list: `keep` stores a piece that lists others, and gives its name."""
    levels = []
    while True:
        full = len(names) // FAN * FAN if len(names) > FAN else 0
        levels.append(tuple(names[full:]))
        if not full:
            return tuple(levels)
        names = [keep(as_json(names[start : start + FAN])) for start in range(0, full, FAN)]


def listed(content: bytes) -> list[str]:
    """Of a piece that lists others. Raises UsageError."""
    found = parsed(content, "a list of its pieces")
    if not isinstance(found, list) or len(found) != FAN or not all(_is_digest(each) for each in found):
        raise damaged("a list of its pieces")
    return found


def to_lines(tables: Tables) -> tuple[bytes, str]:
    """Every row as a line, and one digest of what they say.

    The digest leaves out pins, which say what a session holds and not what was said, and fields that hold nothing: a
    later version may have more of them.
    """
    lines, state = list[bytes](), hashlib.sha256()
    for table, row in _in_order(tables):
        line = as_json([table, row])
        lines.append(line)
        if table not in ("pins", "pin_absorbed"):
            said = {name: value for name, value in row.items() if value is not None}
            state.update(line if len(said) == len(row) else as_json([table, said]))
    return b"".join(lines), state.hexdigest()


def _in_order(tables: Tables) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Rows without a run, then run by run, then what sessions absorbed, then what changes in its place."""
    runs = sorted(tables["runs"], key=lambda run: (run["created_at"], run["thread_id"], run["position"]))
    place = {run["id"]: number for number, run in enumerate(runs)}
    run_of = {run["prompt_turn_id"]: run["id"] for run in runs}
    run_of |= {turn["id"]: turn["run_id"] for turn in tables["turns"] if turn.get("run_id") is not None}

    def rank(each: tuple[str, Mapping[str, Any]]) -> tuple[int, int]:
        table, row = each
        if table == "pin_absorbed":
            return 2, 0
        own = {"runs": "id", "turns": "id", "turn_revisions": "turn_id"}.get(table, "run_id")
        named = row.get(own)
        run = run_of.get(named) if table in ("turns", "turn_revisions") else named
        if run in place and table in (*_GROWING, "runs", "attempts", "events", "questions"):
            return 1, place[run]
        return (0, 0) if table in _GROWING else (3, 0)

    rows = [(table, row) for table in (*HISTORY, *STATE) for row in tables.get(table, ())]
    return sorted(rows, key=rank)


def from_lines(content: bytes) -> Tables:
    """Rows by table. Raises UsageError; the rows themselves are checked by who reads them."""
    tables: Tables = {table: [] for table in (*HISTORY, *STATE)}
    for line in content.removesuffix(b"\n").split(b"\n"):
        found = parsed(line, "a row")
        if not isinstance(found, list) or [type(each) for each in found] != [str, dict] or found[0] not in tables:
            raise UsageError("The remote holds rows that this Clew does not know.", hint="Update Clew.")
        tables[found[0]].append(found[1])
    return tables


def pack_manifest(manifest: Manifest) -> bytes:
    said = {name: value for name, value in manifest.as_dict().items() if name != "digest"}
    return as_json({"format": FORMAT, "version": VERSION, **said})


def read_manifest(raw: bytes) -> Manifest:
    """Raises UsageError, in one line, for whatever is none."""
    found = parsed(raw, "a manifest")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise damaged("a manifest")
    version = found.get("version")
    if type(version) is int and version > VERSION:
        raise newer(version, VERSION)
    try:
        parts = tuple(_part(each) for each in found["parts"])
        names = tuple(str(name) for name in found["names"])
        texts = {name: _typed(found[name], str) for name in ("thread_id", "state", "name", "kind", "agent")}
        counts = {name: _typed(found[name], int) for name in ("number", "schema", "turns")}
        parent = None if found["parent"] is None else _typed(found["parent"], str)
        at = float(_typed(found["pushed_at"], (int, float)))
    except (KeyError, TypeError, ValueError) as error:
        raise damaged("a manifest") from error
    named = [part.name for part in parts]
    if not 0 <= at <= TIME_MOST or not all(0 <= each <= COUNT_MOST for each in counts.values()):
        raise damaged("a manifest")
    if not 1 <= counts["number"] < 10**DIGITS - 1:  # there must be a next one
        raise damaged("a manifest")
    if version != 1 or ROWS not in named or len(set(named)) != len(named) or len(named) > PARTS_MOST:
        raise damaged("a manifest")
    if sum(part.size_bytes for part in parts) > FILE_MOST:
        raise UsageError("The thread at the remote is too large.")
    digest = sha256(raw)
    return Manifest(parent=parent, names=names, pushed_at=at, parts=parts, digest=digest, **texts, **counts)


def _part(found: Any) -> Part:
    name, size, digest, levels = found["name"], found["size_bytes"], found["sha256"], found["pieces"]
    words = str(name).removesuffix(".jsonl").split("/")
    is_session = len(words) == 3 and session_part(words[1], words[2]) == name
    if not (name == ROWS or is_session) or type(size) is not int or size < 0 or not _is_digest(digest):
        raise ValueError("no part")
    if not 1 <= len(levels) <= LEVELS_MOST:
        raise ValueError("no part")
    if not all(len(level) <= FAN and all(_is_digest(each) for each in level) for level in levels):
        raise ValueError("no part")
    return Part(name, size, digest, tuple(tuple(level) for level in levels))


def _typed(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError("another type")
    return value


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.match(value) is not None


def parsed(raw: bytes, what: str) -> Any:
    try:
        return from_json(raw)
    except UsageError as error:
        raise damaged(what) from error


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def damaged(what: str) -> UsageError:
    return UsageError(f"The remote is damaged: {what} is not what was pushed.", hint="Nothing was stored.")


def newer(version: int, known: int) -> UsageError:
    return UsageError(
        f"The remote is of a newer Clew (version {version}; this one knows {known}).", hint="Update Clew."
    )
