"""Codex's sessions whose beginning is in another file: copies, and sessions in which somebody went back.

Such a file holds only what came after that. Its first line names the file that it continues (`history_base`; older
versions name only the session, in `forked_from_id`), and the number (`ordinal`) of the line where that part ends. Its
own lines are numbered from there on, so the number that a copy of a copy names may lie in the first session's file:
then nothing of the second file belongs to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.agents.codex.location import file_named, home_of
from clew.agents.json_lines import decode
from clew.core.record import Record

MAX_FORKS = 100  # how many levels of copies of copies are followed


class Origin(Record):
    """A file with the beginning of a copied session."""

    path: Path
    until: int | None  # the number of the first line that was not copied; None: all lines were copied


def is_copy(first_line: bytes) -> bool:
    return _forked_from(first_line) is not None


def origins(path: Path) -> list[Origin] | None:
    """The files that a copy continues from, the oldest first (reads the disk). None: one of them is gone."""
    found: list[Origin] = []
    until: int | None = None
    for _ in range(MAX_FORKS):
        with path.open("rb") as file:
            forked = _forked_from(file.readline())
        if forked is None:
            return found[::-1]
        path_of_origin = _path_of(forked[0], path)
        if path_of_origin is None:
            return None
        ends = [end for end in (until, forked[1]) if end is not None]
        until = min(ends, default=None)
        found.append(Origin(path_of_origin, until))
        path = path_of_origin
    return None


def origin_files(path: Path) -> tuple[tuple[Path, int], ...]:
    """The files that hold the beginning of a copy, each with the byte where it ends."""
    return tuple((origin.path, _end_of(origin)) for origin in origins(path) or ())


def is_before(line: Mapping[str, Any], until: int | None) -> bool:
    """Whether the line belongs to the part of its file that was copied."""
    ordinal = line.get("ordinal")
    return until is None or not isinstance(ordinal, int) or ordinal < until


def _end_of(origin: Origin) -> int:
    """The byte where the line with that number begins, or where the file ends."""
    end = 0
    with origin.path.open("rb") as file:
        for line in file:
            if origin.until is not None and not is_before(decode(line) or {}, origin.until):
                break
            end += len(line)
    return end


def _path_of(file_id: str, copy: Path) -> Path | None:
    home = home_of(copy)
    found = file_named(str(home), file_id) if home is not None else None
    return found if found != copy else None


def _forked_from(line: bytes) -> tuple[str, int | None] | None:
    """The id of the file that a copy's first line names, and the line up to which it was copied."""
    payload = (decode(line) or {}).get("payload")
    if not isinstance(payload, Mapping):
        return None
    base = payload.get("history_base")
    if isinstance(base, Mapping):
        origin, until = base.get("thread_id"), base.get("end_ordinal_exclusive")
    else:
        origin, until = payload.get("forked_from_id"), payload.get("forked_from_ordinal_exclusive")
    return (str(origin), until if isinstance(until, int) else None) if origin else None
