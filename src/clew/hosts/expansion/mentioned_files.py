"""Reads the files that a prompt mentions. What a mention names is judged by its real target, with links followed.

A file in the work directory is read. One outside needs what the agent would need to read it: a person's permission
under `ask` and `edits`; nothing under `all`; under `read-only` it is refused. Clew's own folder is never read, and
neither is a pipe or a device.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from clew.core.expansion.mentions import FilePart, Mention
from clew.core.images import MAX_IMAGE_BYTES, ImageContent, media_type_of
from clew.core.record import Record
from clew.core.thread import Permissions
from clew.errors import UsageError

PROCESSES = "/proc"  # where `self` is Clew's own process, whose environment may hold what agents do not get
MAX_BYTES = 256 * 1024  # of one file: the plain CLI attaches no more either
MAX_LINES = 2_000
MAX_ENTRIES = 1_000  # of a folder's list
MAX_SCANNED_BYTES = 50_000_000  # how much of a file is read to find the lines that were asked for
MAX_FILES = 50
MAX_TOTAL_CHARS = 1_000_000


class Access(StrEnum):
    """What reading a file needs."""

    FREE = "free"
    ASK = "ask"  # a person's permission
    REFUSED = "refused"


class MentionedFile(Record):
    """A file or a folder that a mention names."""

    mention: Mention
    part: FilePart
    path: Path  # absolute, with links followed
    is_folder: bool


def found(mention: Mention, work_dir: str, home: str | None) -> MentionedFile | None:
    """The first thing that the mention may name. None: there is none, so it is text. Raises UsageError for a pipe, a
    device and what is in /proc."""
    for part in mention.candidates:
        with contextlib.suppress(OSError, ValueError):  # the name is too long, or has a NUL in it
            path = Path(os.path.realpath(os.path.join(work_dir, _with_home(part.path, home))))  # noqa: PTH118
            mode = path.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or path.is_relative_to(PROCESSES):
                raise UsageError(f"{shown(mention)} is neither a file nor a folder that can be sent.", hint=_AS_TEXT)
            return MentionedFile(mention, part, path, stat.S_ISDIR(mode))
    return None


_AS_TEXT = "Write the name without the @, or in backticks, to send it as text."


def shown(mention: Mention) -> str:
    """The mention for a message. It may come from a file's text, so it is one short line."""
    return "".join(each if each.isprintable() else "?" for each in mention.written)[:200]


def _with_home(path: str, home: str | None) -> str:
    return home + path[1:] if home and (path == "~" or path.startswith("~/")) else path


def access(file: MentionedFile, work_dir: str, permissions: Permissions, hidden: Iterable[str]) -> Access:
    """Raises UsageError for Clew's own folder."""
    inside = file.path.is_relative_to(work_dir)
    for path in hidden:
        # A work tree that Clew made is inside its folder.
        if file.path.is_relative_to(path) and not (inside and Path(work_dir).is_relative_to(path)):
            raise UsageError(f"{shown(file.mention)} is in Clew's own folder, which is never sent.", hint=_AS_TEXT)
    if inside or permissions is Permissions.ALL:
        return Access.FREE
    return Access.REFUSED if permissions is Permissions.READ_ONLY else Access.ASK


def read(file: MentionedFile) -> str:
    """The numbered lines of the file, or the list of the folder. Raises UsageError."""
    try:
        return _entries(file.path) if file.is_folder else _lines(file)
    except OSError as error:
        raise UsageError(f"{shown(file.mention)} cannot be read: {error.strerror}.", hint=_AS_TEXT) from error


def image(file: MentionedFile) -> ImageContent | None:
    """The image that the file is, of which too much is as bad as all; None: it is none. Raises UsageError."""
    if file.is_folder or file.part.first is not None:
        return None
    try:
        with _opened(file) as content:
            head = content.read(16)
            if media_type_of(head) is None:
                return None
            return ImageContent(head + content.read(MAX_IMAGE_BYTES), file.path.name)
    except OSError as error:
        raise UsageError(f"{shown(file.mention)} cannot be read: {error.strerror}.", hint=_AS_TEXT) from error


def label(file: MentionedFile, work_dir: str) -> str:
    path = str(file.path.relative_to(work_dir)) if file.path.is_relative_to(work_dir) else str(file.path)
    path = "".join(each if each.isprintable() else "?" for each in path)
    if file.is_folder:
        return f"folder {path}"
    first, last = file.part.first, file.part.last
    if first is None:
        return f"file {path}"
    return f"file {path}, line {first}" if first == last else f"file {path}, lines {first}-{last}"


def _entries(folder: Path) -> str:
    with os.scandir(folder) as entries:
        names = [entry.name + "/" * entry.is_dir() for entry in islice(entries, MAX_ENTRIES + 1)]
    left_out = ["[There are more entries.]"] if len(names) > MAX_ENTRIES else []
    names = ["".join(each if each.isprintable() else "?" for each in name) for name in sorted(names)[:MAX_ENTRIES]]
    return "\n".join([*names, *left_out]) or "[The folder is empty.]"


def _lines(file: MentionedFile) -> str:
    first, last = file.part.first or 1, file.part.last
    last = first + MAX_LINES - 1 if last is None else min(last, first + MAX_LINES - 1)
    lines, chars, number, more = list[str](), 0, 0, False
    with _opened(file) as content:
        size = os.fstat(content.fileno()).st_size
        if file.part.first is None and size > MAX_BYTES:
            return (
                f"[The file has {size:,} bytes, more than the {MAX_BYTES:,} that are sent. Read the part "
                "that you need with your own tools.]"
            )
        scanned = 0
        while scanned < MAX_SCANNED_BYTES and (line := content.readline(MAX_BYTES)):
            scanned += len(line)
            number += 1
            if b"\0" in line:
                return f"[This is not text. The file has {size:,} bytes.]"
            if number > last or chars > MAX_BYTES:
                more = True
                break
            if number >= first:
                lines.append(f"{number}\t{line.decode('utf-8', 'replace').rstrip(chr(10)).rstrip(chr(13))}")
                chars += len(lines[-1])
    if first > max(number, 1):
        return f"[The file has only {number:,} lines.]"
    if more and (file.part.last is None or number <= file.part.last):
        lines.append(f"[The lines from {first + len(lines):,} on are left out here.]")
    return "\n".join(lines) or "[The file is empty.]"


@contextlib.contextmanager
def _opened(file: MentionedFile) -> Iterator[BinaryIO]:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(file.path, flags), "rb") as content:
        if not stat.S_ISREG(os.fstat(content.fileno()).st_mode) or os.path.realpath(file.path) != str(file.path):
            raise OSError(0, "it was replaced meanwhile")
        yield content


def check_amount(files: Sequence[MentionedFile], texts: Sequence[str]) -> None:
    chars = sum(map(len, texts))
    if len(files) > MAX_FILES or chars > MAX_TOTAL_CHARS:
        raise UsageError(
            f"The prompt mentions {len(files)} files with {chars:,} characters; the limits are {MAX_FILES} files and "
            f"{MAX_TOTAL_CHARS:,} characters.",
            hint="Mention a part of a file with #L10-20, or let the agent read them.",
        )
