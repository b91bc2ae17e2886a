"""A thread in chunks, so that a push sends what is new and little else.

    rows             every row of the thread, one per line: rows of a run are together, rows that change are last
    sessions/A/ID    the agent's session file, in its portable form
    images/SHA256    an image of a prompt

Rules
1. A chunk is some lines, cut where the content itself says so (content-defined chunking): what was appended or changed
   makes new chunks in those places, and all others keep their names. The name of a chunk is the digest of its content.
2. A list of chunks is a tree: for every 32 names there is a chunk that lists them. So the manifest of a thread is about
   as small for a session of 50 MB as for one of 50 KB.
3. Nothing that comes from a remote is trusted: a name must match its content, and nothing may exceed its bounds.

At the remote, chunks are called pieces: in the names of objects, and in a manifest.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from clew.errors import UsageError
from clew.hosts.transfer.export_file import MAX_FILE_BYTES, MAX_PARTS, is_session_part
from clew.hosts.transfer.images import is_image_part
from clew.store.transfer.codec import HISTORY_TABLES, PIN_TABLES, STATE_TABLES, Tables, as_json, from_json
from clew.store.transfer.import_checks import MAX_COUNT, MAX_TIME

FORMAT = "clew-remote-thread"
VERSION = 1
ROWS = "rows"
MIN_CHUNK_BYTES, MEAN_CHUNK_BYTES, MAX_CHUNK_BYTES = 4 * 1024, 32 * 1024, 1024**2
FAN_OUT = 32
MAX_LEVELS = 6
NUMBER_DIGITS = 8  # of a manifest's number, so that names sort in order
THREAD_KEY = re.compile(r"[A-Za-z0-9-]{1,100}\Z")  # a thread's id, which becomes a part of a path

_DIGEST = re.compile(r"\A[0-9a-f]{64}\Z")  # anchored, because msgspec searches for a pattern anywhere in the text
_GROWING = ("turns", "turn_revisions", "pin_absorbed")  # tables to which rows are added, and in which few change


Digest = Annotated[str, Meta(pattern=_DIGEST.pattern)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Level = Annotated[tuple[Digest, ...], Meta(max_length=FAN_OUT)]


class ManifestPart(Struct, frozen=True):
    """What a manifest says about one part of a thread."""

    name: str
    size_bytes: Annotated[int, Meta(ge=0)]
    sha256: Digest
    # The names of chunks that no other chunk lists, by level of the tree, the lowest first.
    chunks: Annotated[tuple[Level, ...], Meta(min_length=1, max_length=MAX_LEVELS)] = msgspec.field(name="pieces")


class Manifest(Struct, frozen=True):
    """A thread as it was at one push."""

    thread_id: str
    number: Annotated[int, Meta(ge=1, lt=10**NUMBER_DIGITS - 1)]  # 1, 2, 3, …; there must always be a next one
    parent: str | None  # the digest of the manifest before this one
    state: str  # one digest of all rows except pins
    schema: Count
    name: str
    names: tuple[str, ...]  # of the thread; for a pair, of the pair and its two threads
    kind: str
    agent: str
    turns: Count
    pushed_at: Annotated[float, Meta(ge=0, le=MAX_TIME)]
    parts: tuple[ManifestPart, ...]
    digest: str = ""  # of the manifest itself, as it was read or written; not stored in it


def split(content: bytes) -> Iterator[bytes]:
    """Splits content into chunks. A longer line is more likely to end a chunk, so that chunks have similar sizes."""
    start, place = 0, 0
    while place < len(content):
        found = content.find(b"\n", place)
        end = len(content) if found < 0 else found + 1
        while end - start > MAX_CHUNK_BYTES:
            yield content[start : start + MAX_CHUNK_BYTES]
            start += MAX_CHUNK_BYTES
        line = content[max(place, start) : end]
        if end - start >= MIN_CHUNK_BYTES and zlib.crc32(line) * MEAN_CHUNK_BYTES < len(line) << 32:
            yield content[start:end]
            start = end
        place = end
    if start < len(content):
        yield content[start:]


def fold(names: Sequence[str], keep: Callable[[bytes], str]) -> tuple[tuple[str, ...], ...]:
    """Makes a tree of a list of names: `keep` stores a chunk that lists others, and returns its name."""
    levels = []
    while True:
        full = len(names) // FAN_OUT * FAN_OUT if len(names) > FAN_OUT else 0
        levels.append(tuple(names[full:]))
        if not full:
            return tuple(levels)
        names = [keep(as_json(names[start : start + FAN_OUT])) for start in range(0, full, FAN_OUT)]


def unfold(content: bytes) -> list[str]:
    """The names in a chunk that lists others. Raises UsageError."""
    found = parsed(content, "a list of chunks")
    if not isinstance(found, list) or len(found) != FAN_OUT or not all(_is_digest(each) for each in found):
        raise damaged("a list of chunks")
    return found


def to_lines(tables: Tables) -> tuple[bytes, str]:
    """Every row as a line, and one digest of what the rows say.

    The digest leaves out pins, which describe a session and not the conversation, and columns that are empty: a later
    version may have more columns.
    """
    lines, state = list[bytes](), hashlib.sha256()
    for table, row in _in_order(tables):
        line = as_json([table, row])
        lines.append(line)
        if table not in PIN_TABLES:
            filled = {name: value for name, value in row.items() if value is not None}
            state.update(line if len(filled) == len(row) else as_json([table, filled]))
    return b"".join(lines), state.hexdigest()


def _in_order(tables: Tables) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Rows without a run, then the rows of each run, then what sessions absorbed, then rows that change in place."""
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

    rows = [(table, row) for table in (*HISTORY_TABLES, *STATE_TABLES) for row in tables.get(table, ())]
    return sorted(rows, key=rank)


def from_lines(content: bytes) -> Tables:
    """Rows by table. Raises UsageError; the caller checks the rows themselves."""
    tables: Tables = {table: [] for table in (*HISTORY_TABLES, *STATE_TABLES)}
    for line in content.removesuffix(b"\n").split(b"\n"):
        found = parsed(line, "a row")
        if not isinstance(found, list) or [type(each) for each in found] != [str, dict] or found[0] not in tables:
            raise UsageError("The remote holds rows that this Clew does not know.", hint="Update Clew.")
        tables[found[0]].append(found[1])
    return tables


def pack_manifest(manifest: Manifest) -> bytes:
    fields = msgspec.to_builtins(manifest)
    del fields["digest"]
    return as_json({"format": FORMAT, "version": VERSION, **fields})


def read_manifest(raw: bytes) -> Manifest:
    """Raises UsageError, in one line, for what is not a manifest."""
    found = parsed(raw, "a manifest")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise damaged("a manifest")
    version = found.get("version")
    if type(version) is int and version > VERSION:
        raise newer(version, VERSION)
    try:
        manifest = msgspec.convert(found, Manifest)
    except msgspec.ValidationError as error:
        raise damaged("a manifest") from error
    names = [part.name for part in manifest.parts]
    if version != VERSION or ROWS not in names or len(set(names)) != len(names) or len(names) > MAX_PARTS:
        raise damaged("a manifest")
    if not all(name == ROWS or is_session_part(name) or is_image_part(name) for name in names):
        raise damaged("a manifest")
    if sum(part.size_bytes for part in manifest.parts) > MAX_FILE_BYTES:
        raise UsageError("The thread at the remote is too large.")
    return msgspec.structs.replace(manifest, digest=sha256(raw))


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
        f"The remote was written by a newer Clew (version {version}; this one knows {known}).", hint="Update Clew."
    )
