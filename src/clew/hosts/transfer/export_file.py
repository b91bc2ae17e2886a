"""The file of an exported thread: a zip of plain parts, and a manifest that says what they are.

    manifest.json            format, version, schema, about the thread; the size and SHA-256 of every part
    history.json             the thread's own row, its turns (archived ones too), the texts that edits replaced
    state.json               the rest: runs, attempts, events, pins, and what its kind adds (not when redacted)
    sessions/AGENT/ID.jsonl  the agent's session file in its portable form
    images/SHA256            an image of a prompt, named by the digest of its bytes (not when redacted)

Rules
1. Nothing is compressed, so no part can be larger than the file: there can be no zip bomb. Order, times and modes are
   fixed, so the same thread gives the same bytes.
2. The whole file is refused for an unknown name, for a name that occurs twice or differs from another by case alone,
   for a link and for a part that the manifest does not list. Nothing is ever extracted under a name that the file
   chose.
3. The version is checked first: a later format may have another layout.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clew.core.record import Record
from clew.errors import UsageError
from clew.hosts.transfer.images import from_parts
from clew.store.transfer.codec import AGAIN, HISTORY_TABLES, STATE_TABLES, PortableThread, Tables, as_json, from_json

if TYPE_CHECKING:
    import zipfile

FORMAT = "clew-thread"
VERSION = 1
MAX_FILE_BYTES = 2 * 1024**3
MAX_MANIFEST_BYTES = 1024**2
MAX_PARTS = 4000
EXPORTED = "clew threads export writes one; clew threads restore reads an archive."
MANIFEST, HISTORY, STATE = "manifest.json", "history.json", "state.json"

_PART = re.compile(
    r"(?:history\.json|state\.json|sessions/[a-z0-9_-]{1,40}/[A-Za-z0-9-]{1,100}\.jsonl|images/[0-9a-f]{64})\Z"
)
_MODE = (stat.S_IFREG | 0o600) << 16
_FIRST_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold


class Unpacked(Record):
    """A file whose parts match its manifest."""

    manifest: Mapping[str, Any]
    parts: Mapping[str, bytes]  # by name


def session_part(agent: str, session_id: str) -> str | None:
    """The name of a session's part. None: the agent or the id cannot be in a file name."""
    name = f"sessions/{agent}/{session_id}.jsonl"
    return name if _PART.match(name) else None


def is_session_part(name: str) -> bool:
    return name.startswith("sessions/") and _PART.match(name) is not None


def parts_of(tables: Tables) -> dict[str, bytes]:
    """The rows as parts. A redacted thread has its history only."""
    named = {HISTORY: HISTORY_TABLES, STATE: STATE_TABLES}
    return {
        part: as_json({table: tables[table] for table in its_tables})
        for part, its_tables in named.items()
        if tables.keys() >= set(its_tables)
    }


def read_export(raw: bytes) -> PortableThread:
    """The thread in the file, not checked yet. Raises UsageError for what is not an export."""
    file = unpack(raw)
    history = from_json(file.parts[HISTORY])
    state = from_json(file.parts[STATE]) if STATE in file.parts else {}
    if not isinstance(history, dict) or not isinstance(state, dict):
        raise UsageError("The file holds something that this Clew does not know.", hint="Update Clew.")
    state.pop("pair_files", None)  # an older Clew wrote this table, which is valid only where it was written
    if state.keys() & history.keys():
        raise UsageError("The file holds a table twice.", hint=AGAIN)
    sessions = {name: content for name, content in file.parts.items() if is_session_part(name)}
    return PortableThread(file.manifest.get("schema"), history | state, sessions, from_parts(file.parts))


def pack(about: Mapping[str, Any], parts: Mapping[str, bytes]) -> bytes:
    import zipfile

    listed = [{"name": name, "size_bytes": len(parts[name]), "sha256": _sha256(parts[name])} for name in sorted(parts)]
    manifest = {"format": FORMAT, "version": VERSION, **about, "parts": listed}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [(MANIFEST, as_json(manifest, indent=1)), *sorted(parts.items())]:
            info = zipfile.ZipInfo(name, _FIRST_TIME)
            info.create_system = 3  # Unix, so that the mode is understood
            info.external_attr = _MODE
            archive.writestr(info, content)
    return out.getvalue()


def unpack(raw: bytes) -> Unpacked:
    """Reads the parts. Raises UsageError, in one line, for a file that breaks one of the rules above."""
    import zipfile

    if not raw.startswith(b"PK\x03\x04"):
        raise UsageError("The file is not an export of Clew.", hint=EXPORTED)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            return _read(archive, len(raw))
    except (zipfile.BadZipFile, EOFError, ValueError, OverflowError, RuntimeError, OSError) as error:
        raise UsageError("The file is damaged.", hint=AGAIN) from error


def _read(archive: zipfile.ZipFile, size: int) -> Unpacked:
    listed = archive.infolist()
    if len(listed) > MAX_PARTS:
        raise _refused("it has too many parts")
    manifest = _manifest(archive, size)
    names = [info.filename for info in listed]
    if len({name.casefold() for name in names}) != len(names):
        raise _refused("two of its parts have the same name")
    if sum(info.file_size for info in listed) > size:
        raise _refused("its parts are larger than the file")
    listed_parts = {part["name"]: part for part in manifest["parts"]}
    if set(names) != {MANIFEST, *listed_parts} or HISTORY not in listed_parts:
        raise _refused("its parts are not those of its manifest")
    parts = {}
    for info in listed:
        if info.filename == MANIFEST:
            continue
        _check(info)
        content = archive.read(info)
        part = listed_parts[info.filename]
        if len(content) != part["size_bytes"] or _sha256(content) != part["sha256"]:
            raise UsageError(f"The file is damaged: {info.filename} is not what was exported.", hint=AGAIN)
        parts[info.filename] = content
    return Unpacked(manifest, parts)


def _manifest(archive: zipfile.ZipFile, size: int) -> dict[str, Any]:
    try:
        info = archive.getinfo(MANIFEST)
    except KeyError:
        raise UsageError("The file is not an export of Clew: it has no manifest.", hint=EXPORTED) from None
    if info.file_size > min(MAX_MANIFEST_BYTES, size):
        raise _refused("its manifest is too large")
    _check(info)
    found = from_json(archive.read(info))
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UsageError("The file is not an export of Clew.", hint=EXPORTED)
    version = found.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _refused("its manifest names no version")
    if version > VERSION:
        raise UsageError(
            f"The file was written by a newer Clew (version {version}; this one knows {VERSION}).", hint="Update Clew."
        )
    listed = found.get("parts")
    if not isinstance(listed, list) or not all(_is_part(part) for part in listed):
        raise _refused("its manifest does not list its parts")
    return found


def _is_part(part: object) -> bool:
    return (
        isinstance(part, dict)
        and isinstance(part.get("name"), str)
        and _PART.match(part["name"]) is not None
        and type(part.get("size_bytes")) is int
        and isinstance(part.get("sha256"), str)
    )


def _check(info: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG) or info.is_dir():
        raise _refused("it holds a link or a folder")
    if info.compress_type != 0 or info.compress_size != info.file_size or info.flag_bits & 1:
        raise _refused("a part of it is compressed")


def _refused(why: str) -> UsageError:
    return UsageError(f"Clew does not write such files: {why}.", hint=AGAIN)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
