"""Finds and reads the files of a review that another tool wrote. Nothing in them is trusted.

A session of mcp-claude-reviewer is a folder:

    .reviews/sessions/2025-07-01-003/
        session.json            the review with all its rounds
        request.json            what the author asked for; session.json has it as well
        changes.diff            what the first round compared
        round-1/review.json     a round; session.json has it as well, unless the tool died in between
        final-notes.txt         the author's words when the review was closed

Files inside are read by these names alone. A link is refused: it could lead to any file of the user.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.errors import UsageError
from clew.hosts.validation import read_plain

SESSION, REQUEST, DIFF, NOTES = "session.json", "request.json", "changes.diff", "final-notes.txt"
ROUND_FILE = re.compile(r"round-(\d{1,4})/review\.json\Z")
_ROUND_FOLDER = re.compile(r"round-\d{1,4}\Z")
STORAGE, SESSIONS = ".reviews", "sessions"  # the folders above a session

FILE_MAX_BYTES = 50_000_000
FOLDER_MAX_BYTES = 150_000_000
DIFF_MAX_BYTES = 20_000_000
MAX_ROUNDS = 1_000
MAX_DEPTH = 40  # of lists and objects in each other; the tool's own files have seven

Files = Mapping[str, bytes]  # by name, as in the folder of a session


def read_path(path: Path) -> Files:
    """The files of a session's folder, also when its session.json is named; else the one file. Raises UsageError."""
    try:
        _refuse_link(path)
        if path.is_dir():
            return _folder(path)
        return _folder(path.parent) if path.name == SESSION else {path.name: _content(path)}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'It cannot be read'}.") from error
    except ValueError as error:  # a name with a NUL in it
        raise UsageError(f"{str(path)!r} cannot be a file.") from error


def project_of(path: Path) -> Path | None:
    """The project whose `.reviews` folder holds the session. None: the path is not in such a folder."""
    for folder in path.absolute().parents:
        if folder.name == SESSIONS and folder.parent.name == STORAGE:
            return folder.parent.parent
    return None


def parsed(name: str, content: bytes) -> dict[str, Any]:
    """The JSON object in a file. Raises UsageError."""
    if len(content) > FILE_MAX_BYTES:
        raise UsageError(f"{name} is too large for a review: the limit is {FILE_MAX_BYTES:,} bytes.")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is not a JSON file.", hint="Name a review file of the old tool.") from error
    if not isinstance(body, dict):
        raise UsageError(f"{name} is not a review: it holds no JSON object.")
    _check_depth(name, body)
    return body


def _folder(folder: Path) -> Files:
    rounds = [each for each in folder.iterdir() if _ROUND_FOLDER.match(each.name)]
    if len(rounds) > MAX_ROUNDS:
        raise UsageError(f"{folder} has {len(rounds):,} rounds; the limit is {MAX_ROUNDS:,}.")
    for each in rounds:
        _refuse_link(each)
    names = (SESSION, REQUEST, DIFF, NOTES, *(f"{each.name}/review.json" for each in rounds))
    found: dict[str, bytes] = {}
    for name in names:
        if (folder / name).is_symlink() or (folder / name).exists():
            found[name] = _content(folder / name)
        if sum(map(len, found.values())) > FOLDER_MAX_BYTES:
            raise UsageError(f"{folder} is too large for a review: the limit is {FOLDER_MAX_BYTES:,} bytes.")
    if not any(name == SESSION or ROUND_FILE.match(name) for name in found):
        raise UsageError(f"{folder} is not a review: it has no {SESSION}.", hint=_folder_hint(folder))
    return found


def _folder_hint(folder: Path) -> str:
    for inner in (folder / SESSIONS, folder / STORAGE / SESSIONS):
        if inner.is_dir():
            return f"Name the sessions in it: {inner}/*"
    return f"Name the folder of a session, such as {STORAGE}/{SESSIONS}/2025-07-01-003."


def _content(path: Path) -> bytes:
    """At most one byte more than is allowed: the reader refuses it, or leaves it out."""
    _refuse_link(path)
    return read_plain(path, FILE_MAX_BYTES)


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise UsageError(f"{path} is a link.", hint="Name the file or folder itself; only real files are imported.")


def _check_depth(name: str, body: Any) -> None:
    level, depth = [body], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise UsageError(f"{name} is not a review: its values are nested more than {MAX_DEPTH} deep.")
        inside: list[Any] = []
        for each in level:
            inside += each.values() if isinstance(each, dict) else each
        level = [each for each in inside if isinstance(each, dict | list)]
