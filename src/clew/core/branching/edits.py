"""What agents' tools wrote to files, as far as the events of runs say, and how the edits of two threads differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from enum import StrEnum
from operator import is_

from clew.core.record import Record

MAX_DIFF_CHARS = 200_000  # both texts together; no diff is made of longer ones
MAX_DIFF_LINES = 5_000  # likewise: the work grows with the square of the lines


class EditKind(StrEnum):
    WRITE = "write"  # the whole file
    CHANGE = "change"  # a part of it
    DELETE = "delete"


class FileEdit(Record):
    """One edit of one file. A text is None if the event does not contain it."""

    path: str
    kind: EditKind
    old: str | None = None  # of a change: the replaced text
    new: str | None = None
    everywhere: bool = False  # the change replaces every occurrence of the old text

    @property
    def is_known(self) -> bool:
        return self.kind is EditKind.DELETE or self.new is not None


class FileDiffKind(StrEnum):
    SAME = "same"
    CHANGED = "changed"
    BOTH = "both"  # both threads edited it, and some of the text is not known
    ONLY_A = "only_a"
    ONLY_B = "only_b"


class FileDiff(Record):
    """A file that either thread edited."""

    path: str
    step: FileDiffKind
    a: tuple[FileEdit, ...]
    b: tuple[FileEdit, ...]


def compare_files(a: Sequence[FileEdit], b: Sequence[FileEdit]) -> list[FileDiff]:
    """Every path once, sorted."""
    ours, theirs = _by_path(a), _by_path(b)
    return [
        FileDiff(path, _step(ours.get(path, ()), theirs.get(path, ())), ours.get(path, ()), theirs.get(path, ()))
        for path in sorted(ours.keys() | theirs.keys())
    ]


def _by_path(edits: Sequence[FileEdit]) -> Mapping[str, tuple[FileEdit, ...]]:
    found: dict[str, tuple[FileEdit, ...]] = {}
    for edit in edits:
        found[edit.path] = (*found.get(edit.path, ()), edit)
    return found


def _step(a: tuple[FileEdit, ...], b: tuple[FileEdit, ...]) -> FileDiffKind:
    if not a or not b:
        return FileDiffKind.ONLY_A if a else FileDiffKind.ONLY_B
    if len(a) == len(b) and all(map(is_, a, b)):  # the very same edits: a fork has copied them
        return FileDiffKind.SAME
    if not all(edit.is_known for edit in (*a, *b)):
        return FileDiffKind.BOTH
    ends = content_after(a), content_after(b)
    return FileDiffKind.SAME if a == b or (ends[0] is not None and ends[0] == ends[1]) else FileDiffKind.CHANGED


def content_after(edits: Sequence[FileEdit], text: str | None = None) -> str | None:
    """The content of the file after the edits; "" if it was deleted. None: the edits do not say.

    `text` is the content before, if it is known.
    """
    for edit in edits:
        match edit.kind:
            case EditKind.WRITE:
                text = edit.new
            case EditKind.DELETE:
                text = ""
            case EditKind.CHANGE if text is not None and edit.old and edit.new is not None and edit.old in text:
                text = text.replace(edit.old, edit.new, -1 if edit.everywhere else 1)
            case _:
                text = None
    return text


def diff_lines(file: FileDiff, names: tuple[str, str], context: int = 3) -> list[str]:
    """The diff of the final contents; if they are not known, of each edit. Empty: not known, or too long."""
    ends = content_after(file.a), content_after(file.b)
    if file.a and file.b and ends[0] is not None and ends[1] is not None:
        return _diff(ends[0], ends[1], f"{names[0]}/{file.path}", f"{names[1]}/{file.path}", context)
    lines: list[str] = []
    for name, edits in zip(names, (file.a, file.b), strict=True):
        known = [edit for edit in edits if edit.is_known and edit.kind is not EditKind.DELETE]
        for edit in known:
            lines += _diff(edit.old or "", edit.new or "", file.path, f"{name}/{file.path}", context)
    return lines


def _diff(old: str, new: str, old_name: str, new_name: str, context: int) -> list[str]:
    if len(old) + len(new) > MAX_DIFF_CHARS:
        return []
    a, b = old.splitlines(), new.splitlines()
    if len(a) + len(b) > MAX_DIFF_LINES:
        return []
    return list(unified_diff(a, b, old_name, new_name, n=context, lineterm=""))
